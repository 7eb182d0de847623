//! What an operator is told: a task that panics, and one that holds a worker up, as lines of a log.

use std::sync::mpsc;
use std::time::Duration;

use tourbillon::{Inline, Timer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // All that goes through `tracing`, or only ours: `RUST_LOG` and the feature `env-filter` choose by the target, `tourbillon`.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_thread_names(true)
        .with_writer(std::io::stderr)
        .init();
    // The panic is in the log: the default hook would print it once more.
    std::panic::set_hook(Box::new(|_| {}));

    // On the worker itself, where a task that blocks holds up all others: the default is a pool.
    let timer = Timer::builder().shards(1).executor(Inline).build()?;
    let (tell, told) = mpsc::channel();
    timer.schedule_detached(Duration::from_millis(10), || panic!("a bug"))?;
    timer.schedule_detached(Duration::from_millis(20), || std::thread::sleep(Duration::from_millis(150)))?;
    timer.schedule_detached(Duration::from_millis(30), move || _ = tell.send(()))?;
    told.recv()?;
    // It came all the same, late; and the counters say so, too.
    println!("panicked: {}, fired: {}", timer.stats().panicked, timer.stats().fired);
    Ok(())
}
