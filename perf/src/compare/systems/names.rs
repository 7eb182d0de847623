//! The systems of the comparison: their names, where they run, and what each can't do.

use std::fmt;

use clap::ValueEnum;

use crate::compare::cases::Work;

/// Where a system runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// In this program, always.
    Here,
    /// In this program, if it was built with the feature `peers`.
    Peer,
    /// In the Java program.
    Java(Java),
    /// In a program of its own, by the name of its file.
    Native(&'static str),
}

/// A timer of the Java program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Java {
    /// Its name in that program.
    pub(crate) timer: &'static str,
    /// Whether it is in the newer Netty, and not in that of Debian.
    pub(crate) newer_netty: bool,
    /// Whether it needs the newer Java.
    pub(crate) newer_java: bool,
}

const fn java(timer: &'static str, newer_netty: bool, newer_java: bool) -> How {
    How::Java(Java { timer, newer_netty, newer_java })
}

macro_rules! systems {
    ($($name:ident, $id:literal, $how:expr, $explained:literal;)*) => {
        /// A system, or a way to use one, in the order of the tables. The others are compared with
        /// the first.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub(crate) enum Name {
            $(#[value(name = $id)] $name,)*
        }

        impl Name {
            /// Returns the name on the command line and in the JSON.
            pub(crate) fn id(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }

            pub(crate) fn how(self) -> How {
                match self {
                    $(Self::$name => $how,)*
                }
            }

            /// Returns one line for the reader of a table.
            pub(crate) fn explained(self) -> &'static str {
                match self {
                    $(Self::$name => $explained,)*
                }
            }
        }
    };
}

systems! {
    Tourbillon, "tourbillon", How::Here,
        "defaults: one worker, expired timeouts on a pool of a thread per core";
    TourbillonInline, "tourbillon-inline", How::Here, "expired timeouts run on the worker";
    TourbillonDriven, "tourbillon-driven", How::Peer,
        "without a thread: the loop of the server, or a task of the runtime, turns the engine";
    TourbillonFuture, "tourbillon-future", How::Here,
        "Timer::sleep, polled once where it lies, and Timer::timeout";
    TourbillonCompat, "tourbillon-compat", How::Peer, "compat::tokio: Tokio's names, on the global engine";
    Tourbillon2Shards, "tourbillon-2-shards", How::Here,
        "two shards, each with a worker of its own; else the defaults";
    TourbillonLocal, "tourbillon-local", How::Here,
        "LocalTimer: one owner, an engine for each producer, the clock read for every 16th operation";
    TourbillonWheel, "tourbillon-wheel", How::Here,
        "the wheel alone, with a slab: one owner, a wheel for each producer, the clock as for the one above";
    NoTimers, "no-timers", How::Peer,
        "the floor of a server: in the loop of W11 an array of slots paces replies, and else nothing does";
    Netty, "netty", java("hashed-wheel", false, false),
        "HashedWheelTimer of 4.1, 1 ms, 512 slots in loops and else 65,536; a reset is cancel and new";
    Netty42, "netty-4.2", java("hashed-wheel", true, false), "HashedWheelTimer of 4.2, used as that of 4.1";
    ForkJoinPool, "fork-join-pool", java("fork-join-pool", false, true),
        "the JDK's ForkJoinPool, which schedules from 25 on, one thread for tasks; a reset is cancel and new";
    ScheduledThreadPool, "scheduled-thread-pool", java("scheduled-thread-pool", false, false),
        "the JDK's ScheduledThreadPoolExecutor, one thread, cancelled tasks removed; a reset is cancel and new";
    Go, "go", How::Native("go-timers"), "AfterFunc, Stop, Reset; the collector waits";
    Tokio, "tokio", How::Peer,
        "Sleep, polled once outside the runtime; in W4 and W7 the waker runs the task; timeout(d, ready) in W9";
    TokioAlt, "tokio-alt", How::Peer, "Tokio's alternative timer; it needs RUSTFLAGS=--cfg=tokio_unstable";
    DelayQueue, "delay-queue", How::Peer, "tokio-util's DelayQueue: one owner, a queue for each producer";
    Pingora, "pingora", How::Peer,
        "pingora_timeout::timeout(d, pending), slots of 10 ms; the waker runs the task; a reset is a new one";
    AsyncIo, "async-io", How::Peer, "async_io::Timer, polled once; the waker runs the task";
    HierarchicalHashWheel, "hierarchical-hash-wheel", How::Peer,
        "TimerWithThread of hierarchical_hash_wheel_timer, u64 ids; a reset is cancel and schedule";
    Nexus, "nexus", How::Peer,
        "nexus-timer's wheel: one owner, a wheel for each producer, the clock read for every 16th operation";
    Bitwheel, "bitwheel", How::Peer,
        "bitwheel: one owner, 1 ms, 3 gears of 64 slots of 8,192; early by up to a slot of its gear";
    Libevent, "libevent", How::Native("timers-libevent"),
        "one owner, a loop for each producer; the heap in W1, a common timeout in W2 and W3";
    Libev, "libev", How::Native("timers-libev"), "one owner, a loop for each producer; ev_timer_again moves a timer";
    Libuv, "libuv", How::Native("timers-libuv"), "one owner, a loop for each producer; uv_timer_again moves a timer";
    Heap, "heap", How::Here,
        "Mutex<BinaryHeap> and Condvar, swept of what is cancelled; a reset to later leaves the heap alone";
}

