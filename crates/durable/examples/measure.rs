//! Measures durable timeouts: how late they are, how many a second, and how a restart goes.
//!
//! ```text
//! cargo run --release -p tourbillon-durable --all-features --example measure -- --help
//! cargo run --release -p tourbillon-durable --all-features --example measure
//! cargo run --release -p tourbillon-durable --all-features --example measure -- --postgres
//! ```

#[path = "measure/own.rs"]
mod own;
#[cfg(feature = "postgres")]
#[path = "../tests/support/postgres.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod postgres;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use anyhow::Context;
use clap::{Parser, Subcommand};
use comfy_table::Table;
use hdrhistogram::Histogram;
use serde::Serialize;
use tourbillon::Timer;
use tourbillon_durable::{Builder, Due, DurableTimer, Outcome, Stats};

/// How long the server of `--postgres` may take.
#[cfg(feature = "postgres")]
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const PAYLOAD: [u8; 64] = [7; 64];

/// Measures durable timeouts, in a file below the current directory, or in PostgreSQL.
#[derive(Parser)]
struct Options {
    /// Use a PostgreSQL server that is started for this.
    #[arg(long, conflicts_with = "store")]
    postgres: bool,
    /// Use this store: a path, or a URL of PostgreSQL. Its tables should be empty.
    #[arg(long)]
    store: Option<String>,
    /// Timeouts that are far away, in the store before the measurement.
    #[arg(long, default_value_t = 1_000_000)]
    pending: u64,
    /// Write the figures to this file as JSON.
    #[arg(long)]
    json: Option<std::path::PathBuf>,
    /// The measurement; by default all but `idle` and `own`.
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Clone, Copy, Subcommand)]
enum What {
    /// How late handlers begin.
    Lateness {
        /// Timeouts that come up each second.
        #[arg(long, default_value_t = 5_000)]
        rate: u64,
        /// How many seconds.
        #[arg(long, default_value_t = 15)]
        seconds: u64,
    },
    /// How late handlers begin of what was scheduled in transactions of the user's, beside others.
    Own {
        /// How many of each kind are scheduled a second.
        #[arg(long, default_value_t = 10)]
        rate: u64,
        /// How many seconds.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
    },
    /// Schedules a second, of threads that wait for their own commits, a thousand at a time.
    Schedules {
        /// How many threads.
        #[arg(long, default_value_t = 8)]
        threads: u64,
        /// How many schedules in all.
        #[arg(long, default_value_t = 800_000)]
        count: u64,
    },
    /// Timeouts a second that are scheduled, run and deleted.
    Cycle {
        /// How many threads.
        #[arg(long, default_value_t = 8)]
        threads: u64,
        /// How many timeouts in all.
        #[arg(long, default_value_t = 400_000)]
        count: u64,
        /// The delays are spread evenly over this time; without, each is 500 ms.
        #[arg(long)]
        spread_ms: Option<u64>,
    },
    /// When the first overdue timeout runs after a start, and how many run in each second.
    Restart,
    /// How many queries a process makes that has nothing to do.
    Idle {
        /// How many seconds.
        #[arg(long, default_value_t = 120)]
        seconds: u64,
    },
}

