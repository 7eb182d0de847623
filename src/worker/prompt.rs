//! What a thread asks of the system, so that it runs as soon as it is woken. On Linux only: elsewhere there is nothing to ask.

/// For the calling thread. A refusal leaves it as it was; so does a policy other than the default one, which somebody has chosen.
pub(crate) fn ask_to_be_prompt() {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    {
        linux::minimize_timer_slack();
        linux::shorten_slices();
    }
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod linux {
    use libc::{SYS_sched_getattr, SYS_sched_setattr, sched_attr};

    /// The shortest that the kernel gives.
    const SLICE_NS: u64 = 100_000;

    /// What the kernel calls the calling thread.
    const THIS: libc::pid_t = 0;
    const NO_FLAGS: libc::c_uint = 0;

    /// Timed waits end when they end, and not up to 50 µs later, which is the default.
    pub(super) fn minimize_timer_slack() {
        // SAFETY: PR_SET_TIMERSLACK takes one number, in ns, and changes nothing but the calling thread's slack. (0 would
        // mean the default.)
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64);
        }
    }

    /// Who is woken waits until the one that runs has used up its slice, some milliseconds, unless its own slices are shorter.
    /// It gets no more of the processor by that, but gets it sooner, in smaller pieces: right for who has little to do, and
    /// often. (EEVDF, of Stoica and Abdel-Wahab; Linux lets a thread choose since 6.12, and ignores it before.)
    pub(super) fn shorten_slices() {
        let Some(mut attributes) = attributes() else { return };
        if attributes.sched_policy == libc::SCHED_OTHER.cast_unsigned() {
            attributes.sched_runtime = SLICE_NS;
            // SAFETY: reads no more than the size that stands in the attributes, which the kernel has filled in; all but the
            // slice is as it was.
            unsafe { libc::syscall(SYS_sched_setattr, THIS, &raw const attributes, NO_FLAGS) };
        }
    }

    /// None if the kernel does not say.
    fn attributes() -> Option<sched_attr> {
        // SAFETY: numbers, for which zero is a value.
        let mut attributes: sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<sched_attr>();
        // SAFETY: writes no more than the size.
        let failed = unsafe { libc::syscall(SYS_sched_getattr, THIS, &raw mut attributes, size, NO_FLAGS) };
        (failed == 0).then_some(attributes)
    }
}
