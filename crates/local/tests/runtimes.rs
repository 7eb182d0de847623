//! The promises of a local engine inside each runtime.

#![cfg(all(feature = "compio", feature = "glommio", feature = "monoio", target_os = "linux"))]

#[path = "runtimes/promises.rs"]
mod promises;

use std::time::Duration;

use glommio::{LocalExecutor, LocalExecutorBuilder};
use promises::Host;
use tourbillon_local::{LocalBuilder, LocalTimer};

/// monoio, on io_uring, or else on epoll.
struct Monoio;
/// compio, on io_uring, or else by polling.
struct Compio;
/// glommio, which has io_uring alone.
struct Glommio;

impl Host for Monoio {
    fn run(builder: LocalBuilder, main: impl AsyncFnOnce(LocalTimer)) {
        let runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new().enable_timer().build();
        let mut runtime = runtime.expect("a runtime");
        runtime.block_on(async {
            let running = tourbillon_local::monoio::start(builder).expect("an engine");
            main(running.clone()).await;
        });
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        drop(monoio::spawn(task));
    }

    async fn sleep(delay: Duration) {
        monoio::time::sleep(delay).await;
    }
}

impl Host for Compio {
    fn run(builder: LocalBuilder, main: impl AsyncFnOnce(LocalTimer)) {
        let runtime = compio::runtime::Runtime::new().expect("a runtime");
        let (timer, mut driver) = builder.build().expect("an engine");
        tourbillon_local::compio::block_on(&runtime, &mut driver, main(timer));
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        compio::runtime::spawn(task).detach();
    }

    async fn sleep(delay: Duration) {
        compio::time::sleep(delay).await;
    }
}

impl Host for Glommio {
    fn run(builder: LocalBuilder, main: impl AsyncFnOnce(LocalTimer)) {
        let Some(executor) = executor() else { return };
        executor.run(async {
            let running = tourbillon_local::glommio::start(builder).expect("an engine");
            main(running.clone()).await;
        });
    }

    fn spawn(task: impl Future<Output = ()> + 'static) {
        glommio::spawn_local(task).detach();
    }

    async fn sleep(delay: Duration) {
        glommio::timer::sleep(delay).await;
    }
}

fn executor() -> Option<LocalExecutor> {
    // It panics where there is no io_uring, and returns an error where memory can't be locked.
    match std::panic::catch_unwind(|| LocalExecutorBuilder::default().make()) {
        Ok(Ok(executor)) => return Some(executor),
        Ok(Err(error)) => eprintln!("NOT CHECKED: glommio does not run here: {error}"),
        Err(_) => eprintln!("NOT CHECKED: glommio finds no io_uring here"),
    }
    None
}

macro_rules! promises_hold_in {
    ($($module:ident: $host:ty),*) => {
        $(mod $module {
            use super::*;

            #[test]
            fn sleeps_and_limits_end_and_never_early() {
                promises::sleeps_and_limits_end_and_never_early::<$host>();
            }

            #[test]
            fn a_task_that_is_not_send_runs_on_its_own_thread() {
                promises::a_task_that_is_not_send_runs_on_its_own_thread::<$host>();
            }

            #[test]
            fn an_earlier_timeout_wakes_a_loop_that_sleeps() {
                promises::an_earlier_timeout_wakes_a_loop_that_sleeps::<$host>();
            }

            #[test]
            fn a_reset_to_earlier_wakes_a_loop_that_sleeps() {
                promises::a_reset_to_earlier_wakes_a_loop_that_sleeps::<$host>();
            }

            #[test]
            fn a_loop_with_nothing_due_is_not_woken() {
                promises::a_loop_with_nothing_due_is_not_woken::<$host>();
            }

            #[test]
            fn the_end_of_the_loop_ends_the_engine() {
                promises::the_end_of_the_loop_ends_the_engine::<$host>();
            }

            #[test]
            fn timeouts_that_exceed_a_turn_run_in_the_next_ones() {
                promises::timeouts_that_exceed_a_turn_run_in_the_next_ones::<$host>();
            }
        })*
    };
}

promises_hold_in!(on_monoio: Monoio, on_compio: Compio, on_glommio: Glommio);

#[test]
fn a_busy_compio_turns_its_engine() {
    Compio::run(LocalTimer::builder(), promises::fires_while_a_task_never_rests::<Compio>);
}

#[test]
fn a_busy_glommio_turns_its_engine() {
    Glommio::run(LocalTimer::builder(), promises::fires_while_a_task_never_rests::<Glommio>);
}

#[test]
fn compio_keeps_its_engine_from_one_call_to_the_next() {
    let runtime = compio::runtime::Runtime::new().expect("a runtime");
    let (timer, mut driver) = LocalTimer::builder().build().expect("an engine");
    let mut sleep = timer.sleep(Duration::from_millis(5));
    tourbillon_local::compio::block_on(&runtime, &mut driver, async {
        futures_lite::future::poll_once(&mut sleep).await
    });
    assert_eq!(timer.pending(), 1);
    tourbillon_local::compio::block_on(&runtime, &mut driver, &mut sleep);
    assert!(!sleep.ended_by_shutdown());
}

#[test]
fn a_task_of_the_engine_may_end_it() {
    let mut runtime = monoio::RuntimeBuilder::<monoio::FusionDriver>::new().enable_timer().build().expect("a runtime");
    runtime.block_on(async {
        let running = tourbillon_local::monoio::start(LocalTimer::builder()).expect("an engine");
        let timer = running.clone();
        let other = timer.schedule(promises::LONG, || ()).expect("room");
        timer.schedule_detached(Duration::from_millis(1), move || drop(running)).expect("room");
        let mut asleep = timer.sleep(promises::LONG);
        (&mut asleep).await;
        assert!(asleep.ended_by_shutdown() && other.is_cancelled());
    });
}
