//! Every case of every system that is part of this build, as small as can be: it answers, and what is to run runs once.

use super::*;
use crate::compare::cases::{CASES, Case, Sizes, find};

const SIZE: Sizes = Sizes::scaled(0.000_1);

fn job(case: &'static Case, producers: usize) -> Job {
    // A third of the times, at which none is due before it has been taken in, even on a loaded machine.
    Job { case, producers, sizes: SIZE, pace: 0.3 }
}

/// All cases that the system can do.
fn try_all(name: Name) {
    let can = CASES.iter().filter(|case| name.cannot(case.work).is_none());
    let mut tried = 0;
    for case in can {
        for &producers in case.producers {
            let line = measure(name, &job(case, producers)).unwrap_or_else(|why| panic!("{name} {}: {why:#}", case.id));
            let text = serde_json::to_string(&line).expect("plain data");
            assert_eq!(Line::read(&text, case).expect("it makes sense"), line);
            for metric in case.metrics {
                assert!(line.metrics.contains_key(metric.key), "{name} {} reports no {}", case.id, metric.key);
            }
            for exactly_once in ["missing", "twice"] {
                let count = line.metrics.get(exactly_once).copied().unwrap_or(0.0);
                assert_eq!(count, 0.0, "{name} {}: {exactly_once}", case.id);
            }
            if matches!(name.how(), How::Here) {
                assert_eq!(line.metrics.get("early").copied().unwrap_or(0.0), 0.0, "{name} {} is early", case.id);
            }
            tried += 1;
        }
    }
    assert!(tried > 0, "{name} can do nothing");
}

macro_rules! every_case_of {
    ($($(#[$attribute:meta])* $test:ident: $name:ident,)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $test() {
                try_all(Name::$name);
            }
        )*

        #[test]
        fn none_is_forgotten() {
            let here = [$(Name::$name),*];
            for name in SYSTEMS {
                assert!(here.contains(&name) || matches!(name.how(), How::Netty { .. }), "{name} has no test");
            }
        }
    };
}

every_case_of! {
    tourbillon: Tourbillon,
    tourbillon_inline: TourbillonInline,
    tourbillon_reset_at: TourbillonResetAt,
    bare_cas: BareCas,
    heap: Heap,
    #[cfg(feature = "peers")]
    tokio: Tokio,
    #[cfg(feature = "peers")]
    tokio_timeout: TokioTimeout,
    #[cfg(feature = "peers")]
    tokio_task: TokioTask,
    #[cfg(feature = "peers")]
    delay_queue: DelayQueue,
    #[cfg(feature = "peers")]
    pingora: Pingora,
    #[cfg(feature = "peers")]
    async_io: AsyncIo,
    #[cfg(feature = "peers")]
    hierarchical_hash_wheel: HierarchicalHashWheel,
    #[cfg(feature = "peers")]
    nexus: Nexus,
    #[cfg(feature = "peers")]
    hashed_wheel: HashedWheel,
}

#[test]
fn what_a_system_can_not_do_is_refused_with_the_reason() {
    let refused = measure(Name::HashedWheel, &job(find("w2").expect("a case"), 1)).expect_err("no cancel");
    assert!(refused.to_string().contains("no cancel"), "{refused}");
    assert!(measure(Name::Netty, &job(find("w2").expect("a case"), 1)).is_err());
}
