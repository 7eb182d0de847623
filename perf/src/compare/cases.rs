//! The cases: the numbers of each, and the figures that it reports.
//!
//! The numbers are data, so that the programs in other languages do the same: they get them on
//! their command lines, and have none of their own.

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

/// A loop over operations: as its caller saw it, as the whole process paid for it, and all callers
/// together.
const LOOP: &[Metric] =
    &[less("ns", "ns/op", 1), less("cpu_ns", "CPU ns/op, whole process", 1), more("mops", "M/s, all together", 2)];
const P50: Metric = less("p50_ms", "p50 ms", 3);
const P99: Metric = less("p99_ms", "p99 ms", 3);
const P999: Metric = less("p999_ms", "p99.9 ms", 3);
const MAX: Metric = less("max_ms", "max ms", 3);
const EARLY: Metric = count("early", "early");
const MISSING: Metric = count("missing", "missing");
const TWICE: Metric = count("twice", "twice");
const LATENESS: &[Metric] = &[P50, P99, P999, MAX, EARLY, MISSING, TWICE, less("cpu_s", "CPU s", 3)];
const MEMORY: &[Metric] = &[less("bytes", "bytes each", 1)];
const IDLE: &[Metric] = &[less("wakeups", "wake-ups", 0), less("cpu_ms", "CPU ms", 2)];
const BURST: &[Metric] = &[less("ms", "ms to the last", 2), less("cpu_ns", "CPU ns each", 1)];
const BURST_CLOCK: &[Metric] =
    &[less("ms", "ms to the last", 2), less("cpu_ns", "CPU ns each", 1), P50, P99, P999, MAX, EARLY, MISSING, TWICE];
const PRODUCERS: &[Metric] = &[
    more("schedule_mops", "schedule M/s", 2),
    more("cancel_mops", "cancel M/s", 2),
    more("reset_mops", "reset M/s", 2),
    less("schedule_ns", "schedule ns", 1),
    less("cancel_ns", "cancel ns", 1),
    less("reset_ns", "reset ns", 1),
];
const SESSIONS: &[Metric] = &[
    more("rate", "requests/s", 0),
    less("cpu_ns", "CPU ns/request, server", 0),
    less("p50_ms", "pacing late: p50 ms", 3),
    P99,
    P999,
    MAX,
    count("batch", "requests/round"),
    EARLY,
    MISSING,
    count("lost", "lost on the way"),
    count("resent", "replies resent"),
    count("closed", "sessions closed"),
];
const CLIENT: &[Metric] =
    &[more("mops", "M requests/s", 2), less("cpu_ns", "CPU ns/request, client", 0), P50, P99, P999];
const TAIL: &[Metric] = &[
    less("schedule_p99_us", "schedule p99 us", 2),
    less("schedule_p999_us", "p99.9 us", 2),
    less("schedule_max_us", "worst us", 0),
    less("cancel_p99_us", "cancel p99 us", 2),
    less("cancel_p999_us", "p99.9 us", 2),
    less("cancel_max_us", "worst us", 0),
    less("reset_p99_us", "reset p99 us", 2),
    less("reset_p999_us", "p99.9 us", 2),
    less("reset_max_us", "worst us", 0),
    less("cpu_ns", "CPU ns/step", 0),
];
const INSTRUCTIONS: &[Metric] =
    &[less("instructions", "instructions/request, server, without the kernel", 0), count("batch", "requests/round")];

/// The work of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// W1.
    Schedule { reserved: bool },
    /// W2.
    Ring,
    /// W3.
    Reset,
    /// W4.
    Lateness { tick_us: u32 },
    /// W5.
    Memory,
    /// W6.
    Idle,
    /// W7; with a clock, each task reads it.
    Burst { clock: bool },
    /// W8.
    Producers,
    /// W9.
    Future { ready: bool },
    /// W11: a server of sessions over UDP, with so many timer operations for each request.
    Sessions { timers: usize, tasks: bool, amount: Amount },
    /// W12: a client with a limit round each request, on one core or on all.
    Client { sockets: bool, one_core: bool },
    /// W12: limits that are up while one of two threads is blocked.
    Blocked,
    /// W13: each call is timed.
    Tail,
}

/// How many requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    /// 40,000 a second.
    Fixed,
    /// As many as are answered.
    Full,
    /// A number of them, under callgrind.
    Counted,
}

