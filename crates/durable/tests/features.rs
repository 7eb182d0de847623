//! The features `json`, `metrics` and `tracing`.

#![cfg(all(feature = "json", feature = "metrics", feature = "tracing"))]

mod stores;

use std::io::Write;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stores::{Start, each_store};
use tourbillon_durable::{DurableTimer, Outcome};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    number: u64,
    customer: String,
}

#[test]
fn a_payload_in_json_comes_back_as_it_was() {
    each_store(|place| {
        let (sender, orders) = mpsc::channel();
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("close_order", move |due| {
                sender.send(due.json::<Order>().unwrap()).unwrap();
                Outcome::Done
            })
            .started();
        let order = Order { number: 42, customer: "Ада".to_owned() };
        timers.schedule_json("order:42", Duration::ZERO, "close_order", &order).unwrap().wait().unwrap();
        assert_eq!(orders.recv_timeout(Duration::from_secs(30)).unwrap(), order);
    });
}

#[test]
fn each_counter_is_published() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    each_store(|place| {
        let timers = DurableTimer::open(place.url()).unwrap().handler("close_order", |_due| Outcome::Done).started();
        timers.schedule("order:42", Duration::ZERO, "close_order", b"").unwrap().wait().unwrap();
        stores::until(|| timers.stats().completed == 1);
        metrics::with_local_recorder(&recorder, || tourbillon_durable::metrics::publish(&timers));
        let page = page.render();
        for line in ["tourbillon_durable_completed_total 1", "tourbillon_durable_held 0"] {
            assert!(page.contains(line), "no {line:?} in {page}");
        }
        assert!(page.contains("tourbillon_durable_lateness_seconds{quantile=\"0.99\"}"), "{page}");
    });
}

/// The text of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_operator_is_told_of_a_panic_and_of_a_dead_letter() {
    let log = Log::default();
    let writer = log.clone();
    // For all threads: the events are those of the writer's.
    tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();
    each_store(|place| {
        let timers = DurableTimer::open(place.url())
            .unwrap()
            .handler("fails", |_due| panic!("as the test wants it"))
            .max_attempts(1)
            .started();
        timers.schedule("order:42", Duration::ZERO, "fails", b"").unwrap().wait().unwrap();
        stores::until(|| timers.stats().dead_lettered == 1);
        timers.stop();
        let text = String::from_utf8(std::mem::take(&mut *log.0.lock().unwrap())).unwrap();
        for event in ["a handler has panicked", "a timeout was given up", "order:42"] {
            assert!(text.contains(event), "no {event:?} in {text}");
        }
    });
}
