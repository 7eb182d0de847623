//! The steps of a case: calls, moves of the clocks, runs, and faults of the store.

use std::time::Duration;

use proptest::prelude::*;

use super::KEYS;
use super::faulty::Fault;
use crate::due::Outcome;

/// The call that a transaction of another connection makes.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnCall {
    Schedule,
    Reset,
    Cancel,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Schedule {
        key: u8,
        delay_ms: u64,
        if_absent: bool,
    },
    Reset {
        key: u8,
        delay_ms: u64,
    },
    Cancel {
        key: u8,
    },
    /// Another connection writes in a transaction of its own, which is rolled back or committed.
    Own {
        key: u8,
        call: OwnCall,
        delay_ms: u64,
        commit: bool,
    },
    /// Both clocks go on.
    Advance {
        ms: u64,
    },
    /// The wall clock alone jumps.
    Jump {
        ms: i64,
    },
    /// The oldest claimed timeout runs, and ends like this.
    Run(Outcome),
    /// The handler panics.
    Panic,
    /// The runtime of the handler drops its run.
    Drop,
    /// The same, before it has begun.
    Refuse,
    /// The handler is paused, or goes on.
    Pause(bool),
    /// A call to the store meets this fault, after so many others.
    Fault {
        after: u8,
        fault: Fault,
    },
}

fn delays() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..50_u64, 900..1_100_u64, 29_000..31_000_u64, 40_000..100_000_u64]
}

pub(super) fn steps() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![
        any::<bool>().prop_map(|done| Fault::Lost { done }),
        any::<bool>().prop_map(|done| Fault::Crash { done }),
        Just(Fault::Dropped),
        Just(Fault::Unavailable),
        Just(Fault::Busy),
        Just(Fault::Bad),
    ];
    let outcome = prop_oneof![
        4 => Just(Outcome::Done),
        1 => Just(Outcome::Retry),
        2 => (0..40_000_u64).prop_map(|ms| Outcome::RetryAfter(Duration::from_millis(ms))),
        1 => Just(Outcome::DeadLetter),
    ];
    let call = prop_oneof![2 => Just(OwnCall::Schedule), 1 => Just(OwnCall::Reset), 1 => Just(OwnCall::Cancel)];
    let own = (0..KEYS, call, delays(), prop::bool::weighted(0.8));
    prop_oneof![
        3 => own.prop_map(|(key, call, delay_ms, commit)| Step::Own { key, call, delay_ms, commit }),
        4 => (0..KEYS, delays()).prop_map(|(key, delay_ms)| Step::Schedule { key, delay_ms, if_absent: false }),
        2 => (0..KEYS, delays()).prop_map(|(key, delay_ms)| Step::Schedule { key, delay_ms, if_absent: true }),
        2 => (0..KEYS, delays()).prop_map(|(key, delay_ms)| Step::Reset { key, delay_ms }),
        2 => (0..KEYS).prop_map(|key| Step::Cancel { key }),
        5 => delays().prop_map(|ms| Step::Advance { ms }),
        1 => (-90_000..90_000_i64).prop_map(|ms| Step::Jump { ms }),
        4 => outcome.prop_map(Step::Run),
        1 => Just(Step::Panic),
        1 => Just(Step::Drop),
        1 => Just(Step::Refuse),
        3 => prop_oneof![Just(true), Just(false), Just(false)].prop_map(Step::Pause),
        2 => (0..6_u8, fault).prop_map(|(after, fault)| Step::Fault { after, fault }),
    ]
}
