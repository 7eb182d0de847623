//! Random programs.

use std::time::Duration;

use proptest::prelude::*;
use testkit::DAY;
use testkit::oracle::{Act, End, Kept, Options, Rule, Step, Via};
use tourbillon::{Builder, MissedTicks, Shutdown, Timer};

/// Delays of all orders of magnitude. A few are special, and many fall together.
pub(crate) fn delays() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0..54_u32, any::<u64>()).prop_map(|(bits, ns)| Duration::from_nanos(ns % (2 << bits))),
        4 => (0..600_u64).prop_map(Duration::from_millis),
        2 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

/// Points in time from hours ago to days ahead. None is in the current tick but past: the engine
/// does not promise when that is due.
pub(crate) fn offsets() -> impl Strategy<Value = i64> {
    prop_oneof![Just(-3_600_000_000_000), Just(-400_000_000_000_000), 1..1_000_000_000_i64, 1..400_000_000_000_000_i64]
}

/// Periods of all orders of magnitude.
pub(crate) fn rules() -> impl Strategy<Value = Rule> {
    let period = || (0..50_u32, any::<u64>()).prop_map(|(bits, ns)| Duration::from_nanos(1 + ns % (2 << bits)));
    let missed = prop_oneof![Just(MissedTicks::Skip), Just(MissedTicks::Delay), Just(MissedTicks::Burst)];
    let answer = prop_oneof![Just(Duration::ZERO), period()];
    prop_oneof![
        3 => (period(), missed).prop_map(|(period, missed)| Rule::Rate(period, missed)),
        1 => period().prop_map(Rule::Delay),
        1 => (answer, prop_oneof![Just(u32::MAX), 0..5_u32]).prop_map(|(delay, times)| Rule::Answer(delay, times)),
    ]
}

fn ways() -> impl Strategy<Value = Via> {
    prop_oneof![
        8 => Just(Via::Timer),
        2 => Just(Via::Elsewhere),
        2 => any::<u8>().prop_map(Via::Key),
    ]
}

fn elsewhere() -> impl Strategy<Value = bool> {
    prop_oneof![4 => Just(false), 1 => Just(true)]
}

fn acts() -> impl Strategy<Value = Act> {
    let which = any::<usize>;
    prop_oneof![
        10 => Just(Act::Nothing),
        1 => Just(Act::Panic),
        1 => delays().prop_map(|delay| Act::Schedule { delay }),
        1 => which().prop_map(|which| Act::Cancel { which }),
        1 => (which(), delays()).prop_map(|(which, delay)| Act::Reset { which, delay }),
        1 => which().prop_map(|which| Act::Drop { which }),
        1 => delays().prop_map(|by| Act::Advance { by: by.min(DAY) }),
    ]
}

pub(crate) fn steps() -> impl Strategy<Value = Step> {
    let kept = prop_oneof![3 => Just(Kept::Plainly), 1 => Just(Kept::Guarded), 1 => Just(Kept::Detached)];
    let which = any::<usize>;
    prop_oneof![
        10 => (delays(), kept, ways(), acts())
            .prop_map(|(delay, kept, via, act)| Step::Schedule { delay, kept, via, act }),
        1 => (offsets(), ways()).prop_map(|(offset, via)| Step::ScheduleAt { offset, via }),
        1 => (delays(), 0..20_usize, elsewhere())
            .prop_map(|(delay, many, is_elsewhere)| Step::ScheduleMany { delay, many, is_elsewhere }),
        6 => (which(), delays()).prop_map(|(which, delay)| Step::Reset { which, delay }),
        1 => (which(), offsets()).prop_map(|(which, offset)| Step::ResetAt { which, offset }),
        3 => which().prop_map(|which| Step::Cancel { which }),
        2 => which().prop_map(|which| Step::Drop { which }),
        1 => which().prop_map(|which| Step::Unguard { which }),
        2 => (delays(), rules(), elsewhere(), acts()).prop_map(|(initial, rule, is_elsewhere, act)| {
            Step::Periodic { initial: initial.min(30 * DAY), rule, is_elsewhere, act }
        }),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
        2 => Just(Step::ToNext),
        6 => prop_oneof![3 => (0..2_000_000_000_u64).prop_map(Duration::from_nanos), 2 => delays()]
            .prop_map(|by| Step::Advance { by: by.min(30 * DAY) }),
        3 => Just(Step::Turn),
        6 => Just(Step::Settle),
        2 => Just(Step::Sleep),
    ]
}

pub(crate) fn ends() -> impl Strategy<Value = End> {
    prop_oneof![
        3 => Just(End::Shutdown(Shutdown::Cancel)),
        1 => Just(End::Shutdown(Shutdown::FireNow)),
        1 => delays().prop_map(|most| End::Shutdown(Shutdown::Drain(most))),
        1 => Just(End::DropTimers),
        1 => Just(End::DropDriver),
    ]
}

/// Wheels and limits. Returns their description along with them, for a failure's report.
pub(crate) fn builders() -> impl Strategy<Value = (Builder, Options)> {
    let limits = prop_oneof![Just((100_000, 100_000)), Just((1, 1)), Just((3, 2)), Just((50, 7))];
    let tick = prop_oneof![4 => Just(1_000_000), 1 => Just(333_000), 1 => Just(60_000_000_000), 1 => Just(1_000)];
    let levels = prop_oneof![Just(1_usize), Just(2), Just(4), Just(6)];
    let most = prop_oneof![3 => Just(None), 1 => (1..30_usize).prop_map(Some)];
    (levels, 2..10_u32, 1..3_usize, limits, tick, most).prop_map(
        |(levels, bits, shards, limits, tick_ns, max_pending)| {
            let builder = Timer::builder().levels(levels).ticks_per_wheel(1 << bits).shards(shards);
            let (transfer, expiry) = limits;
            let is_unlimited = transfer.min(expiry) > 10_000;
            let options = Options { tick: Duration::from_nanos(tick_ns), max_pending, is_unlimited };
            (builder.transfer_limit(transfer).expiry_limit(expiry), options)
        },
    )
}
