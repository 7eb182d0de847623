//! Which systems there are, what they are called, and what each can't do.

use std::fmt;

use clap::ValueEnum;

use crate::compare::cases::Work;

/// A system, or a way to use one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    Tourbillon,
    TourbillonDriven,
    TourbillonInline,
    TourbillonAt,
    TourbillonFuture,
    #[value(name = "tourbillon-2-shards")]
    Tourbillon2Shards,
    #[value(name = "tourbillon-8-shards")]
    Tourbillon8Shards,
    TourbillonUnpinned,
    TourbillonLocal,
    TourbillonLocalRounds,
    BareCas,
    BareCalls,
    NoTimers,
    Netty,
    #[value(name = "netty-512")]
    Netty512,
    #[value(name = "netty-4.2")]
    Netty42,
    #[value(name = "netty-4.2-512")]
    Netty42Slots512,
    ForkJoinPool,
    ScheduledThreadPool,
    Go,
    Tokio,
    TokioTimeout,
    TokioTask,
    DelayQueue,
    Pingora,
    AsyncIo,
    HierarchicalHashWheel,
    Nexus,
    NexusRounds,
    NexusQueue,
    Bitwheel,
    HashedWheel,
    IoUring,
    Libevent,
    Libev,
    Libuv,
    Heap,
}

/// Where a system runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// In this program, always.
    Here,
    /// In this program, if it was built with the feature `peers`.
    Peer,
    /// In the Java program.
    Java(JavaTimer),
    /// In a program of its own, by the name of its file.
    Native(&'static str),
}

/// The timers of the Java program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JavaTimer {
    /// Debian's.
    Netty {
        slots: u32,
    },
    NewerNetty {
        slots: u32,
    },
    ScheduledThreadPool,
    ForkJoinPool,
}

impl JavaTimer {
    /// As the Java program calls it.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Netty { .. } | Self::NewerNetty { .. } => "hashed-wheel",
            Self::ScheduledThreadPool => "scheduled-thread-pool",
            Self::ForkJoinPool => "fork-join-pool",
        }
    }

    /// Of a wheel.
    pub(crate) fn slots(self) -> Option<u32> {
        match self {
            Self::Netty { slots } | Self::NewerNetty { slots } => Some(slots),
            Self::ScheduledThreadPool | Self::ForkJoinPool => None,
        }
    }
}

/// All, in the order in which they are shown. The first is the one that the others are compared
/// with.
pub(crate) const SYSTEMS: [Name; 37] = [
    Name::Tourbillon,
    Name::TourbillonDriven,
    Name::TourbillonInline,
    Name::TourbillonAt,
    Name::TourbillonFuture,
    Name::Tourbillon2Shards,
    Name::Tourbillon8Shards,
    Name::TourbillonUnpinned,
    Name::TourbillonLocal,
    Name::TourbillonLocalRounds,
    Name::BareCas,
    Name::BareCalls,
    Name::NoTimers,
    Name::Netty,
    Name::Netty512,
    Name::Netty42,
    Name::Netty42Slots512,
    Name::ForkJoinPool,
    Name::ScheduledThreadPool,
    Name::Go,
    Name::Tokio,
    Name::TokioTimeout,
    Name::TokioTask,
    Name::DelayQueue,
    Name::Pingora,
    Name::AsyncIo,
    Name::HierarchicalHashWheel,
    Name::Nexus,
    Name::NexusRounds,
    Name::NexusQueue,
    Name::Bitwheel,
    Name::HashedWheel,
    Name::IoUring,
    Name::Libevent,
    Name::Libev,
    Name::Libuv,
    Name::Heap,
];

