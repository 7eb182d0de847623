//! Every case of every system that is part of this build, as small as can be: it answers, what is
//! to run runs once, and nothing of ours is early.

use anyhow::ensure;
use clap::ValueEnum;

use super::*;
use crate::compare::cases::{Amount, CASES, Case, find};
use crate::compare::systems::names::How;

fn job(case: &'static Case, producers: usize) -> Job {
    // A third of the times, at which none is due before it has been taken in, even on a loaded
    // machine.
    Job { case, producers, scale: 0.000_1, pace: 0.3 }
}

/// Whether a case starts this program under callgrind, which in a test is another.
fn needs_a_program(work: Work) -> bool {
    matches!(work, Work::Sessions { amount: Amount::Counted, .. })
}

#[test]
fn every_case_of_every_system_answers() {
    for &name in Name::value_variants() {
        let here = name.how() == How::Here || (cfg!(feature = "peers") && name.how() == How::Peer);
        let can = |case: &&Case| here && name.cannot(case.work).is_none() && !needs_a_program(case.work);
        for case in CASES.iter().filter(can) {
            for &producers in case.producers {
                // A peer may lose what its thread was late for, and on a loaded machine it is: then
                // it has another try.
                let mut tries = if name.how() == How::Here { 1 } else { 3 };
                while let Err(why) = try_one(name, &job(case, producers)) {
                    tries -= 1;
                    assert!(tries > 0, "{name} {} with {producers}: {why:#}", case.id);
                }
            }
        }
    }
}

fn try_one(name: Name, job: &Job) -> Result<()> {
    let line = measure(name, job)?;
    let text = serde_json::to_string(&line)?;
    ensure!(Line::read(&text, job.case)? == line, "the line does not come back as it was: {text}");
    for metric in job.case.work.metrics() {
        ensure!(line.metrics.contains_key(metric.key), "it reports no {}", metric.key);
    }
    let count = |key| line.metrics.get(key).copied().unwrap_or(0.0);
    ensure!(count("missing") == 0.0 && count("twice") == 0.0, "not all ran once: {text}");
    ensure!(count("early") == 0.0 || !name.is_ours(), "some ran early: {text}");
    Ok(())
}

#[test]
fn a_case_that_a_system_can_not_do_is_refused_with_the_reason() {
    let refused = measure(Name::Bitwheel, &job(find("w6").expect("a case"), 1)).expect_err("no thread");
    assert!(refused.to_string().contains("its owner turns it"), "{refused}");
    assert!(measure(Name::Netty, &job(find("w2").expect("a case"), 1)).is_err());
}
