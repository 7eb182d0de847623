//! A clock that goes on while the machine is suspended. No test can suspend its machine:
//! `src/timer/tests.rs` has those in which the clock steps.

use tourbillon::BootClock;

#[cfg(target_os = "linux")]
mod on_linux {
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    use tourbillon::{BootClock, Timer};

    use crate::common::{MS, PATIENCE};

    #[test]
    fn by_boot_time_each_timeout_fires_once_and_none_early() {
        let clock = BootClock::new().expect("Linux has it");
        let timer = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
        let (send, ran) = channel();
        for n in 0..200_u32 {
            let (send, clock, deadline) = (send.clone(), clock.clone(), timer.now() + n * MS / 4);
            let task = move || _ = send.send((n, clock.now() >= deadline));
            let by_delay = deadline.saturating_duration_since(timer.now());
            let scheduled = if n % 2 == 0 { timer.schedule(by_delay, task) } else { timer.schedule_at(deadline, task) };
            drop(scheduled.expect("accepted"));
        }
        drop(send);
        let mut all: Vec<_> = (0..200).map(|_| ran.recv_timeout(PATIENCE).expect("it fires")).collect();
        all.sort_unstable();
        assert!(all.iter().zip(0..).all(|(&(n, is_in_time), nth)| n == nth && is_in_time), "{all:?}");
    }

    #[test]
    fn all_clocks_show_one_boot_time_which_is_never_slower_than_the_real_clock() {
        let [one, other] = [(); 2].map(|()| BootClock::new().expect("Linux has it"));
        let (boot, real) = (one.now(), Instant::now());
        let mut last = boot;
        while real.elapsed() < Duration::from_millis(50) {
            for now in [&one, &other, &one.clone()].map(BootClock::now) {
                assert!(last <= now);
                last = now;
            }
            let passed = real.elapsed();
            assert!(one.now() - boot >= passed);
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[test]
fn elsewhere_there_is_no_boot_time_and_the_error_says_so() {
    assert_eq!(BootClock::new().map(|_| ()).map_err(|error| error.kind()), Err(std::io::ErrorKind::Unsupported));
}

#[test]
fn a_clock_of_boot_time_shows_itself() {
    if let Ok(clock) = BootClock::new() {
        assert!(format!("{clock:?}").starts_with("BootClock"));
    }
}
