//! What can be measured: the cases, what each reports, and how large it is.

use clap::ValueEnum;

use Amount::{Counted, Fixed, Full};

/// One figure that a case reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    /// Its name in the JSON.
    pub(crate) key: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) decimals: usize,
    pub(crate) better: Better,
}

/// Which way a figure is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    /// Not to be compared: a count of what went wrong, or of what was asked for.
    Neither,
}

const fn less(key: &'static str, heading: &'static str, decimals: usize) -> Metric {
    Metric { key, heading, decimals, better: Better::Less }
}

const fn more(key: &'static str, heading: &'static str, decimals: usize) -> Metric {
    Metric { key, heading, decimals, better: Better::More }
}

const fn count(key: &'static str, heading: &'static str) -> Metric {
    Metric { key, heading, decimals: 0, better: Better::Neither }
}

/// A figure that is no result of a system, but of what is around it.
const fn given(key: &'static str, heading: &'static str) -> Metric {
    Metric { key, heading, decimals: 3, better: Better::Neither }
}

/// A loop over operations: as its caller saw it, as the whole process paid for it, and all callers
/// together.
const LOOP: &[Metric] =
    &[less("ns", "ns/op", 1), less("cpu_ns", "CPU ns/op, whole process", 1), more("mops", "M/s, all together", 2)];
const LATENESS: &[Metric] = &[
    less("p50_ms", "p50 ms", 3),
    less("p99_ms", "p99 ms", 3),
    less("p999_ms", "p99.9 ms", 3),
    less("max_ms", "max ms", 3),
    count("early", "early"),
    count("missing", "missing"),
    count("twice", "twice"),
    less("cpu_s", "CPU s", 3),
];
const STORM: &[Metric] = &[
    less("p50_ms", "p50 ms", 3),
    less("p99_ms", "p99 ms", 3),
    less("p999_ms", "p99.9 ms", 3),
    less("max_ms", "max ms", 3),
    given("asleep_p50_ms", "asleep: p50"),
    given("asleep_p99_ms", "p99"),
    given("asleep_p999_ms", "p99.9"),
    given("asleep_max_ms", "max"),
    given("more_p999_ms", "p99.9 more"),
    more("mops", "M/s, all together", 2),
    count("early", "early"),
    count("missing", "missing"),
    count("twice", "twice"),
];
const KEEP_ALIVES: &[Metric] = &[
    less("cpu_s", "CPU s, whole process", 3),
    less("worker_cpu_s", "worker: CPU s", 3),
    less("wakeups", "wake-ups", 0),
    less("pool_cpu_s", "pool: CPU s", 4),
    less("pool_wakeups", "wake-ups", 0),
    count("pool_threads", "threads"),
];
const MEMORY: &[Metric] = &[less("bytes", "bytes each", 1)];
const IDLE: &[Metric] = &[less("wakeups", "wake-ups", 0), less("cpu_ms", "CPU ms", 2)];
const BURST: &[Metric] = &[less("ms", "ms to the last", 2), less("cpu_ns", "CPU ns each", 1)];
const BURST_CLOCK: &[Metric] = &[
    less("ms", "ms to the last", 2),
    less("cpu_ns", "CPU ns each", 1),
    less("p50_ms", "p50 ms", 3),
    less("p99_ms", "p99 ms", 3),
    less("p999_ms", "p99.9 ms", 3),
    less("max_ms", "max ms", 3),
    count("early", "early"),
    count("missing", "missing"),
    count("twice", "twice"),
];
const PENDING: &[Metric] = &[
    less("schedule_ns", "schedule ns", 1),
    less("cancel_ns", "cancel ns", 1),
    less("reset_ns", "reset ns", 1),
    count("pending", "pending"),
];
const PRODUCERS: &[Metric] = &[
    more("schedule_mops", "schedule M/s", 2),
    more("cancel_mops", "cancel M/s", 2),
    more("reset_mops", "reset M/s", 2),
    less("schedule_ns", "schedule ns", 1),
    less("cancel_ns", "cancel ns", 1),
    less("reset_ns", "reset ns", 1),
];