impl Name {
    /// Returns whether it is Tourbillon, which has promises to keep.
    pub(crate) fn is_ours(self) -> bool {
        self.id().starts_with("tourbillon")
    }

    /// Returns why the system can't do this work, or `None` if it can.
    pub(crate) fn cannot(self, work: Work) -> Option<&'static str> {
        let only = |can: bool, why| (!can).then_some(why);
        match (self, work) {
            (_, Work::Sessions { tasks, .. }) => self.cannot_serve_sessions(tasks),
            (_, Work::Client { .. } | Work::Blocked) => self.cannot_ask(work),
            (Self::TourbillonDriven | Self::NoTimers, _) => Some("only in servers"),
            (Self::TourbillonCompat | Self::TokioAlt, _) => Some("only in clients"),
            (Self::Tourbillon | Self::Netty | Self::Netty42 | Self::Tokio | Self::Heap, Work::Tail) => None,
            (_, Work::Tail) => Some("only systems that many threads share, and of those the best known"),
            (Self::TourbillonInline, work) => {
                only(matches!(work, Work::Lateness { .. } | Work::Burst { .. }), "only where something runs")
            }
            (Self::AsyncIo, Work::Future { ready: true }) => Some("it has no limit for another future"),
            (Self::TourbillonFuture | Self::Tokio | Self::Pingora | Self::AsyncIo, Work::Future { .. }) => None,
            (Self::TourbillonFuture, _) => Some("only as futures"),
            (_, Work::Future { .. }) => Some("it has no futures, or has them in another row"),
            (Self::Libevent | Self::Libev | Self::Libuv, work) => only(
                matches!(work, Work::Schedule { .. } | Work::Ring | Work::Reset),
                "only for what is called in a loop",
            ),
            (Self::TourbillonLocal | Self::TourbillonWheel | Self::DelayQueue, Work::Idle)
            | (Self::Nexus | Self::Bitwheel, Work::Idle) => Some("it has no thread: its owner turns it"),
            (name, Work::Lateness { tick_us: ..1_000, .. }) => name.coarse_tick(),
            _ => None,
        }
    }

    /// Returns the tick of a system that has none below a millisecond.
    fn coarse_tick(self) -> Option<&'static str> {
        match self {
            Self::Tokio | Self::DelayQueue | Self::HierarchicalHashWheel => Some("its tick is 1 ms"),
            Self::Netty | Self::Netty42 | Self::Bitwheel => Some("its tick is at least 1 ms"),
            Self::Pingora => Some("its tick is 10 ms"),
            _ => None,
        }
    }

    fn cannot_serve_sessions(self, tasks: bool) -> Option<&'static str> {
        let can = match self {
            Self::Tokio | Self::NoTimers | Self::TourbillonDriven => true,
            Self::TourbillonFuture => tasks,
            _ => return Some("it is no server's, or is there in another row"),
        };
        match (can, cfg!(all(feature = "peers", target_os = "linux"))) {
            (true, true) => None,
            (true, false) => Some("the server of sessions needs Linux, and the feature `peers`"),
            (false, _) => Some("only in the other kind of server"),
        }
    }

    fn cannot_ask(self, work: Work) -> Option<&'static str> {
        match self {
            _ if !cfg!(feature = "peers") => Some("clients need the feature `peers`"),
            Self::TokioAlt if !cfg!(tokio_unstable) => Some("this program was built without --cfg tokio_unstable"),
            Self::NoTimers if work == Work::Blocked => Some("it has no limits"),
            Self::TourbillonFuture | Self::TourbillonCompat | Self::Tokio | Self::TokioAlt | Self::NoTimers => None,
            _ => Some("it is there in another row"),
        }
    }

    /// Returns whether a case leaves the system out without a word: it can't do the case, and it is
    /// one more way to use a system that has a row, or the case is only for a few.
    pub(crate) fn stays_out(self, work: Work) -> bool {
        let variant = matches!(self, Self::TokioAlt | Self::NoTimers | Self::Libevent | Self::Libev | Self::Libuv);
        let special = matches!(
            work,
            Work::Future { .. } | Work::Sessions { .. } | Work::Client { .. } | Work::Blocked | Work::Tail
        );
        (variant || special || (self.is_ours() && self != Self::Tourbillon)) && self.cannot(work).is_some()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
