//! A dozen lines: arm a timeout, push another one out, cancel a third.
//!
//! ```toml
//! [dependencies]
//! tourbillon = { path = "../tourbillon" }
//! ```

use std::time::Duration;

use tourbillon::Timer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let timer = Timer::new()?;
    timer.schedule_detached(Duration::from_millis(100), || println!("0.1 s have passed"))?;
    let idle = timer.schedule(Duration::from_millis(50), || println!("idle for 0.3 s"))?;
    // One compare-and-swap, from any thread.
    if !idle.reset(Duration::from_millis(300)) {
        println!("too late: it has fired in this very moment");
    }
    let deadline = timer.schedule(Duration::from_millis(200), || unreachable!("it was cancelled"))?;
    assert!(deadline.cancel()); // it has not run and never will
    std::thread::sleep(Duration::from_millis(400));
    println!("{} pending, {} fired", timer.pending(), timer.stats().fired);
    Ok(())
}