#[derive(Serialize)]
struct Figure {
    store: &'static str,
    what: String,
    value: String,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut figures = Vec::new();
    let all = vec![
        What::Lateness { rate: 5_000, seconds: 15 },
        What::Schedules { threads: 8, count: 800_000 },
        What::Cycle { threads: 8, count: 400_000, spread_ms: None },
        What::Restart,
    ];
    for what in options.what.map_or(all, |what| vec![what]) {
        let place = Place::new(&options)?;
        measure(what, &options, &place, &mut figures)?;
    }
    let mut table = Table::new();
    table.set_header(["store", "what", "value"]);
    for Figure { store, what, value } in &figures {
        table.add_row([*store, what, value]);
    }
    println!("{table}");
    if let Some(path) = &options.json {
        fs::write(path, serde_json::to_string_pretty(&figures)?).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// A store of a measurement's own, which goes with it.
struct Place {
    url: String,
    name: &'static str,
    _directory: Option<tempfile::TempDir>,
    #[cfg(feature = "postgres")]
    _server: Option<postgres::Server>,
}

impl Place {
    fn new(options: &Options) -> anyhow::Result<Self> {
        let name = |url: &str| if url.starts_with("postgres") { "PostgreSQL" } else { "SQLite" };
        if options.postgres {
            return Self::server();
        }
        let (url, directory) = if let Some(store) = &options.store {
            (store.clone(), None)
        } else {
            let directory = tempfile::tempdir_in(".")?;
            (directory.path().join("timeouts.db").to_string_lossy().into_owned(), Some(directory))
        };
        Ok(Self {
            name: name(&url),
            url,
            _directory: directory,
            #[cfg(feature = "postgres")]
            _server: None,
        })
    }

    #[cfg(feature = "postgres")]
    fn server() -> anyhow::Result<Self> {
        let server = postgres::Server::start().context("PostgreSQL is not installed")?;
        Ok(Self { url: server.url(), name: "PostgreSQL", _directory: None, _server: Some(server) })
    }

    #[cfg(not(feature = "postgres"))]
    fn server() -> anyhow::Result<Self> {
        anyhow::bail!("--postgres needs the feature `postgres`")
    }

    fn open(&self) -> anyhow::Result<Builder> {
        Ok(DurableTimer::open(&self.url)?)
    }
}

fn measure(what: What, options: &Options, place: &Place, figures: &mut Vec<Figure>) -> anyhow::Result<()> {
    let mut figure = |what: String, value: String| {
        eprintln!("{}: {what}: {value}", place.name);
        figures.push(Figure { store: place.name, what, value });
    };
    match what {
        What::Lateness { rate, seconds } => {
            let (lateness, stats) = lateness(options, place, rate, seconds)?;
            let ms = |micros: u64| format!("{:.2} ms", micros as f64 / 1_000.0);
            let at = format!("{} pending, {rate} due a second", options.pending);
            figure(format!("lateness p50, {at}"), ms(lateness.value_at_quantile(0.5)));
            figure(format!("lateness p99, {at}"), ms(lateness.value_at_quantile(0.99)));
            figure(format!("lateness p99.9, {at}"), ms(lateness.value_at_quantile(0.999)));
            figure(format!("lateness max, {at}"), ms(lateness.max()));
            figure(format!("ran, {at}"), format!("{} of {}", lateness.len(), rate * seconds));
            figure("operations in a commit".to_owned(), format!("{:.1}", stats.written as f64 / stats.commits as f64));
        }
        What::Own { rate, seconds } => {
            for (delay, kinds) in own::DELAYS.iter().zip(own::own(options, place, rate, seconds)?) {
                for (kind, lateness) in ["in a transaction", "by itself"].iter().zip(kinds) {
                    let ms = |quantile| lateness.value_at_quantile(quantile) as f64 / 1_000.0;
                    let at = format!("scheduled {kind}, due after {delay} s, {} pending", options.pending);
                    figure(format!("lateness p50 / p99, {at}"), format!("{:.2} / {:.2} ms", ms(0.5), ms(0.99)));
                }
            }
        }
        What::Schedules { threads, count } => {
            let per_second = schedules(place, threads, count, HOUR)?;
            figure(format!("schedules a second, {threads} threads, {count}"), format!("{per_second:.0}"));
        }
        What::Cycle { threads, count, spread_ms } => {
            let per_second = cycle(place, threads, count, spread_ms)?;
            figure(
                format!("scheduled, run and deleted a second, {threads} threads, {count}"),
                format!("{per_second:.0}"),
            );
        }
        What::Restart => {
            let (first, each_second) = restart(options, place)?;
            figure(format!("first run after a start with {} overdue", options.pending), format!("{first:.0?}"));
            figure("runs in each second after it".to_owned(), format!("{each_second:?}"));
        }
        What::Idle { seconds } => {
            let queries = idle(place, seconds)?;
            figure("queries a minute of an idle process".to_owned(), format!("{queries:.1}"));
        }
    }
    Ok(())
}

/// Schedules `count` timeouts and waits for each, a thousand at a time.
fn schedule_all(timers: &DurableTimer, prefix: &str, count: u64, delay: impl Fn(u64) -> Duration) {
    let mut number = 0;
    while number < count {
        let end = count.min(number + 1_000);
        let writes: Vec<_> = (number..end)
            .map(|number| {
                // Keys as random as a UUID: the worst for an index.
                let key = format!("{prefix}{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                loop {
                    match timers.schedule(&key, delay(number), "handler", PAYLOAD) {
                        Ok(write) => return write,
                        Err(_full) => thread::sleep(Duration::from_millis(1)),
                    }
                }
            })
            .collect();
        for write in writes {
            write.wait().expect("the store takes it");
        }
        number = end;
    }
}

fn fill(timers: &DurableTimer, count: u64, delay: Duration) {
    thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || schedule_all(timers, &format!("far:{part}:"), count / 4, |_| delay));
        }
    });
}

