//! The systems: their names on the page, their kinds, and their looks in a plot.

use plotters::style::RGBColor;

use super::data::Data;

/// The kind of a system, which says what it may be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The system that the others are compared with, or another way to use it.
    Ours,
    /// No timer at all, but the least that one could cost.
    Floor,
    /// Any thread may use it.
    Shared,
    /// One thread at a time owns it, and threads share nothing.
    Owned,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Floor => "floor",
            Self::Shared => "shared by threads",
            Self::Owned => "single owner",
        }
    }
}

/// The form of a dot, which tells systems apart without colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dot {
    Circle,
    Square,
    Triangle,
    Cross,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) label: String,
    pub(crate) kind: Kind,
    pub(crate) colour: RGBColor,
    pub(crate) dot: Dot,
    /// One of several ways to use the same: its dots are empty.
    pub(crate) variant: bool,
    /// Its name in Cargo.lock, if it is a crate.
    pub(crate) package: Option<&'static str>,
}

// Okabe and Ito's colours, and those of Paul Tol's that differ from them, for lines on white and on
// near-black.
pub(crate) const OURS: RGBColor = RGBColor(0x00, 0x5F, 0xB8);
const ORANGE: RGBColor = RGBColor(0xD5, 0x8A, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x8A, 0x64);
const SKY: RGBColor = RGBColor(0x3F, 0xA0, 0xD8);
const PURPLE: RGBColor = RGBColor(0xC0, 0x66, 0x9A);
const VERMILION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const WINE: RGBColor = RGBColor(0x88, 0x22, 0x55);
const OLIVE: RGBColor = RGBColor(0x8C, 0x8C, 0x2B);
const INDIGO: RGBColor = RGBColor(0x5A, 0x4F, 0xA8);
const GREY: RGBColor = RGBColor(0x77, 0x77, 0x77);
const SPARE: [RGBColor; 4] = [VERMILION, GREEN, PURPLE, OLIVE];