/// What is done in a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// W1.
    Schedule { reserved: bool },
    /// W2.
    Ring,
    /// W3.
    Reset,
    /// W4; `beside` others that are not due yet.
    Lateness { tick_us: u32, timeouts: usize, beside: usize },
    /// W4, while others are scheduled and cancelled as fast as can be.
    Storm,
    /// W4, of what is never due, as it is pushed out again and again.
    KeepAlives,
    /// W5.
    Memory { timeouts: usize },
    /// W6.
    Idle { timeouts: usize },
    /// W7; with a clock, each task reads it.
    Burst { clock: bool },
    /// W8, by the number pending.
    Pending { timeouts: usize },
    /// W8, by the number of producers.
    Producers,
    /// W9.
    Future { ready: bool },
    /// W10: a server under load.
    Server { http: bool, connections: usize },
    /// W11: a server of sessions over UDP; so many timer operations for each request.
    Sessions { timers: usize, tasks: bool, amount: Amount },
}

/// How many requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    /// One of each session a second.
    Fixed,
    /// As many as are answered.
    Full,
    /// A number of them, under callgrind.
    Counted,
}

impl Work {
    pub(crate) fn is_of_futures(self) -> bool {
        matches!(self, Self::Future { .. })
    }

    pub(crate) fn is_of_servers(self) -> bool {
        matches!(self, Self::Server { .. })
    }

    pub(crate) fn is_of_sessions(self) -> bool {
        matches!(self, Self::Sessions { .. })
    }
}

/// A case: some work, with what it is called and what it reports.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) group: Group,
    /// Measured when no cases are named.
    pub(crate) headline: bool,
    pub(crate) title: &'static str,
    pub(crate) producers: &'static [usize],
    pub(crate) metrics: &'static [Metric],
    pub(crate) work: Work,
}

/// The workloads by their numbers in the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Group {
    W1,
    W2,
    W3,
    W4,
    W5,
    W6,
    W7,
    W8,
    W9,
    W10,
    W11,
}

const SERVER: &[Metric] = &[
    more("rps", "requests/s", 0),
    less("p50_ms", "p50 ms", 2),
    less("p99_ms", "p99 ms", 2),
    less("p999_ms", "p99.9 ms", 2),
    less("cpu_us", "CPU us/request, server", 2),
    count("errors", "errors"),
];

const fn server(id: &'static str, title: &'static str, http: bool, connections: usize) -> Case {
    let work = Work::Server { http, connections };
    Case { id, group: Group::W10, headline: false, title, producers: &[1], metrics: SERVER, work }
}

pub(crate) const SESSIONS: &[Metric] = &[
    more("rate", "requests/s", 0),
    less("cpu_ns", "CPU ns/request, server", 0),
    less("p50_ms", "pacing late: p50 ms", 3),
    less("p99_ms", "p99 ms", 3),
    less("p999_ms", "p99.9 ms", 3),
    less("max_ms", "max ms", 3),
    given("operations", "timer operations/request"),
    given("batch", "requests/round"),
    count("early", "early"),
    count("missing", "missing"),
    count("lost", "lost on the way"),
    count("resent", "replies resent"),
    count("closed", "sessions closed"),
];
const INSTRUCTIONS: &[Metric] =
    &[less("instructions", "instructions/request, server, without the kernel", 0), given("batch", "requests/round")];

const fn sessions(id: &'static str, title: &'static str, timers: usize, tasks: bool, amount: Amount) -> Case {
    let metrics = match amount {
        Amount::Counted => INSTRUCTIONS,
        _ => SESSIONS,
    };
    let work = Work::Sessions { timers, tasks, amount };
    Case { id, group: Group::W11, headline: false, title, producers: &[1], metrics, work }
}

const fn pending(id: &'static str, title: &'static str, timeouts: usize) -> Case {
    let work = Work::Pending { timeouts };
    Case { id, group: Group::W8, headline: false, title, producers: &[1], metrics: PENDING, work }
}

