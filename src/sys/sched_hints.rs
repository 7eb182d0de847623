//! What a worker asks of the system, so that it runs soon after it is woken. On Linux only: elsewhere there is nothing to ask.

/// For the calling thread, a worker. A refusal leaves it as it was.
pub(crate) fn ask_for_short_latency() {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    linux::SchedHints::ask();
}

/// For a thread that the calling one starts, which inherits what a worker has asked for: to be called there, it gives it what the
/// worker had before.
pub(crate) fn without_hints() -> impl FnOnce() + Send {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    return linux::SchedHints::before();
    #[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
    || ()
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
mod linux {
    use std::cell::Cell;

    use libc::{SYS_sched_getattr, SYS_sched_setattr, c_int, c_uint, c_ulong, sched_attr};

    /// How much later than asked a timed wait may end. The default is 50 µs, and 0 would mean the default.
    const SLACK_NS: c_ulong = 1;

    /// The shortest that the kernel gives.
    const SLICE_NS: u64 = 100_000;

    /// What the kernel calls the calling thread.
    const THIS: libc::pid_t = 0;
    const NO_FLAGS: c_uint = 0;

    thread_local! {
        /// What this thread, a worker, had before it asked.
        static BEFORE: Cell<Option<SchedHints>> = const { Cell::new(None) };
    }

    /// What can be asked for, so far as the kernel lets a thread have it, and says what it has.
    #[derive(Clone, Copy)]
    pub(super) struct SchedHints {
        slack_ns: Option<c_ulong>,
        slice_ns: Option<u64>,
    }

    impl SchedHints {
        pub(super) fn ask() {
            BEFORE.set(Some(Self::what_it_has()));
            set_slack(SLACK_NS);
            // Another policy was chosen by somebody, and has no slices, or is not to be in a hurry.
            set_slice(SLICE_NS, &[libc::SCHED_OTHER]);
        }

        /// Gives another thread what the calling one had before; nothing, if it is no worker.
        pub(super) fn before() -> impl FnOnce() + Send {
            let before = BEFORE.get();
            move || before.into_iter().for_each(Self::give)
        }

        /// Of the calling thread, as everything here.
        fn what_it_has() -> Self {
            Self { slack_ns: slack_ns(), slice_ns: attributes().map(|attributes| attributes.sched_runtime) }
        }

        fn give(self) {
            if let Some(slack_ns) = self.slack_ns {
                set_slack(slack_ns);
            }
            if let Some(slice_ns) = self.slice_ns {
                // Also if a policy was chosen since: these have slices, too.
                set_slice(slice_ns, &[libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE]);
            }
        }
    }

    fn slack_ns() -> Option<c_ulong> {
        // SAFETY: takes nothing, and answers with a number.
        let slack_ns: c_int = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        c_ulong::try_from(slack_ns).ok()
    }

    fn set_slack(slack_ns: c_ulong) {
        // SAFETY: takes one number, and changes nothing but the calling thread's slack.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
    }

    /// Under the default policy, a thread that is woken waits, as a rule, until the one that runs on its core has used up its
    /// slice, some milliseconds; one whose own slices are shorter need not, unless it has had more than its share lately. It
    /// gets no more of the processor by that. (EEVDF, of Stoica and Abdel-Wahab, in Linux since 6.6. A thread may choose its
    /// slices since 6.12; before, this is ignored.) Does nothing under a policy that is not among these.
    fn set_slice(slice_ns: u64, policies: &[c_int]) {
        let Some(mut attributes) = attributes() else { return };
        if policies.contains(&attributes.sched_policy.cast_signed()) {
            attributes.sched_runtime = slice_ns;
            // SAFETY: reads no more than the size that stands in the attributes, which the kernel has filled in; all but the
            // slice is as it was.
            unsafe { libc::syscall(SYS_sched_setattr, THIS, &raw const attributes, NO_FLAGS) };
        }
    }

    /// Those of the calling thread. None if the kernel does not say.
    fn attributes() -> Option<sched_attr> {
        // SAFETY: numbers, for which zero is a value.
        let mut attributes: sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<sched_attr>();
        // SAFETY: writes no more than the size.
        let failed = unsafe { libc::syscall(SYS_sched_getattr, THIS, &raw mut attributes, size, NO_FLAGS) };
        (failed == 0).then_some(attributes)
    }
}
