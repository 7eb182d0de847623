//! Timeouts that run on a Tokio runtime, and futures that sleep on a runtime without a time driver.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["macros", "rt-multi-thread", "sync"] }
//! tourbillon = { path = "../tourbillon", features = ["tokio"] }
//! ```

use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tourbillon::Timer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Neither `enable_time` nor `enable_all`.
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("runtime").build()?;
    runtime.block_on(async {
        let timer = Timer::builder().executor(Handle::current()).build()?;
        let (tell, told) = tokio::sync::oneshot::channel();
        timer.schedule_detached(Duration::from_millis(20), || {
            println!("a timeout runs on a thread called {:?}", std::thread::current().name());
            tokio::spawn(async { tell.send("and may spawn") });
        })?;
        let said = told.await?;
        println!("{said}");
        assert_eq!(said, "and may spawn");
        tokio::select! {
            () = std::future::pending() => {}
            () = timer.sleep(Duration::from_millis(20)) => println!("20 ms later"),
        }
        let slow = timer.timeout(Duration::from_millis(20), std::future::pending::<()>()).await;
        let elapsed = slow.expect_err("it is never ready");
        println!("{elapsed}");
        Ok(())
    })
}
