//! Timeouts that run on a Rayon pool. A task may spread its work over all of the pool's threads.
//!
//! ```toml
//! [dependencies]
//! rayon = "1.10"
//! tourbillon = { path = "../tourbillon", features = ["rayon"] }
//! ```

use std::sync::{Arc, mpsc};
use std::time::Duration;

use rayon::prelude::*;
use rayon::{ThreadPoolBuilder, current_thread_index};
use tourbillon::Timer;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // In an `Arc`, as the pool does other work, too.
    let pool = Arc::new(ThreadPoolBuilder::new().num_threads(2).build()?);
    let timer = Timer::builder().executor(Arc::clone(&pool)).build()?;

    let (tell, told) = mpsc::channel();
    timer.schedule_detached(Duration::from_millis(20), move || {
        println!("a timeout runs on the pool's thread {:?}", current_thread_index());
        // On both threads.
        let squares: u64 = (0..1_000_000_u64).into_par_iter().map(|n| n * n % 7).sum();
        _ = tell.send(squares);
    })?;
    let sum = told.recv()?;
    println!("it came to {sum}");
    assert_eq!(sum, (0..1_000_000_u64).map(|n| n * n % 7).sum());
    println!("and the pool does other work: {:?}", pool.install(|| rayon::join(|| 1 + 1, || 2 + 2)));
    Ok(())
}