type Known = (&'static str, &'static str, Kind, RGBColor, Dot, bool, Option<&'static str>);

const KNOWN: [Known; 37] = [
    ("tourbillon", "Tourbillon", Kind::Ours, OURS, Dot::Circle, false, Some("tourbillon")),
    ("tourbillon-driven", "Tourbillon, driven", Kind::Ours, OURS, Dot::Square, false, Some("tourbillon")),
    ("tourbillon-inline", "Tourbillon, inline", Kind::Ours, OURS, Dot::Circle, true, Some("tourbillon")),
    ("tourbillon-at", "Tourbillon, deadlines given", Kind::Ours, OURS, Dot::Circle, true, Some("tourbillon")),
    ("tourbillon-future", "Tourbillon, futures", Kind::Ours, OURS, Dot::Square, true, Some("tourbillon")),
    ("tourbillon-2-shards", "Tourbillon, 2 shards", Kind::Ours, OURS, Dot::Triangle, false, Some("tourbillon")),
    ("tourbillon-8-shards", "Tourbillon, 8 shards", Kind::Ours, OURS, Dot::Triangle, true, Some("tourbillon")),
    ("tourbillon-unpinned", "Tourbillon, unpinned", Kind::Ours, OURS, Dot::Cross, true, Some("tourbillon")),
    ("tourbillon-local", "LocalTimer", Kind::Ours, OURS, Dot::Cross, false, Some("tourbillon")),
    ("tourbillon-local-rounds", "LocalTimer, rounds", Kind::Ours, OURS, Dot::Cross, true, Some("tourbillon")),
    ("bare-cas", "bare CAS (floor)", Kind::Floor, GREY, Dot::Square, true, None),
    ("bare-calls", "bare calls (floor)", Kind::Floor, GREY, Dot::Cross, true, None),
    ("no-timers", "no timers", Kind::Floor, GREY, Dot::Triangle, false, None),
    ("netty", "Netty 4.1", Kind::Shared, ORANGE, Dot::Square, false, None),
    ("netty-512", "Netty 4.1, 512 slots", Kind::Shared, ORANGE, Dot::Square, true, None),
    ("netty-4.2", "Netty 4.2", Kind::Shared, ORANGE, Dot::Circle, false, None),
    ("netty-4.2-512", "Netty 4.2, 512 slots", Kind::Shared, ORANGE, Dot::Circle, true, None),
    ("fork-join-pool", "JDK 25 ForkJoinPool", Kind::Shared, VERMILION, Dot::Square, false, None),
    ("scheduled-thread-pool", "JDK ScheduledThreadPool", Kind::Shared, VERMILION, Dot::Triangle, false, None),
    ("go", "Go", Kind::Shared, SKY, Dot::Triangle, false, None),
    ("tokio", "tokio", Kind::Shared, GREEN, Dot::Triangle, false, Some("tokio")),
    ("tokio-timeout", "tokio, timeout", Kind::Shared, GREEN, Dot::Triangle, true, Some("tokio")),
    ("tokio-task", "tokio, a task each", Kind::Shared, GREEN, Dot::Square, true, Some("tokio")),
    ("delay-queue", "DelayQueue", Kind::Owned, SKY, Dot::Square, false, Some("tokio-util")),
    ("pingora", "pingora-timeout", Kind::Shared, PURPLE, Dot::Triangle, false, Some("pingora-timeout")),
    ("async-io", "async-io", Kind::Shared, VERMILION, Dot::Cross, false, Some("async-io")),
    (
        "hierarchical-hash-wheel",
        "hierarchical hash wheel",
        Kind::Shared,
        WINE,
        Dot::Square,
        false,
        Some("hierarchical_hash_wheel_timer"),
    ),
    ("nexus", "nexus-timer", Kind::Owned, OLIVE, Dot::Circle, false, Some("nexus-timer")),
    ("nexus-rounds", "nexus-timer, rounds", Kind::Owned, OLIVE, Dot::Circle, true, Some("nexus-timer")),
    ("nexus-queue", "nexus-timer, one duration", Kind::Owned, OLIVE, Dot::Square, true, Some("nexus-timer")),
    ("bitwheel", "bitwheel", Kind::Owned, INDIGO, Dot::Circle, false, Some("bitwheel")),
    ("hashed-wheel", "hashed_wheel_timer", Kind::Shared, INDIGO, Dot::Triangle, false, Some("hashed_wheel_timer")),
    ("io-uring", "io_uring", Kind::Owned, WINE, Dot::Cross, false, Some("io-uring")),
    ("libevent", "libevent", Kind::Owned, SKY, Dot::Circle, false, None),
    ("libev", "libev", Kind::Owned, WINE, Dot::Circle, false, None),
    ("libuv", "libuv", Kind::Owned, INDIGO, Dot::Cross, false, None),
    ("heap", "Mutex<BinaryHeap>", Kind::Shared, GREY, Dot::Cross, false, None),
];

/// Returns the look of a system. A build of `compare --build` is unknown here, and keeps its name.
pub(crate) fn look(data: &Data, system: &str) -> Look {
    if let Some(&(_, label, kind, colour, dot, variant, package)) = KNOWN.iter().find(|known| known.0 == system) {
        return Look { label: label.to_owned(), kind, colour, dot, variant, package };
    }
    let (kind, colour) = if system == data.reference {
        (Kind::Ours, OURS)
    } else {
        let at = data.systems_in_order().iter().position(|&name| name == system).unwrap_or(0);
        (Kind::Shared, SPARE[at % SPARE.len()])
    };
    Look { label: system.to_owned(), kind, colour, dot: Dot::Square, variant: false, package: None }
}

/// Returns whether it is a system of `compare`. If not, it is a build that `--build` named.
pub(crate) fn is_known(system: &str) -> bool {
    KNOWN.iter().any(|known| known.0 == system)
}

#[cfg(test)]
pub(crate) fn all_colours() -> impl Iterator<Item = RGBColor> {
    KNOWN.into_iter().map(|known| known.3).chain(SPARE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::first_run;

    #[test]
    fn each_system_of_compare_has_a_look_of_its_own() {
        let mut data = Data::merged(vec![first_run()]).expect("a run");
        for name in crate::compare::system_names() {
            assert!(KNOWN.iter().any(|known| known.0 == name), "{name} has no look");
        }
        let same = |a: &Known, b: &Known| (a.3, a.4, a.5) == (b.3, b.4, b.5) && a.2 != Kind::Ours;
        for (at, known) in KNOWN.iter().enumerate() {
            assert!(KNOWN[at + 1..].iter().all(|other| !same(known, other)), "{} looks like another", known.0);
        }
        data.reference = "new".to_owned();
        assert_eq!((look(&data, "new").kind, look(&data, "old").kind), (Kind::Ours, Kind::Shared));
        assert_eq!(look(&data, "old").label, "old");
    }
}