fn lateness(options: &Options, place: &Place, rate: u64, seconds: u64) -> anyhow::Result<(Histogram<u64>, Stats)> {
    let lateness = Arc::new(Mutex::new(Histogram::<u64>::new(3)?));
    let record = Arc::clone(&lateness);
    let timers = place
        .open()?
        .handler("handler", move |due: Due| {
            let late = SystemTime::now().duration_since(due.due()).expect("it is never early");
            record.lock().unwrap().record(micros(late)).expect("it grows");
            Outcome::Done
        })
        .start(&Timer::new()?)?;
    fill(&timers, options.pending, 100 * HOUR);
    thread::sleep(Duration::from_secs(3));
    let start = Instant::now();
    let (mut number, mut writes) = (0, Vec::new());
    while number < rate * seconds {
        let now = (micros(start.elapsed()) * rate / 1_000_000).min(rate * seconds);
        for number in number..now {
            let key = format!("due:{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            writes.push(timers.schedule(&key, Duration::from_secs(2), "handler", PAYLOAD)?);
        }
        number = now;
        thread::sleep(Duration::from_micros(500));
    }
    for write in writes {
        write.wait()?;
    }
    wait_for(|| timers.stats().completed >= rate * seconds);
    let stats = timers.stats();
    timers.stop();
    let lateness = lateness.lock().unwrap().clone();
    Ok((lateness, stats))
}

fn schedules(place: &Place, threads: u64, count: u64, delay: Duration) -> anyhow::Result<f64> {
    let timers = place.open()?.handler("handler", |_| Outcome::Done).start(&Timer::new()?)?;
    let start = Instant::now();
    schedule_from(&timers, threads, count, |_| delay);
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn schedule_from(timers: &DurableTimer, threads: u64, count: u64, delay: impl Fn(u64) -> Duration + Copy + Send) {
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || schedule_all(timers, &format!("{thread}:"), count / threads, delay));
        }
    });
}

fn cycle(place: &Place, threads: u64, count: u64, spread_ms: Option<u64>) -> anyhow::Result<f64> {
    let timers = place.open()?.handler("handler", |_| Outcome::Done).start(&Timer::new()?)?;
    let start = Instant::now();
    let delay = |number| Duration::from_millis(spread_ms.map_or(500, |spread| number * 7_919 % spread));
    schedule_from(&timers, threads, count, delay);
    wait_for(|| timers.stats().completed >= count / threads * threads);
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn restart(options: &Options, place: &Place) -> anyhow::Result<(Duration, Vec<u64>)> {
    // This process has no handler for them, so they stay where they are.
    let timers = place.open()?.elsewhere("handler").start(&Timer::new()?)?;
    fill(&timers, options.pending, Duration::ZERO);
    drop(timers);
    thread::sleep(Duration::from_secs(2));
    let start = Instant::now();
    let first = Arc::new(Mutex::new(None));
    let runs = Arc::new(AtomicU64::new(0));
    let (noted, count) = (Arc::clone(&first), Arc::clone(&runs));
    let timers = place
        .open()?
        .handler("handler", move |_| {
            noted.lock().unwrap().get_or_insert_with(|| start.elapsed());
            count.fetch_add(1, Ordering::Relaxed);
            Outcome::Done
        })
        .start(&Timer::new()?)?;
    wait_for(|| runs.load(Ordering::Relaxed) > 0);
    let (mut before, mut each_second) = (0, Vec::new());
    for _ in 0..8 {
        thread::sleep(Duration::from_secs(1));
        let now = runs.load(Ordering::Relaxed);
        each_second.push(now - before);
        before = now;
    }
    timers.stop();
    let first = first.lock().unwrap().expect("one has run");
    Ok((first, each_second))
}

fn idle(place: &Place, seconds: u64) -> anyhow::Result<f64> {
    let timers = place.open()?.handler("handler", |_| Outcome::Done).start(&Timer::new()?)?;
    schedule_all(&timers, "far:", 10_000, |_| HOUR);
    let queries = |stats: Stats| stats.scans + stats.renewals + stats.commits;
    let before = queries(timers.stats());
    thread::sleep(Duration::from_secs(seconds));
    Ok((queries(timers.stats()) - before) as f64 * 60.0 / seconds as f64)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).expect("less than 500,000 years")
}

fn wait_for(holds: impl Fn() -> bool) {
    while !holds() {
        thread::sleep(Duration::from_millis(1));
    }
}
