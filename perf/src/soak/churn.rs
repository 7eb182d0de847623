//! Short-lived engines beside the long-lived: built, used, and stopped in all ways with work left,
//! while they are used or after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use crossbeam_queue::ArrayQueue;
use fastrand::Rng;
use tourbillon::WaitStrategy;

use super::DAY;
use super::context::{Jumping, Violations};
use super::executors::Runner;
use super::held::Held;
use super::player::{LetterBox, Player};
use super::subject::{Plan, Subject};
use super::tally::{Count, Tally};

/// One engine after the other until it is over.
pub(crate) fn run(seed: u64, tally: &Arc<Tally>, violations: &Arc<Violations>, is_over: &AtomicBool) -> Result<()> {
    let mut rng = Rng::with_seed(seed);
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        number += 1;
        one(&mut rng, number, tally, violations)?;
    }
    Ok(())
}

fn plan(rng: &mut Rng, number: u64) -> (Plan, Count) {
    let runner = *rng.choice(&Runner::ALL).unwrap_or(&Runner::Default);
    let mut plan = Plan::new(&format!("short {number} ({runner:?})"), runner);
    plan.shards = rng.usize(1..4);
    plan.tick = Duration::from_micros(*rng.choice(&[50, 1_000, 7_000]).unwrap_or(&1_000));
    plan.cramped = rng.bool();
    plan.limit = (rng.u32(0..3) == 0).then(|| rng.usize(5..300));
    plan.room = 1 << 12;
    plan.driven = rng.u32(0..5) == 0;
    plan.wait = match rng.u32(0..8) {
        0 => WaitStrategy::Spin,
        1 | 2 => WaitStrategy::Hybrid { spin: Duration::from_micros(200) },
        _ => WaitStrategy::Park,
    };
    if plan.wait == WaitStrategy::Spin {
        // A worker that spins sees a jump by itself.
        plan.shards = 1;
        plan.jumping = Some(Jumping::default());
        plan.driven = false;
    }
    let how = if plan.driven {
        *rng.choice(&[Count::StopDriven, Count::StopDriverDropped, Count::StopDropped, Count::StopFireNow])
            .unwrap_or(&Count::StopDriven)
    } else {
        let all = [Count::StopCancel, Count::StopFireNow, Count::StopDrain, Count::StopRace, Count::StopDropped];
        *rng.choice(&all).unwrap_or(&Count::StopCancel)
    };
    (plan, how)
}

fn one(rng: &mut Rng, number: u64, tally: &Arc<Tally>, violations: &Arc<Violations>) -> Result<()> {
    let (plan, how) = plan(rng, number);
    let subject = Arc::new(Subject::build(&plan, tally, violations)?);
    let subjects = Arc::new(vec![Arc::clone(&subject)]);
    let boxes: [LetterBox; 2] = [Arc::new(ArrayQueue::new(64)), Arc::new(ArrayQueue::new(64))];
    let is_over = Arc::new(AtomicBool::new(false));
    let operations = rng.u32(1..3_000);
    let play = |at: usize, seed: u64| {
        let (mine, others) = (Arc::clone(&boxes[at]), vec![Arc::clone(&boxes[1 - at])]);
        let mut player = Player::new(seed, Arc::clone(&subjects), Arc::clone(tally), mine, others);
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || {
            player.play(operations, || is_over.load(Ordering::Relaxed));
            let left = player.hand_over();
            player.die();
            left
        })
    };
    let mut players = vec![play(0, rng.u64(..))];
    if rng.bool() {
        players.push(play(1, rng.u64(..)));
    }
    thread::sleep(Duration::from_micros(rng.u64(0..60_000)));
    if let Some(clock) = &plan.jumping {
        clock.jump(DAY);
        tally.did(Count::Day);
    }
    // An engine is dropped when its producers have gone; the others are shut down under their
    // hands.
    let in_use = !matches!(how, Count::StopDropped | Count::StopDriverDropped) && rng.bool();
    if in_use {
        subject.stop(how);
    }
    is_over.store(true, Ordering::Relaxed);
    let left: Vec<Held> = players.into_iter().flat_map(|player| player.join().unwrap_or_default()).collect();
    if !in_use {
        subject.stop(how);
    }
    // Handles that outlive their engine.
    for held in &left {
        match rng.u32(0..3) {
            0 => _ = held.cancel(),
            1 => _ = held.reset(Duration::from_millis(1)),
            _ => {}
        }
    }
    drop(left);
    boxes.iter().for_each(|letters| while letters.pop().is_some() {});
    subject.reconcile();
    tally.latest.fetch_max(subject.latest().unwrap_or(0), Ordering::Relaxed);
    Ok(())
}
