//! Boot time: what has passed since the machine was booted, its suspends included. And a wait for
//! the end of a suspend. Both exist on Linux only, and on Android, which has the same kernel.

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri), not(loom))))]
pub(crate) use elsewhere::BootTime;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri), not(loom)))]
pub(crate) use linux::BootTime;

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri), not(loom)))]
mod linux {
    use std::fs::File;
    use std::io::{self, Read};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use libc::{
        CLOCK_BOOTTIME, CLOCK_REALTIME, TFD_CLOEXEC, TFD_TIMER_ABSTIME, TFD_TIMER_CANCEL_ON_SET, c_int, itimerspec,
        timespec,
    };

    #[cfg(test)]
    use crate::sync::{AtomicU64, Ordering};

    /// Boot time, and the timer by which a thread waits for its next step.
    ///
    /// The kernel has no wait for the end of a suspend. But it has a timer by the wall clock that
    /// is cancelled when that clock is set, so that its owner thinks again, and the end of a
    /// suspend sets the wall clock. This timer would never expire. (systemd learns in this way that
    /// the wall clock was set.)
    #[derive(Debug)]
    pub(crate) struct BootTime {
        timer: File,
        /// What tests add, because they can't suspend the machine.
        #[cfg(test)]
        stepped_ns: AtomicU64,
    }

    const NEVER: timespec = timespec { tv_sec: i64::MAX, tv_nsec: 0 };
    const IN_A_NANOSECOND: timespec = timespec { tv_sec: 0, tv_nsec: 1 };
    const NO_INTERVAL: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

    impl BootTime {
        /// Returns boot time, which is [watched](Self::watch). Fails if the system has no such
        /// clock or timer, or no descriptor for it.
        pub(crate) fn new() -> io::Result<Self> {
            // SAFETY: the call takes two numbers and returns one.
            let timer = unsafe { libc::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC) };
            if timer < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the system has just opened this descriptor, and nobody else knows it.
            let timer = File::from(unsafe { OwnedFd::from_raw_fd(timer) });
            let this = Self {
                timer,
                #[cfg(test)]
                stepped_ns: AtomicU64::new(0),
            };
            this.watch()?;
            clock_ns()?;
            Ok(this)
        }

        /// Returns the nanoseconds since the machine was booted.
        pub(crate) fn now_ns(&self) -> u64 {
            let now_ns = clock_ns().expect("`new` has read it");
            #[cfg(test)]
            let now_ns = now_ns + self.stepped_ns.load(Ordering::Relaxed);
            now_ns
        }

        /// Makes the next [`wait`](Self::wait) return if boot time steps after this call.
        pub(crate) fn watch(&self) -> io::Result<()> {
            // An error of a step tells of one before this call. The timer is set all the same.
            unless_step(self.set(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, NEVER))
        }

        /// Blocks until boot time has stepped since [`watch`](Self::watch), or another thread calls
        /// [`end_wait`](Self::end_wait). Also returns when the wall clock is set, and perhaps
        /// without any reason. Fails if the descriptor is not what it was.
        pub(crate) fn wait(&self) -> io::Result<()> {
            match (&self.timer).read(&mut [0; 8]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                read => unless_step(read.map(|_| ())),
            }
        }

        /// Makes a thread in [`wait`](Self::wait) return, or the next one to call it.
        pub(crate) fn end_wait(&self) {
            // Fails only if the descriptor is not what it was, and then nobody waits.
            let _ = self.set(0, IN_A_NANOSECOND);
        }

        /// Lets boot time step by this much.
        #[cfg(test)]
        pub(crate) fn step(&self, by_ns: u64) {
            // Relaxed: the kernel puts it before the end of the wait.
            self.stepped_ns.fetch_add(by_ns, Ordering::Relaxed);
            self.end_wait();
        }

        fn set(&self, flags: c_int, it_value: timespec) -> io::Result<()> {
            let times = itimerspec { it_interval: NO_INTERVAL, it_value };
            // SAFETY: the call reads `times`. It writes to no memory, as it is given no place for
            // the old times.
            let failed =
                unsafe { libc::timerfd_settime(self.timer.as_raw_fd(), flags, &raw const times, std::ptr::null_mut()) };
            if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }
    }

    fn clock_ns() -> io::Result<u64> {
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to `now` only.
        let failed = unsafe { libc::clock_gettime(CLOCK_BOOTTIME, &raw mut now) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        // Neither is negative, and 64 bits last for centuries after a boot.
        Ok(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned())
    }

    fn unless_step(result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => Ok(()),
            result => result,
        }
    }
}

#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(miri), not(loom))))]
mod elsewhere {
    use std::convert::Infallible;
    use std::io;

    #[derive(Debug)]
    pub(crate) struct BootTime(Infallible);

    impl BootTime {
        pub(crate) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) fn now_ns(&self) -> u64 {
            match self.0 {}
        }

        pub(crate) fn watch(&self) -> io::Result<()> {
            match self.0 {}
        }

        pub(crate) fn wait(&self) -> io::Result<()> {
            match self.0 {}
        }

        pub(crate) fn end_wait(&self) {
            match self.0 {}
        }
    }
}