/// All cases, in the order in which they are measured and shown.
pub(crate) static CASES: [Case; 47] = [
    Case {
        id: "w1",
        group: Group::W1,
        headline: true,
        title: "W1 schedule 1,000,000 due in 30 to 60 s, capacity reserved where it can be",
        producers: &[1, 2],
        metrics: LOOP,
        work: Work::Schedule { reserved: true },
    },
    Case {
        id: "w1-cold",
        group: Group::W1,
        headline: true,
        title: "W1 the same, into memory never touched before",
        producers: &[1],
        metrics: LOOP,
        work: Work::Schedule { reserved: false },
    },
    Case {
        id: "w2",
        group: Group::W2,
        headline: true,
        title: "W2 schedule + cancel over a ring of 1,000; an op is one of each",
        producers: &[1, 2],
        metrics: LOOP,
        work: Work::Ring,
    },
    Case {
        id: "w3",
        group: Group::W3,
        headline: true,
        title: "W3 push one of 100,000 keep-alives out to now + 60 s, at random",
        producers: &[1, 2],
        metrics: LOOP,
        work: Work::Reset,
    },
    Case {
        id: "w4",
        group: Group::W4,
        headline: true,
        title: "W4 lateness of 1,000,000 due in 1 to 3 s, tick of 1 ms",
        producers: &[1],
        metrics: LATENESS,
        work: Work::Lateness { tick_us: 1_000, timeouts: 1_000_000, beside: 0 },
    },
    Case {
        id: "w4-fine",
        group: Group::W4,
        headline: true,
        title: "W4 the same, tick of 100 us, or without ticks",
        producers: &[1],
        metrics: LATENESS,
        work: Work::Lateness { tick_us: 100, timeouts: 1_000_000, beside: 0 },
    },
    Case {
        id: "w4-sparse",
        group: Group::W4,
        headline: true,
        title: "W4 the same, tick of 1 ms, of 500: most are alone in their ticks",
        producers: &[1],
        metrics: LATENESS,
        work: Work::Lateness { tick_us: 1_000, timeouts: 500, beside: 0 },
    },
    Case {
        id: "w4-crowded",
        group: Group::W4,
        headline: false,
        title: "W4 the same, tick of 1 ms, with 10,000,000 more pending at 30 to 60 s",
        producers: &[1],
        metrics: LATENESS,
        work: Work::Lateness { tick_us: 1_000, timeouts: 1_000_000, beside: 10_000_000 },
    },
    Case {
        id: "w4-storm",
        group: Group::W4,
        headline: false,
        title: "W4 of 1,000 due a second for 3 s, while each producer cancels and schedules 500,000 again and again; \
                asleep: a thread that only sleeps until the same deadlines",
        producers: &[2],
        metrics: STORM,
        work: Work::Storm,
    },
    Case {
        id: "w4-keepalives",
        group: Group::W4,
        headline: false,
        title: "W4 CPU and wake-ups in 10 s, 1,000,000 keep-alives of 15 s, each reset once a second",
        producers: &[1],
        metrics: KEEP_ALIVES,
        work: Work::KeepAlives,
    },
    Case {
        id: "w5",
        group: Group::W5,
        headline: true,
        title: "W5 resident memory per pending timeout, handle and closure included, 1,000,000",
        producers: &[1],
        metrics: MEMORY,
        work: Work::Memory { timeouts: 1_000_000 },
    },
    Case {
        id: "w5-10m",
        group: Group::W5,
        headline: false,
        title: "W5 the same, 10,000,000",
        producers: &[1],
        metrics: MEMORY,
        work: Work::Memory { timeouts: 10_000_000 },
    },
    Case {
        id: "w6-empty",
        group: Group::W6,
        headline: true,
        title: "W6 wake-ups and CPU in 5 s, nothing pending",
        producers: &[1],
        metrics: IDLE,
        work: Work::Idle { timeouts: 0 },
    },
    Case {
        id: "w6",
        group: Group::W6,
        headline: true,
        title: "W6 wake-ups and CPU in 5 s, 1,000,000 due in an hour",
        producers: &[1],
        metrics: IDLE,
        work: Work::Idle { timeouts: 1_000_000 },
    },
    Case {
        id: "w7",
        group: Group::W7,
        headline: true,
        title: "W7 100,000 on one deadline, from it until the last has run",
        producers: &[1],
        metrics: BURST,
        work: Work::Burst { clock: false },
    },
    Case {
        id: "w7-clock",
        group: Group::W7,
        headline: true,
        title: "W7 the same, and each reads the clock and keeps how late it is",
        producers: &[1],
        metrics: BURST_CLOCK,
        work: Work::Burst { clock: true },
    },
    pending("w8-10k", "W8 cost with 10,000 pending at 60 to 120 s", 10_000),
    pending("w8-100k", "W8 cost with 100,000 pending", 100_000),
    pending("w8-1m", "W8 cost with 1,000,000 pending", 1_000_000),
    pending("w8-10m", "W8 cost with 10,000,000 pending", 10_000_000),
    Case {
        id: "w8-producers",
        group: Group::W8,
        headline: false,
        title: "W8 by the number of producers: schedule, cancel and reset",
        producers: &[1, 2, 4, 8, 16],
        metrics: PRODUCERS,
        work: Work::Producers,
    },
    Case {
        id: "w9-ready",
        group: Group::W9,
        headline: true,
        title: "W9 as futures: a limit round a future that is ready at once",
        producers: &[1, 2],
        metrics: LOOP,
        work: Work::Future { ready: true },
    },
    Case {
        id: "w9-sleep",
        group: Group::W9,
        headline: true,
        title: "W9 as futures: a sleep of 60 s, polled once and dropped",
        producers: &[1, 2],
        metrics: LOOP,
        work: Work::Future { ready: false },
    },
    server("w10-echo-1", "W10 echo over loopback, 1 connection: a limit round each read and write", false, 1),
    server("w10-echo-1000", "W10 the same, 1,000 connections", false, 1_000),
    server("w10-echo-8000", "W10 the same, 8,000 connections", false, 8_000),
    server("w10-http-1", "W10 hyper under wrk, 1 connection: a limit for each head, and for each request", true, 1),
    server("w10-http-1000", "W10 the same, 1,000 connections", true, 1_000),
    server("w10-http-8000", "W10 the same, 8,000 connections", true, 8_000),
    sessions("w11-0", "W11 100,000 sessions over UDP, 40,000 requests/s, in one loop: no timers", 0, false, Fixed),
    sessions("w11-1", "W11 the same, idle deadline pushed out", 1, false, Fixed),
    sessions("w11-2", "W11 the same, and each reply paced by 1 to 50 ms", 2, false, Fixed),
    sessions("w11-4", "W11 the same, and the loss timer cancelled and set", 4, false, Fixed),
    sessions("w11-8", "W11 the same, and four more, as QUIC has them", 8, false, Fixed),
    sessions("w11-full", "W11 as fast as it goes, 4 timer operations a request", 4, false, Full),
    sessions("w11-tasks-0", "W11 a task for each session, 40,000 requests/s: no timers", 0, true, Fixed),
    sessions("w11-tasks-1", "W11 the same, one timer in each: idle deadline pushed out", 1, true, Fixed),
    sessions("w11-tasks-2", "W11 the same, and each reply paced by 1 to 50 ms", 2, true, Fixed),
    sessions("w11-tasks-4", "W11 the same, and the loss deadline", 4, true, Fixed),
    sessions("w11-tasks-full", "W11 a task for each session, as fast as it goes", 4, true, Full),
    sessions("w11-counted-0", "W11 instructions by callgrind, in one loop: no timers", 0, false, Counted),
    sessions("w11-counted-1", "W11 the same, 1 timer operation a request", 1, false, Counted),
    sessions("w11-counted-2", "W11 the same, 2", 2, false, Counted),
    sessions("w11-counted-4", "W11 the same, 4", 4, false, Counted),
    sessions("w11-counted-8", "W11 the same, 8", 8, false, Counted),
    sessions("w11-counted-tasks-0", "W11 instructions, a task for each session: no timers", 0, true, Counted),
    sessions("w11-counted-tasks-4", "W11 the same, 4 timer operations a request", 4, true, Counted),
];

