//! What a random program is made of.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tourbillon::{Builder, MissedTicks, Timer};

use crate::common::DAY;

/// One step of a program. An [`Index`] chooses among the handles that are held.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Schedule { delay: Duration, kept: Kept, elsewhere: bool },
    ScheduleAt { offset: i64 },
    ScheduleMany { delay: Duration, many: usize },
    Reset { which: Index, delay: Duration },
    ResetAt { which: Index, offset: i64 },
    Cancel { which: Index },
    Drop { which: Index },
    Unguard { which: Index },
    Series { initial: Duration, rule: Rule },
    Between { earliest: Duration, width: Duration },
    ScheduleInGroup { group: usize, delay: Duration, kept: bool },
    CancelAll { group: usize },
    Pause,
    Resume,
    ToNext,
    Advance { by: Duration },
    Turn,
    Settle,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Plainly,
    Guarded,
    Detached,
}

impl Step {
    /// The same, with at least the shortest delay there is.
    pub(crate) fn with_delays(mut self) -> Self {
        match &mut self {
            Self::Schedule { delay, .. }
            | Self::ScheduleMany { delay, .. }
            | Self::Reset { delay, .. }
            | Self::ScheduleInGroup { delay, .. }
            | Self::Series { initial: delay, .. }
            | Self::Between { earliest: delay, .. } => *delay = (*delay).max(Duration::from_nanos(1)),
            Self::ScheduleAt { offset } | Self::ResetAt { offset, .. } => *offset = offset.abs(),
            _ => {}
        }
        self
    }
}

/// What runs again and again. Runs take no time here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Rate(Duration, MissedTicks),
    Delay(Duration),
    Answer(Duration),
}

impl Rule {
    pub(crate) fn next_ns(self, due_ns: u128, now_ns: u128) -> u128 {
        match self {
            Self::Answer(delay) => now_ns + delay.as_nanos().max(1),
            Self::Delay(delay) => now_ns + delay.as_nanos(),
            Self::Rate(period, missed) => {
                let (next, period) = (due_ns + period.as_nanos(), period.as_nanos());
                match missed {
                    MissedTicks::Skip if next <= now_ns => next + ((now_ns - next) / period + 1) * period,
                    MissedTicks::Delay if next <= now_ns => now_ns + period,
                    _ => next,
                }
            }
        }
    }
}

/// Delays of all orders of magnitude, a few that are special, and many that fall together.
pub(crate) fn delays() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0..54_u32, any::<u64>()).prop_map(|(bits, ns)| Duration::from_nanos(ns % (2 << bits))),
        4 => (0..600_u64).prop_map(Duration::from_millis),
        2 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

/// Points in time from hours ago to days ahead. (Not within the current tick but past: see the promises.)
pub(crate) fn offsets() -> impl Strategy<Value = i64> {
    prop_oneof![Just(-3_600_000_000_000), Just(-400_000_000_000_000), 1..1_000_000_000_i64, 1..400_000_000_000_000_i64]
}

/// Periods of all orders of magnitude; long ones only for a burst, which makes up for each of 30 days.
pub(crate) fn rules() -> impl Strategy<Value = Rule> {
    let period = || (0..50_u32, any::<u64>()).prop_map(|(bits, ns)| Duration::from_nanos(1 + ns % (2 << bits)));
    let missed = prop_oneof![Just(MissedTicks::Skip), Just(MissedTicks::Delay)];
    prop_oneof![
        2 => (period(), missed).prop_map(|(period, missed)| Rule::Rate(period, missed)),
        1 => period().prop_map(|period| Rule::Rate(period + DAY, MissedTicks::Burst)),
        1 => period().prop_map(Rule::Delay),
        1 => prop_oneof![Just(Duration::ZERO), period()].prop_map(Rule::Answer),
    ]
}

pub(crate) fn steps() -> impl Strategy<Value = Step> {
    let kept = prop_oneof![3 => Just(Kept::Plainly), 1 => Just(Kept::Guarded), 1 => Just(Kept::Detached)];
    let which = any::<Index>;
    prop_oneof![
        8 => (delays(), kept, prop::bool::weighted(0.2))
            .prop_map(|(delay, kept, elsewhere)| Step::Schedule { delay, kept, elsewhere }),
        1 => offsets().prop_map(|offset| Step::ScheduleAt { offset }),
        1 => (delays(), 0..20_usize).prop_map(|(delay, many)| Step::ScheduleMany { delay, many }),
        6 => (which(), delays()).prop_map(|(which, delay)| Step::Reset { which, delay }),
        1 => (which(), offsets()).prop_map(|(which, offset)| Step::ResetAt { which, offset }),
        3 => which().prop_map(|which| Step::Cancel { which }),
        2 => which().prop_map(|which| Step::Drop { which }),
        1 => which().prop_map(|which| Step::Unguard { which }),
        2 => (delays(), rules())
            .prop_map(|(initial, rule)| Step::Series { initial: initial.min(30 * DAY), rule }),
        1 => (delays(), delays()).prop_map(|(earliest, width)| {
            Step::Between { earliest: earliest.min(30 * DAY), width: width.min(DAY) }
        }),
        2 => (0..2_usize, delays(), any::<bool>())
            .prop_map(|(group, delay, kept)| Step::ScheduleInGroup { group, delay, kept }),
        1 => (0..2_usize).prop_map(|group| Step::CancelAll { group }),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
        2 => Just(Step::ToNext),
        6 => prop_oneof![3 => (0..2_000_000_000_u64).prop_map(Duration::from_nanos), 2 => delays()]
            .prop_map(|by| Step::Advance { by: by.min(30 * DAY) }),
        3 => Just(Step::Turn),
        6 => Just(Step::Settle),
    ]
}

/// Wheels and limits. Returns their description along with them, for a failure's report.
pub(crate) fn builders() -> impl Strategy<Value = (Builder, Duration)> {
    let limits = prop_oneof![Just((100_000, 100_000)), Just((1, 1)), Just((3, 2)), Just((50, 7))];
    let tick = prop_oneof![4 => Just(1_000_000), 1 => Just(333_000), 1 => Just(60_000_000_000), 1 => Just(1_000)];
    let levels = prop_oneof![Just(1_usize), Just(2), Just(4), Just(6)];
    (levels, 2..10_u32, 1..3_usize, limits, tick).prop_map(|(levels, bits, shards, (transfer, expiry), tick_ns)| {
        let builder = Timer::builder().levels(levels).ticks_per_wheel(1 << bits).shards(shards);
        (builder.transfer_limit(transfer).expiry_limit(expiry), Duration::from_nanos(tick_ns))
    })
}
