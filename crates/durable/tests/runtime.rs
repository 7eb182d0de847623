//! In the threads of an async runtime.

mod stores;

use std::time::Duration;

use stores::{Start, each_store, until};
use tourbillon::Timer;
use tourbillon_durable::{DurableTimer, Outcome};

#[test]
fn an_async_main_opens_and_drops_timers() {
    each_store(|place| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let open = || DurableTimer::open(place.url()).unwrap().handler("report", |_due| Outcome::Done);
            drop(open());
            assert!(open().threads(0).start(&Timer::new().unwrap()).is_err());
            let timers = open().started();
            timers.schedule("order:1", Duration::from_secs(3_600), "report", b"").unwrap().await.unwrap();
            assert!(timers.cancel("order:1").unwrap().await.unwrap());
            until(|| timers.stats().cancelled == 1);
        });
    });
}