impl Work {
    /// Returns the name by which the programs in other languages know it.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Schedule { reserved: true } => "schedule",
            Self::Schedule { reserved: false } => "schedule-cold",
            Self::Ring => "ring",
            Self::Reset => "reset",
            Self::Lateness { .. } => "lateness",
            Self::Memory => "memory",
            Self::Idle => "idle",
            Self::Burst { clock: false } => "burst",
            Self::Burst { clock: true } => "burst-clock",
            Self::Producers => "producers",
            Self::Future { .. } => "future",
            Self::Sessions { .. } => "sessions",
            Self::Client { .. } => "client",
            Self::Blocked => "blocked",
            Self::Tail => "tail",
        }
    }

    pub(crate) fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Schedule { .. } | Self::Ring | Self::Reset | Self::Future { .. } => LOOP,
            Self::Lateness { .. } | Self::Blocked => LATENESS,
            Self::Memory => MEMORY,
            Self::Idle => IDLE,
            Self::Burst { clock: false } => BURST,
            Self::Burst { clock: true } => BURST_CLOCK,
            Self::Producers => PRODUCERS,
            Self::Sessions { amount: Amount::Counted, .. } => INSTRUCTIONS,
            Self::Sessions { .. } => SESSIONS,
            Self::Client { .. } => CLIENT,
            Self::Tail => TAIL,
        }
    }
}

/// A case: some work in its full size.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    /// Measured when no cases are named.
    pub(crate) headline: bool,
    pub(crate) title: &'static str,
    pub(crate) producers: &'static [usize],
    pub(crate) work: Work,
    /// Timeouts, connections or sessions.
    pub(crate) timeouts: usize,
    /// Of each producer, where it differs from the number of timeouts.
    pub(crate) operations: usize,
    /// Timeouts that are pending beside, and are not due.
    pub(crate) beside: usize,
    /// The least delay and the most, in seconds.
    pub(crate) delays_s: [u64; 2],
}

const CASE: Case = Case {
    id: "",
    headline: false,
    title: "",
    producers: &[1],
    work: Work::Ring,
    timeouts: 0,
    operations: 0,
    beside: 0,
    delays_s: [60, 60],
};

impl Case {
    /// Returns the part of the name that several cases share: `w4`.
    pub(crate) fn group(&self) -> &'static str {
        self.id.split('-').next().unwrap_or_default()
    }
}

/// W1, into memory that was reserved, or that was never touched before.
const fn schedule(id: &'static str, title: &'static str, reserved: bool) -> Case {
    let work = Work::Schedule { reserved };
    let producers: &[usize] = if reserved { &[1, 2] } else { &[1] };
    let (timeouts, operations) = (1_000_000, 1_000_000);
    Case { id, headline: true, title, producers, work, timeouts, operations, delays_s: [30, 60], ..CASE }
}

/// Loops over operations, on one thread and on two.
const fn raced(id: &'static str, title: &'static str, work: Work, timeouts: usize, operations: usize) -> Case {
    Case { id, headline: true, title, producers: &[1, 2], work, timeouts, operations, ..CASE }
}

const fn lateness(id: &'static str, title: &'static str, tick_us: u32, timeouts: usize, beside: usize) -> Case {
    let work = Work::Lateness { tick_us };
    Case { id, headline: beside == 0, title, work, timeouts, beside, delays_s: [1, 3], ..CASE }
}

const fn memory(id: &'static str, title: &'static str, timeouts: usize) -> Case {
    let headline = timeouts <= 1_000_000;
    Case { id, headline, title, work: Work::Memory, timeouts, delays_s: [600, 630], ..CASE }
}

const fn idle(id: &'static str, title: &'static str, timeouts: usize) -> Case {
    Case { id, headline: true, title, work: Work::Idle, timeouts, delays_s: [3_600, 3_660], ..CASE }
}

const fn burst(id: &'static str, title: &'static str, clock: bool) -> Case {
    Case { id, headline: true, title, work: Work::Burst { clock }, timeouts: 100_000, delays_s: [30, 60], ..CASE }
}

/// W8, with as many timeouts whatever the number of producers.
const fn scaling(id: &'static str, title: &'static str, producers: &'static [usize], timeouts: usize) -> Case {
    Case { id, title, producers, work: Work::Producers, timeouts, delays_s: [30, 60], ..CASE }
}

const fn sessions(id: &'static str, title: &'static str, timers: usize, tasks: bool, amount: Amount) -> Case {
    // A server is slower under callgrind by far, and is to keep up.
    let timeouts = if matches!(amount, Amount::Counted) { 5_000 } else { 100_000 };
    Case { id, title, work: Work::Sessions { timers, tasks, amount }, timeouts, ..CASE }
}

const fn client(id: &'static str, title: &'static str, sockets: bool, one_core: bool, timeouts: usize) -> Case {
    Case { id, title, producers: &[2], work: Work::Client { sockets, one_core }, timeouts, ..CASE }
}