/// The case of that name.
pub(crate) fn find(id: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.id == id)
}

/// How large the workloads are; `full` is the definition, anything less is for trying things out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    scale: f64,
}

impl Sizes {
    pub(crate) const fn scaled(scale: f64) -> Self {
        Self { scale }
    }

    pub(crate) fn scale(self) -> f64 {
        self.scale
    }

    /// So many, or fewer, but enough for the workload to make sense; zero stays zero.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, times something up to 1")]
    pub(crate) fn of(self, full: usize) -> usize {
        ((full as f64 * self.scale) as usize).max(full.min(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_begin_with_their_group() {
        for (at, case) in CASES.iter().enumerate() {
            let group = format!("{:?}", case.group).to_lowercase();
            assert!(case.id == group || case.id.starts_with(&format!("{group}-")), "{}", case.id);
            assert!(CASES[at + 1..].iter().all(|other| other.id != case.id), "{} is there twice", case.id);
        }
    }

    #[test]
    fn sizes_shrink_to_a_hundred_but_nothing_stays_nothing() {
        let sizes = Sizes::scaled(0.001);
        assert_eq!([0, 50, 1_000, 1_000_000].map(|full| sizes.of(full)), [0, 50, 100, 1_000]);
        assert_eq!(Sizes::scaled(1.0).of(1_000_000), 1_000_000);
    }
}
