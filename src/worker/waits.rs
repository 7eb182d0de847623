//! How long a thread has waited for a processor, as far as the system says. On Linux only.

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
pub(super) use elsewhere::waits;
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
pub(super) use linux::waits;

/// What the system has counted for a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    /// How long it could have run, and did not.
    pub(super) waited_ns: u64,
    /// How often it was given a processor.
    pub(super) runs: u64,
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod linux {
    use std::fs::File;
    use std::io::Read;

    use super::Waits;

    /// Of the calling thread. None if the kernel does not count, or nobody may look.
    pub(in super::super) fn waits() -> Option<Waits> {
        parse_waits(&read::<96>("/proc/thread-self/schedstat")?)
    }

    /// Nanoseconds on a processor, nanoseconds of waiting for one, and how often it had one. All are 0 if the kernel does not count.
    pub(super) fn parse_waits(schedstat: &[u8]) -> Option<Waits> {
        let mut numbers = schedstat.split(u8::is_ascii_whitespace).map_while(|number| {
            let number = std::str::from_utf8(number).ok()?;
            number.parse::<u64>().ok()
        });
        let (_, waited_ns, runs) = (numbers.next()?, numbers.next()?, numbers.next()?);
        (runs > 0).then_some(Waits { waited_ns, runs })
    }

    /// The beginning of a small file. Without an allocation: it is read while somebody schedules.
    fn read<const LEN: usize>(path: &str) -> Option<[u8; LEN]> {
        let mut text = [0; LEN];
        let len = File::open(path).ok()?.read(&mut text).ok()?;
        // What is left are zeros, which are no part of any number.
        (len > 0).then_some(text)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_the_kernel_writes_is_understood() {
            assert_eq!(parse_waits(b"17 4 2\n\0\0"), Some(Waits { waited_ns: 4, runs: 2 }));
            assert_eq!(parse_waits(b"0 0 0\n"), None, "it does not count");
            assert_eq!(parse_waits(b"17 4"), None);
            assert_eq!(parse_waits(b""), None);
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

    pub(in super::super) fn waits() -> Option<Waits> {
        None
    }
}