/// All cases, in the order in which they are measured and shown.
pub(crate) static CASES: &[Case] = &[
    schedule("w1", "W1 schedule 1,000,000 due in 30 to 60 s, capacity reserved where it can be", true),
    schedule("w1-cold", "W1 the same, into memory never touched before", false),
    raced("w2", "W2 schedule + cancel over a ring of 1,000; an op is one of each", Work::Ring, 1_000, 1_000_000),
    raced("w3", "W3 push one of 100,000 keep-alives out to now + 60 s, at random", Work::Reset, 100_000, 4_000_000),
    lateness("w4", "W4 lateness of 1,000,000 due in 1 to 3 s, tick of 1 ms", 1_000, 1_000_000, 0),
    lateness("w4-fine", "W4 the same, tick of 100 us, or without ticks", 100, 1_000_000, 0),
    lateness("w4-sparse", "W4 the same, tick of 1 ms, of 500: most are alone in their ticks", 1_000, 500, 0),
    lateness("w4-crowded", "W4 the same as w4, with 10,000,000 more pending", 1_000, 1_000_000, 10_000_000),
    memory("w5", "W5 resident memory per pending timeout, handle and closure included, 1,000,000", 1_000_000),
    memory("w5-10m", "W5 the same, 10,000,000", 10_000_000),
    idle("w6-empty", "W6 wake-ups and CPU in 5 s, nothing pending", 0),
    idle("w6", "W6 wake-ups and CPU in 5 s, 1,000,000 due in an hour", 1_000_000),
    burst("w7", "W7 100,000 on one deadline, from it until the last has run", false),
    burst("w7-clock", "W7 the same, and each reads the clock and keeps how late it is", true),
    scaling("w8-10k", "W8 schedule, reset and cancel, with 10,000 pending", &[1], 10_000),
    scaling("w8-100k", "W8 the same, with 100,000 pending", &[1], 100_000),
    scaling("w8-10m", "W8 the same, with 10,000,000 pending", &[1], 10_000_000),
    scaling("w8-producers", "W8 the same by the number of producers, with 800,000", &[1, 2, 4, 8, 16], 800_000),
    raced("w9-ready", "W9 a limit round a future that is ready at once", Work::Future { ready: true }, 0, 2_000_000),
    raced("w9-sleep", "W9 a sleep of 60 s, polled once and dropped", Work::Future { ready: false }, 0, 2_000_000),
    sessions("w11-0", "W11 100,000 sessions over UDP, 40,000 requests/s, one loop: no timers", 0, false, Amount::Fixed),
    sessions("w11-1", "W11 the same, idle deadline pushed out", 1, false, Amount::Fixed),
    sessions("w11-4", "W11 the same, replies paced, loss timer cancelled and set", 4, false, Amount::Fixed),
    sessions("w11-full", "W11 as fast as it goes, 4 timer operations a request", 4, false, Amount::Full),
    sessions("w11-tasks-0", "W11 a task for each session, 40,000 requests/s: no timers", 0, true, Amount::Fixed),
    sessions("w11-tasks-4", "W11 the same, 4 timer operations a request", 4, true, Amount::Fixed),
    sessions("w11-tasks-full", "W11 a task for each session, as fast as it goes", 4, true, Amount::Full),
    sessions("w11-counted-0", "W11 instructions by callgrind, in one loop: no timers", 0, false, Amount::Counted),
    sessions("w11-counted-4", "W11 the same, 4 timer operations a request", 4, false, Amount::Counted),
    sessions("w11-counted-tasks-0", "W11 instructions, a task for each session: no timers", 0, true, Amount::Counted),
    sessions("w11-counted-tasks-4", "W11 the same, 4 timer operations a request", 4, true, Amount::Counted),
    client("w12", "W12 a limit round each of 50,000 requests under way, two threads", false, false, 50_000),
    client("w12-one-core", "W12 the same, both threads on one core", false, true, 50_000),
    client("w12-1k", "W12 the same with 1,000 requests under way", false, false, 1_000),
    client("w12-tcp", "W12 1,000 requests under way over 4 connections on loopback", true, false, 1_000),
    client("w12-tcp-one-core", "W12 the same, client and server on one core", true, true, 1_000),
    Case {
        id: "w12-blocked",
        title: "W12 how late limits are while a thread is blocked for 1 s",
        work: Work::Blocked,
        timeouts: 1_000,
        ..CASE
    },
    Case {
        id: "w13",
        title: "W13 single calls over a ring of 1,000 a thread, each timed; 2,000,000 steps of all threads",
        producers: &[1, 2, 8, 64],
        work: Work::Tail,
        timeouts: 1_000,
        operations: 2_000_000,
        ..CASE
    },
];

/// Returns the case of that name.
pub(crate) fn find(id: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.id == id)
}
