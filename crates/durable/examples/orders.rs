//! A shop closes orders that are not paid in time. Its process is killed in the middle, and the
//! next one goes on.
//!
//! ```text
//! cargo run -p tourbillon-durable --example orders
//! ```

use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use tourbillon::Timer;
use tourbillon_durable::{Commit, DurableTimer, Outcome};

/// The orders of this shop, which come up one after the other, each 200 ms.
const ORDERS: u64 = 20;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => kill_and_go_on(),
        [store, what] => shop(store, what),
        _ => anyhow::bail!("no arguments are needed"),
    }
}

/// The demonstration: this program starts itself as the shop, twice.
fn kill_and_go_on() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let store = directory.path().join("timeouts.db");
    let mut first = start(&store, "open")?;
    thread::sleep(Duration::from_millis(2_500));
    first.kill()?; // SIGKILL: it can't do anything about it
    first.wait()?;
    println!("-- killed; the next one opens the same file");
    let status = start(&store, "go-on")?.wait()?;
    anyhow::ensure!(status.success(), "the second shop ended with {status}");
    Ok(())
}

fn start(store: &Path, what: &str) -> anyhow::Result<Child> {
    let program = std::env::current_exe()?;
    Command::new(program).arg(store).arg(what).spawn().context("this program can be started")
}

/// One process of the shop.
fn shop(store: &str, what: &str) -> anyhow::Result<()> {
    let timer = Timer::new()?;
    let timers = DurableTimer::open(store)?
        .handler("close_order", |due| {
            let late = due.due().elapsed().unwrap_or_default();
            println!("{} is closed, {late:.1?} late, attempt {}", due.key(), due.attempt());
            Outcome::Done
        })
        .start(&timer)?;
    if what == "open" {
        for order in 1..=ORDERS {
            let delay = Duration::from_millis(200 * order);
            timers.schedule(&format!("order:{order}"), delay, "close_order", b"")?.wait()?;
        }
        println!("-- {ORDERS} orders are on disk");
        // Order 20 is paid: its timeout is cancelled.
        anyhow::ensure!(timers.cancel(&format!("order:{ORDERS}"))?.wait()?, "it waits");
    }
    let start = Instant::now();
    while (1..ORDERS).any(|order| is_pending(&timers, order)) {
        anyhow::ensure!(start.elapsed() < Duration::from_secs(60), "an order was lost");
        thread::sleep(Duration::from_millis(50));
    }
    println!("-- no order is left");
    Ok(())
}

fn is_pending(timers: &DurableTimer, order: u64) -> bool {
    let row = timers.get(&format!("order:{order}")).map(Commit::wait);
    !matches!(row, Ok(Ok(None)))
}
