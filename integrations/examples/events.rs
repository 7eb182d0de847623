//! The log that an operator reads: a task that panics, and a task that holds a worker up.
//!
//! ```toml
//! [dependencies]
//! tourbillon = { path = "../tourbillon", features = ["tracing"] }
//! tracing = { version = "0.1.41", default-features = false }
//! tracing-subscriber = { version = "0.3", default-features = false, features = ["fmt", "std"] }
//! ```

use std::sync::mpsc;
use std::time::Duration;

use tourbillon::{Inline, Timer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Prints all events of `tracing`. `RUST_LOG` and the feature `env-filter` can select ours by
    // the target `tourbillon`.
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_thread_names(true)
        .with_writer(std::io::stderr)
        .init();
    // The panic is in the log. The default hook would print it a second time.
    std::panic::set_hook(Box::new(|_| {}));

    // Runs tasks on the worker itself, where a task that blocks holds up all others. The default is
    // a pool.
    let timer = Timer::builder().shards(1).executor(Inline).build()?;
    let (tell, told) = mpsc::channel();
    timer.schedule_detached(Duration::from_millis(10), || panic!("a bug"))?;
    timer.schedule_detached(Duration::from_millis(20), || std::thread::sleep(Duration::from_millis(150)))?;
    timer.schedule_detached(Duration::from_millis(30), move || _ = tell.send(()))?;
    told.recv()?;
    // The second task ran all the same, late. The counters show the panic, too.
    println!("panicked: {}, fired: {}", timer.stats().panicked, timer.stats().fired);
    assert_eq!(timer.stats().panicked, 1);
    Ok(())
}
