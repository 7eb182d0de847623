//! Every case of every system that is part of this build, as small as can be: it answers, and what
//! is to run runs once.

use anyhow::ensure;

use super::*;
use crate::compare::cases::{Amount, CASES, Case, Sizes, Work, find};
use crate::compare::systems::names::{How, SYSTEMS};

const SIZE: Sizes = Sizes::scaled(0.000_1);

fn job(case: &'static Case, producers: usize) -> Job {
    // A third of the times, at which none is due before it has been taken in, even on a loaded
    // machine.
    Job::new(case, producers, SIZE, 0.3)
}

/// All cases that the system can do.
fn try_all(name: Name) {
    let mut tried = 0;
    let has_wrk = std::process::Command::new("wrk").arg("--version").output().is_ok();
    let can = |case: &&Case| name.cannot(case.work).is_none() && (has_wrk || !needs_wrk(case)) && !is_counted(case);
    for case in CASES.iter().filter(can) {
        for &producers in case.producers {
            // A peer may lose what its thread was late for, and on a loaded machine it is: then it
            // has another try.
            let mut tries = if name.how() == How::Here { 1 } else { 3 };
            while let Err(why) = try_one(name, &job(case, producers)) {
                tries -= 1;
                assert!(tries > 0, "{name} {} with {producers}: {why:#}", case.id);
            }
            tried += 1;
        }
    }
    assert!(tried > 0, "{name} can do nothing");
}

fn needs_wrk(case: &Case) -> bool {
    matches!(case.work, Work::Server { http: true, .. })
}

/// Whether it starts this program under callgrind, which in a test is another.
fn is_counted(case: &Case) -> bool {
    matches!(case.work, Work::Sessions { amount: Amount::Counted, .. })
}

fn try_one(name: Name, job: &Job) -> Result<()> {
    let case = job.case;
    let line = measure(name, job)?;
    let text = serde_json::to_string(&line)?;
    ensure!(Line::read(&text, case)? == line, "the line does not come back as it was: {text}");
    for metric in case.metrics {
        ensure!(line.metrics.contains_key(metric.key), "it reports no {}", metric.key);
    }
    let count = |key| line.metrics.get(key).copied().unwrap_or(0.0);
    ensure!(count("missing") == 0.0 && count("twice") == 0.0, "not all ran once: {text}");
    ensure!(count("early") == 0.0 || name.how() != How::Here, "some ran early: {text}");
    Ok(())
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
                assert!(here.contains(&name) || matches!(name.how(), How::Java(_) | How::Native(_)), "{name} has no test");
            }
        }
    };
}

every_case_of! {
    tourbillon: Tourbillon,
    #[cfg(all(feature = "peers", target_os = "linux"))]
    tourbillon_driven: TourbillonDriven,
    tourbillon_inline: TourbillonInline,
    tourbillon_at: TourbillonAt,
    tourbillon_future: TourbillonFuture,
    tourbillon_2_shards: Tourbillon2Shards,
    tourbillon_8_shards: Tourbillon8Shards,
    tourbillon_unpinned: TourbillonUnpinned,
    tourbillon_local: TourbillonLocal,
    tourbillon_local_rounds: TourbillonLocalRounds,
    bare_cas: BareCas,
    bare_calls: BareCalls,
    heap: Heap,
    #[cfg(feature = "peers")]
    no_timers: NoTimers,
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
    nexus_rounds: NexusRounds,
    #[cfg(feature = "peers")]
    nexus_queue: NexusQueue,
    #[cfg(feature = "peers")]
    bitwheel: Bitwheel,
    #[cfg(all(feature = "peers", target_os = "linux"))]
    io_uring: IoUring,
    #[cfg(feature = "peers")]
    hashed_wheel: HashedWheel,
}

#[test]
fn what_a_system_can_not_do_is_refused_with_the_reason() {
    let refused = measure(Name::HashedWheel, &job(find("w2").expect("a case"), 1)).expect_err("no cancel");
    assert!(refused.to_string().contains("no cancel"), "{refused}");
    assert!(measure(Name::Netty, &job(find("w2").expect("a case"), 1)).is_err());
}