impl Name {
    /// As on the command line and in the JSON.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Tourbillon => "tourbillon",
            Self::TourbillonDriven => "tourbillon-driven",
            Self::TourbillonInline => "tourbillon-inline",
            Self::TourbillonAt => "tourbillon-at",
            Self::TourbillonFuture => "tourbillon-future",
            Self::Tourbillon2Shards => "tourbillon-2-shards",
            Self::Tourbillon8Shards => "tourbillon-8-shards",
            Self::TourbillonUnpinned => "tourbillon-unpinned",
            Self::TourbillonLocal => "tourbillon-local",
            Self::TourbillonLocalRounds => "tourbillon-local-rounds",
            Self::BareCas => "bare-cas",
            Self::BareCalls => "bare-calls",
            Self::NoTimers => "no-timers",
            Self::Netty => "netty",
            Self::Netty512 => "netty-512",
            Self::Netty42 => "netty-4.2",
            Self::Netty42Slots512 => "netty-4.2-512",
            Self::ForkJoinPool => "fork-join-pool",
            Self::ScheduledThreadPool => "scheduled-thread-pool",
            Self::Go => "go",
            Self::Tokio => "tokio",
            Self::TokioTimeout => "tokio-timeout",
            Self::TokioTask => "tokio-task",
            Self::DelayQueue => "delay-queue",
            Self::Pingora => "pingora",
            Self::AsyncIo => "async-io",
            Self::HierarchicalHashWheel => "hierarchical-hash-wheel",
            Self::Nexus => "nexus",
            Self::NexusRounds => "nexus-rounds",
            Self::NexusQueue => "nexus-queue",
            Self::Bitwheel => "bitwheel",
            Self::HashedWheel => "hashed-wheel",
            Self::IoUring => "io-uring",
            Self::Libevent => "libevent",
            Self::Libev => "libev",
            Self::Libuv => "libuv",
            Self::Heap => "heap",
        }
    }

    pub(crate) fn how(self) -> How {
        match self {
            Self::Tourbillon
            | Self::TourbillonDriven
            | Self::TourbillonInline
            | Self::TourbillonAt
            | Self::TourbillonFuture
            | Self::Tourbillon2Shards
            | Self::Tourbillon8Shards
            | Self::TourbillonUnpinned
            | Self::TourbillonLocal
            | Self::TourbillonLocalRounds
            | Self::BareCas
            | Self::BareCalls
            | Self::Heap => How::Here,
            // A server needs a runtime, and that is a peer's.
            Self::Netty => How::Java(JavaTimer::Netty { slots: 65_536 }),
            Self::Netty512 => How::Java(JavaTimer::Netty { slots: 512 }),
            Self::Netty42 => How::Java(JavaTimer::NewerNetty { slots: 65_536 }),
            Self::Netty42Slots512 => How::Java(JavaTimer::NewerNetty { slots: 512 }),
            Self::ForkJoinPool => How::Java(JavaTimer::ForkJoinPool),
            Self::ScheduledThreadPool => How::Java(JavaTimer::ScheduledThreadPool),
            Self::Go => How::Native("go-timers"),
            Self::Libevent | Self::Libev | Self::Libuv => How::Native("timers-case"),
            _ => How::Peer,
        }
    }

    /// Whether it is Tourbillon.
    pub(crate) fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Tourbillon
                | Self::TourbillonDriven
                | Self::TourbillonInline
                | Self::TourbillonAt
                | Self::TourbillonFuture
                | Self::Tourbillon2Shards
                | Self::Tourbillon8Shards
                | Self::TourbillonUnpinned
                | Self::TourbillonLocal
                | Self::TourbillonLocalRounds
        )
    }

    /// Whether it is measured only if it is named.
    pub(crate) fn waits_to_be_named(self) -> bool {
        matches!(self, Self::Tourbillon2Shards | Self::Tourbillon8Shards | Self::TourbillonUnpinned)
    }

    /// One line for the reader of a table.
    pub(crate) fn explained(self) -> &'static str {
        match self {
            Self::Tourbillon => "defaults: one worker, expired timeouts on a pool of a thread per core",
            Self::TourbillonDriven => "without a thread: the loop of the server turns the engine",
            Self::TourbillonInline => "expired timeouts run on the worker",
            Self::TourbillonAt => {
                "schedule_at and reset_at: the caller reads the clock for every 16th schedule, and for no reset"
            }
            Self::TourbillonFuture => "Timer::sleep, polled once where it lies, Timer::timeout, and hyper's timer",
            Self::Tourbillon2Shards => "two shards, each with a worker of its own; else the defaults",
            Self::Tourbillon8Shards => "eight shards, each with a worker of its own; else the defaults",
            Self::TourbillonUnpinned => "the worker on no core of its own; else the defaults",
            Self::TourbillonLocal => "LocalTimer: one owner, an engine of its own for each producer, on its own clock",
            Self::TourbillonLocalRounds => {
                "the same by schedule_at and reset_at, the clock read for every 16th operation"
            }
            Self::BareCas => "the floor: one load and one compare-and-swap on a cache line of its own",
            Self::BareCalls => "the floor: one thread sleeps, and then calls the tasks out of an array of cache lines",
            Self::NoTimers => {
                "the floor of a server: no limits at all; in the loop of W11 an array of slots paces the replies"
            }
            Self::Netty => {
                "HashedWheelTimer of 4.1, 1 ms x 65,536, tasks on its worker; one TimerTask for all in W1 to W3 and \
                 W8, and for what is not due in w4-storm and w4-keepalives; reset is cancel and new"
            }
            Self::Netty512 => "HashedWheelTimer of 4.1, 1 ms x 512: the default number of slots",
            Self::Netty42 => "HashedWheelTimer of 4.2, 1 ms x 65,536; else as that of 4.1",
            Self::Netty42Slots512 => "HashedWheelTimer of 4.2, 1 ms x 512; else as that of 4.1",
            Self::ForkJoinPool => {
                "the JDK's ForkJoinPool, which schedules from 25 on, with one thread for the tasks; one task for all \
                 as with Netty; reset is cancel and new"
            }
            Self::ScheduledThreadPool => {
                "the JDK's ScheduledThreadPoolExecutor with one thread, what is cancelled is removed; else as \
                 ForkJoinPool"
            }
            Self::Go => {
                "AfterFunc, Stop, Reset; the collector waits except in w4-storm and w4-keepalives; one function for \
                 all in W1 to W3 and W8"
            }
            Self::Tokio => {
                "Sleep, polled once on a thread outside the runtime; in W4, W7 the waker runs the task; \
                 reset reads the clock"
            }
            Self::TokioTimeout => "timeout(d, pending), polled once and dropped",
            Self::TokioTask => "a spawned task that sleeps and then runs: what the documentation shows",
            Self::DelayQueue => "tokio-util's DelayQueue: one owner, a queue of its own for each producer",
            Self::Pingora => {
                "pingora_timeout::timeout(d, pending), slots of 10 ms; the waker runs the task; reset is a new one"
            }
            Self::AsyncIo => "async_io::Timer, polled once; the waker runs the task",
            Self::HierarchicalHashWheel => {
                "TimerWithThread of hierarchical_hash_wheel_timer, u64 ids; reset is cancel and schedule"
            }
            Self::Nexus => {
                "nexus-timer's wheel: one owner, a wheel of its own for each producer, the clock read each time"
            }
            Self::NexusRounds => {
                "the same, the clock read for every 16th operation, as an event loop with much to do may"
            }
            Self::NexusQueue => {
                "nexus-timer's TimeoutQueue: one owner, and one duration for all, also in W1, W5 and W8"
            }
            Self::Bitwheel => {
                "bitwheel: one owner, 1 ms, 3 gears of 64 slots of 8,192; what finds no room is in its BTreeMap, \
                 nearly all in W1 and W3; reset is cancel and insert; early by up to a slot of its gear"
            }
            Self::HashedWheel => "hashed_wheel_timer, 1 ms x 65,536",
            Self::IoUring => {
                "IORING_OP_TIMEOUT, -_REMOVE and -_UPDATE, submitted 64 at a time: one owner, a ring for each producer"
            }
            Self::Libevent => {
                "one owner, a loop of its own for each producer, its cached time updated for every 16th operation; \
                 the heap in W1, a common timeout in W2 and W3"
            }
            Self::Libev => {
                "one owner, a loop of its own for each producer, its cached time updated for every 16th operation; \
                 ev_timer_again moves a timer"
            }
            Self::Libuv => {
                "one owner, a loop of its own for each producer, its cached time updated for every 16th operation; \
                 uv_timer_again moves a timer"
            }
            Self::Heap => {
                "Mutex<BinaryHeap> and Condvar, tasks on its thread, what is cancelled is swept out; \
                 a reset to later leaves the heap alone"
            }
        }
    }

    /// Why it can't do this; none if it can.
    pub(crate) fn cannot(self, work: Work) -> Option<&'static str> {
        let only = |can: bool, why| (!can).then_some(why);
        match (self, work) {
            (Self::TourbillonFuture | Self::Tokio | Self::NoTimers, work) if work.is_of_servers() => {
                only(cfg!(feature = "peers"), "the servers need the feature `peers`")
            }
            (_, Work::Sessions { tasks, .. }) => self.cannot_serve_sessions(tasks),
            (Self::TourbillonDriven, _) => Some("only in the loop of a server"),
            (_, work) if work.is_of_servers() => Some("it is no server's, or is there in another row"),
            (Self::NoTimers, _) => Some("only in servers"),
            (Self::TourbillonInline, work) => {
                let runs = matches!(work, Work::Lateness { .. } | Work::Burst { .. } | Work::Storm);
                only(runs || work == Work::KeepAlives, "only where something runs, and for its threads")
            }
            (Self::TourbillonAt, work) => {
                only(matches!(work, Work::Ring | Work::Reset), "only for what is called in a loop")
            }
            (Self::BareCas, work) => only(work == Work::Reset, "only for resets"),
            (Self::BareCalls, work) => only(matches!(work, Work::Burst { .. }), "only for what is due at once"),
            (Self::TourbillonFuture, work) => only(work.is_of_futures(), "only as futures"),
            (Self::Tokio | Self::Pingora, work) if work.is_of_futures() => None,
            (Self::AsyncIo, Work::Future { ready: false }) => None,
            (Self::AsyncIo, Work::Future { ready: true }) => Some("it has no limit for another future"),
            (_, work) if work.is_of_futures() => Some("it has no futures, or has them in another row"),
            (Self::TokioTimeout, work) => only(work == Work::Ring, "only for schedule + cancel"),
            (Self::TokioTask, work) => only(
                matches!(work, Work::Lateness { tick_us: 1_000.., .. } | Work::Memory { .. } | Work::Burst { .. }),
                "only where something runs, and for its memory",
            ),
            (
                Self::NexusRounds | Self::TourbillonLocalRounds,
                Work::Lateness { .. }
                | Work::Storm
                | Work::KeepAlives
                | Work::Memory { .. }
                | Work::Idle { .. }
                | Work::Burst { .. },
            ) => Some("only for what is called in a loop"),
            (Self::Libevent | Self::Libev | Self::Libuv, work) => only(
                matches!(work, Work::Schedule { .. } | Work::Ring | Work::Reset),
                "only for what is called in a loop",
            ),
            (
                Self::HashedWheel,
                Work::Ring | Work::Reset | Work::Storm | Work::KeepAlives | Work::Pending { .. } | Work::Producers,
            ) => Some("it has no cancel"),
            (
                Self::TourbillonLocal
                | Self::DelayQueue
                | Self::Nexus
                | Self::NexusQueue
                | Self::Bitwheel
                | Self::IoUring,
                Work::Idle { .. } | Work::Storm | Work::KeepAlives,
            ) => Some("it has no thread: its owner turns it"),
            (Self::NexusQueue, Work::Lateness { .. }) => Some("it has one duration for all"),
            (Self::IoUring, Work::Memory { .. }) => Some("its memory is the kernel's, and not resident in the process"),
            (Self::IoUring, Work::Reset | Work::Pending { .. } | Work::Producers) => {
                Some("the kernel looks through all timeouts for the one to update or to remove")
            }
            (
                Self::Tokio | Self::DelayQueue | Self::HashedWheel | Self::HierarchicalHashWheel,
                Work::Lateness { tick_us: ..1_000, .. },
            ) => Some("its tick is 1 ms"),
            (
                Self::Netty | Self::Netty512 | Self::Netty42 | Self::Netty42Slots512 | Self::Bitwheel,
                Work::Lateness { tick_us: ..1_000, .. },
            ) => Some("its tick is at least 1 ms"),
            (Self::Pingora, Work::Lateness { tick_us: ..1_000, .. }) => Some("its tick is 10 ms"),
            _ => None,
        }
    }

    fn cannot_serve_sessions(self, tasks: bool) -> Option<&'static str> {
        let can = match self {
            Self::Tokio | Self::Pingora | Self::NoTimers => true,
            Self::TourbillonFuture => tasks,
            Self::TourbillonDriven | Self::TourbillonInline | Self::DelayQueue => !tasks,
            _ => return Some("it is no server's, or is there in another row"),
        };
        match (can, cfg!(all(feature = "peers", target_os = "linux"))) {
            (true, true) => None,
            (true, false) => Some("the server of sessions needs Linux, and the feature `peers`"),
            (false, _) => Some("only in the other kind of server"),
        }
    }

    /// Whether it is left out of a case without a word: it is only one more way to use a system
    /// that is there.
    pub(crate) fn stays_out(self, work: Work) -> bool {
        let variant = matches!(
            self,
            Self::TourbillonDriven
                | Self::TourbillonInline
                | Self::TourbillonAt
                | Self::TourbillonFuture
                | Self::Tourbillon2Shards
                | Self::Tourbillon8Shards
                | Self::TourbillonUnpinned
                | Self::TourbillonLocal
                | Self::TourbillonLocalRounds
                | Self::BareCas
                | Self::BareCalls
                | Self::NoTimers
                | Self::TokioTimeout
                | Self::TokioTask
                | Self::NexusRounds
                | Self::Libevent
                | Self::Libev
                | Self::Libuv
        );
        (variant || work.is_of_futures() || work.is_of_servers() || work.is_of_sessions())
            && self.cannot(work).is_some()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_the_command_line_and_all_are_listed() {
        assert_eq!(SYSTEMS.as_slice(), Name::value_variants());
        for name in SYSTEMS {
            assert_eq!(Name::from_str(name.id(), false), Ok(name));
        }
    }
}
