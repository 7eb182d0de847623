//! How long a thread has waited for a processor, as far as the system reports it. Linux only.

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
pub(crate) use elsewhere::{Seen, waits};
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
pub(crate) use linux::{Seen, waits};

/// What the system has counted for a thread since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// How long the thread could run, but did not get a processor.
    pub(crate) waited_ns: u64,
    /// How often the thread got a processor.
    pub(crate) runs: u64,
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod linux {
    use std::fs::File;
    use std::io::Read;

    use super::Waits;

    /// Returns the calling thread's counts. Returns `None` if the kernel does not count, or does
    /// not let the process read the counts.
    pub(crate) fn waits() -> Option<Waits> {
        parse_waits(&read::<96>("/proc/thread-self/schedstat")?)
    }

    /// Parses nanoseconds on a processor, nanoseconds of waiting for one, and how often the thread
    /// got one. All are 0 if the kernel does not count.
    pub(super) fn parse_waits(schedstat: &[u8]) -> Option<Waits> {
        let mut numbers = schedstat.split(u8::is_ascii_whitespace).map_while(|number| {
            let number = std::str::from_utf8(number).ok()?;
            number.parse::<u64>().ok()
        });
        let (_, waited_ns, runs) = (numbers.next()?, numbers.next()?, numbers.next()?);
        (runs > 0).then_some(Waits { waited_ns, runs })
    }

    /// A thread of this process that other threads observe while it lives.
    #[derive(Debug)]
    pub(crate) struct Seen {
        pub(crate) number: libc::pid_t,
        stat: String,
    }

    impl Seen {
        pub(crate) fn current() -> Option<Self> {
            // SAFETY: `gettid` takes nothing and returns a number. (The C library has a function
            // for it only since glibc 2.30.)
            let number = unsafe { libc::syscall(libc::SYS_gettid) };
            let number = libc::pid_t::try_from(number).ok()?;
            Some(Self { number, stat: format!("/proc/self/task/{number}/stat") })
        }

        /// How long the thread has been on a processor since it began.
        pub(crate) fn processor_ns(&self) -> Option<u64> {
            // The thread's clock, made as the C library's `pthread_getcpuclockid` makes it: 4 is
            // the kernel's CPUCLOCK_PERTHREAD_MASK, and 2 is CPUCLOCK_SCHED.
            let clock = (!self.number << 3) | 4 | 2;
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the call writes one `timespec`, which `time` is.
            let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
            let ns = u64::try_from(time.tv_sec)
                .ok()?
                .checked_mul(1_000_000_000)?
                .checked_add(u64::try_from(time.tv_nsec).ok()?);
            ns.filter(|_| failed == 0)
        }

        /// Returns whether the thread runs or could run. Returns `None` if the process may not
        /// look.
        pub(crate) fn can_run(&self) -> Option<bool> {
            parse_state(&read::<96>(&self.stat)?).map(|state| state == b'R')
        }
    }

    /// Returns the letter behind the name. The name is in parentheses, and may contain parentheses.
    pub(super) fn parse_state(stat: &[u8]) -> Option<u8> {
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        stat.get(end + 2).copied()
    }

    /// Reads the beginning of a small file. Does not allocate, because threads that schedule call
    /// it.
    fn read<const LEN: usize>(path: &str) -> Option<[u8; LEN]> {
        let mut text = [0; LEN];
        let len = File::open(path).ok()?.read(&mut text).ok()?;
        // The rest of the buffer is zeros, which are part of no number.
        (len > 0).then_some(text)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_kernels_files_are_parsed() {
            assert_eq!(parse_waits(b"17 4 2\n\0\0"), Some(Waits { waited_ns: 4, runs: 2 }));
            assert_eq!(parse_waits(b"0 0 0\n"), None, "it does not count");
            assert_eq!(parse_waits(b"17 4"), None);
            assert_eq!(parse_waits(b""), None);
            assert_eq!(parse_state(b"12 (name) R 1 2\0"), Some(b'R'));
            assert_eq!(parse_state(b"12 (a) R (b)) S 1 2"), Some(b'S'));
            assert_eq!(parse_state(b"12 (name)"), None);
            assert_eq!(parse_state(b""), None);
        }

        #[test]
        fn can_run_tells_a_running_thread_from_a_blocked_one() {
            let mine = Seen::current().expect("it has a number");
            let (before, can_run) = (mine.processor_ns().expect("it has a clock"), mine.can_run());
            assert_eq!(can_run, Some(true));
            while mine.processor_ns().expect("it has a clock") < before + 1_000_000 {}
            let (send, receive) = std::sync::mpsc::channel::<()>();
            let (tell, told) = std::sync::mpsc::channel();
            let waiting = std::thread::spawn(move || {
                tell.send(Seen::current().expect("it has a number")).expect("the test waits");
                receive.recv()
            });
            let other = told.recv().expect("it lives");
            while other.can_run() != Some(false) {
                std::thread::yield_now();
            }
            let at_rest = other.processor_ns();
            std::thread::yield_now();
            assert_eq!(other.processor_ns(), at_rest);
            drop(send);
            assert!(waiting.join().expect("no panic").is_err());
        }

        #[test]
        fn the_system_counts_how_long_this_thread_has_waited() {
            let Some(before) = waits() else {
                println!("SKIPPED: the kernel does not count");
                return;
            };
            std::thread::yield_now();
            let after = waits().expect("it has counted before");
            assert!(after.waited_ns >= before.waited_ns && after.runs >= before.runs && before.runs > 0);
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
mod elsewhere {
    use super::Waits;

    pub(crate) fn waits() -> Option<Waits> {
        None
    }

    #[derive(Debug)]
    pub(crate) struct Seen {
        pub(crate) number: i32,
    }

    impl Seen {
        pub(crate) fn current() -> Option<Self> {
            None
        }

        pub(crate) fn processor_ns(&self) -> Option<u64> {
            None
        }

        pub(crate) fn can_run(&self) -> Option<bool> {
            None
        }
    }
}
