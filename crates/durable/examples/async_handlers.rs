//! Async handlers on Tokio, each with a limit of its own. One service hangs, one fails at first,
//! and one is paused for a while. None holds up another.
//!
//! ```text
//! cargo run -p tourbillon-durable --example async_handlers
//! ```

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tourbillon::Timer;
use tourbillon_durable::{Due, DurableTimer, HandlerOptions, Outcome, RetryPolicy, RunFuture};

fn main() -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let timer = Timer::new()?;
    let timers = DurableTimer::open(directory.path().join("timeouts.db"))?
        // 100 calls at a time, on two threads. A call to a service that may hang has a limit.
        .async_handler("ship", HandlerOptions::new().limit(100), on_tokio(), |due| async move {
            match timeout(Duration::from_secs(1), call_a_service_that_hangs(&due)).await {
                Ok(()) => Outcome::Done,
                Err(_) => Outcome::RetryAfter(Duration::from_secs(60)),
            }
        })
        // Tried again after 0.1 s, 0.2 s, 0.4 s and so on, each a little more or less.
        .async_handler("charge", retried(), on_tokio(), |due| async move {
            let result = charge(&due).await;
            println!("charge {}, attempt {}: {result:?}", due.key(), due.attempt());
            if result.is_ok() { Outcome::Done } else { Outcome::Retry }
        })
        .async_handler("mail", HandlerOptions::new().limit(2), on_tokio(), |due| async move {
            sleep(Duration::from_millis(50)).await;
            println!("mail {}", due.key());
            Outcome::Done
        })
        .start(&timer)?;

    timers.pause("mail")?;
    for order in 0..300 {
        timers.schedule(&format!("ship:{order}"), Duration::ZERO, "ship", b"")?.await?;
    }
    for order in 0..3 {
        timers.schedule(&format!("charge:{order}"), Duration::ZERO, "charge", b"")?.await?;
        timers.schedule(&format!("mail:{order}"), Duration::ZERO, "mail", b"")?.await?;
    }
    wait_for(&timers, 3).await?;
    println!("-- all are charged; mail was paused, and {} calls hang or wait", timers.stats().running);
    timers.resume("mail")?;
    wait_for(&timers, 6).await?;

    // It waits for the calls that are under way, and blocks meanwhile: not a thread of the runtime.
    let stopping = timers.clone();
    tokio::task::spawn_blocking(move || stopping.stop()).await?;
    println!("-- stopped; what is not shipped is in the store");
    Ok(())
}

/// Returns a function that gives runs to the runtime of the caller.
fn on_tokio() -> impl Fn(RunFuture) + Send + Sync + 'static {
    let tokio = Handle::current();
    move |run| drop(tokio.spawn(run))
}

fn retried() -> HandlerOptions {
    let policy = RetryPolicy::exponential(Duration::from_millis(100), Duration::from_secs(60)).jitter(0.1);
    HandlerOptions::new().retry(policy).max_attempts(8)
}

async fn call_a_service_that_hangs(_due: &Due) {
    std::future::pending().await
}

/// A service that is down at first.
async fn charge(due: &Due) -> Result<(), &'static str> {
    sleep(Duration::from_millis(20)).await;
    if due.attempt() < 3 { Err("503") } else { Ok(()) }
}

async fn wait_for(timers: &DurableTimer, completed: u64) -> anyhow::Result<()> {
    let all = async {
        while timers.stats().completed < completed {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), all).await.context("one has held up another")
}
