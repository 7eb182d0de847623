//! Retries with backoff that end together, by a deadline: each attempt has a limit, and all calls
//! that belong to one request share its deadline.
//!
//! A shutdown of the timer ends the calls that are under way at once, because it ends the limit
//! around all attempts of each. `Elapsed::is_shutdown` tells that from the deadline. A call that
//! begins after the shutdown would go on to its deadline. So a program that still makes calls asks
//! `Timer::is_shutdown` before each.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["macros", "rt"] }
//! tourbillon = { path = "../tourbillon" }
//! ```
//!
//! The runtime is Tokio's here. Nothing but `join!` depends on it, and it needs no `enable_time`.

use std::fmt::Debug;
use std::future::Future;
use std::time::{Duration, Instant};

use tourbillon::{Shutdown, Timer};

const ATTEMPT: Duration = Duration::from_millis(20);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// Why a call was given up at its deadline.
#[derive(Debug)]
struct GivenUp<E> {
    attempts: u32,
    /// The last error of an attempt. `None` if all took too long.
    last: Option<E>,
}

/// Calls `attempt` until it succeeds, or until the deadline.
async fn retry<T, E, F>(timer: &Timer, deadline: Instant, mut attempt: impl FnMut(u32) -> F) -> Result<T, GivenUp<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let (mut attempts, mut last, mut pause) = (0, None, FIRST_PAUSE);
    let tries = async {
        loop {
            attempts += 1;
            match timer.timeout(ATTEMPT, attempt(attempts)).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(error)) => last = Some(error),
                // It took too long, and was dropped.
                Err(_elapsed) => {}
            }
            // Where many clients fail at once, add a random part here.
            timer.sleep(pause).await;
            pause = LONGEST_PAUSE.min(2 * pause);
        }
    };
    // One limit around all: it also ends an attempt or a pause that is under way.
    let ended = timer.timeout_at(deadline, tries).await;
    ended.map_err(|_elapsed| GivenUp { attempts, last })
}

/// A service that is overloaded at first: it does not answer, then refuses, then answers.
async fn recovers(attempt: u32) -> Result<&'static str, &'static str> {
    match attempt {
        1 => std::future::pending().await,
        2 => Err("overloaded"),
        _ => Ok("here you are"),
    }
}

async fn refuses(_attempt: u32) -> Result<&'static str, &'static str> {
    Err("overloaded")
}

async fn is_silent(_attempt: u32) -> Result<&'static str, &'static str> {
    std::future::pending().await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let timer = Timer::new()?;

    let minute = timer.now() + Duration::from_secs(60);
    let answer = retry(&timer, minute, recovers).await;
    println!("it recovers: {answer:?}");
    assert!(matches!(answer, Ok("here you are")));

    let deadline = timer.now() + Duration::from_millis(150);
    let (refused, silent) = tokio::join!(retry(&timer, deadline, refuses), retry(&timer, deadline, is_silent));
    assert!(timer.now() >= deadline, "neither gives up before the deadline");
    println!("refused: {refused:?}\nsilent:  {silent:?}");
    assert!(matches!(refused, Err(GivenUp { attempts: 1.., last: Some("overloaded") })));
    assert!(matches!(silent, Err(GivenUp { attempts: 1.., last: None })));

    let hour = timer.now() + Duration::from_secs(3600);
    let shut_down = async { timer.shutdown_async(Shutdown::Cancel).await };
    let (stopped, unfired) = tokio::join!(retry(&timer, hour, is_silent), shut_down);
    println!("stopped: {stopped:?}");
    assert!(matches!(stopped, Err(GivenUp { attempts: 1.., last: None })));
    assert_eq!(unfired?.len(), 0, "no limit and no pause is left");
    Ok(())
}
