//! Engines played by the tests, right and wrong ones.

use tourbillon::ManualClock;

use super::super::clock::Time;
use super::super::task_context::{TaskContext, Token};
use super::*;

/// A ledger whose engine is played by the test, which may be a wrong one.
fn ledger() -> (Arc<TaskContext>, ManualClock, Arc<Violations>) {
    let clock = ManualClock::new();
    let violations = Arc::new(Violations::new(7));
    let time = Time::Manual(clock.clone());
    let tick = Duration::from_millis(1);
    let ledger = Ledger::new("test".to_owned(), time, tick, 8, false, &Arc::default(), &violations);
    (Arc::new(TaskContext::new(Arc::new(ledger), None)), clock, violations)
}

const SECOND: Duration = Duration::from_secs(1);

fn scheduled(context: &Arc<TaskContext>) -> Token {
    let token = context.open(Kind::Once, context.ledger.floor_in(SECOND)).expect("room");
    context.ledger.accepted();
    context.ledger.let_go(token.id);
    token
}

fn found(violations: &Violations, what: Fault) -> bool {
    violations.kept().iter().any(|text| text.contains(&what.to_string()) && text.contains("seed 7"))
}

#[test]
fn a_right_engine_passes() {
    let (context, clock, violations) = ledger();
    let token = scheduled(&context);
    clock.advance(SECOND);
    assert!(token.begin());
    drop(token);
    let refused = context.open(Kind::Once, 0).expect("room");
    context.ledger.rejected();
    context.ledger.let_go(refused.id);
    scoped(Scope::Refused, || drop(refused));
    context.ledger.reconcile(None, 0);
    assert_eq!(violations.kept(), Vec::<String>::new());
    assert_eq!((context.ledger.tally.ended(Ended::Fired), context.ledger.tally.ended(Ended::Refused)), (1, 1));
}

#[test]
fn an_engine_that_runs_one_twice_is_caught_while_it_lives_and_afterwards() {
    let (context, clock, violations) = ledger();
    let token = scheduled(&context);
    clock.advance(SECOND);
    assert!(token.begin());
    assert!(!token.begin());
    assert!(found(&violations, Fault::Twice));
    let id = token.id;
    drop(token);
    assert!(!context.ledger.begin(id));
    assert!(found(&violations, Fault::AfterEnd));
}

#[test]
fn an_engine_that_is_early_is_caught() {
    let (context, clock, violations) = ledger();
    let token = scheduled(&context);
    clock.advance(SECOND - Duration::from_nanos(1));
    assert!(!token.begin());
    assert!(found(&violations, Fault::Early));
}

#[test]
fn an_engine_that_forgets_a_reset_is_caught() {
    let (context, clock, violations) = ledger();
    let token = scheduled(&context);
    assert!(context.ledger.place(token.id).holders == 0);
    context.ledger.reset(token.id, context.ledger.floor_in(2 * SECOND), || true);
    clock.advance(SECOND);
    assert!(!token.begin());
    assert!(found(&violations, Fault::Early));
}

#[test]
fn an_engine_that_runs_what_was_cancelled_is_caught() {
    let (context, clock, violations) = ledger();
    let token = context.open(Kind::Once, context.ledger.floor_in(SECOND)).expect("room");
    let id = token.id;
    assert!(context.ledger.cancel(id, || {
        drop(token);
        true
    }));
    assert_eq!(violations.count(), 0);
    clock.advance(SECOND);
    assert!(!context.ledger.begin(id));
    assert!(found(&violations, Fault::AfterEnd));
    let kept = context.open(Kind::Once, 0).expect("room");
    context.ledger.cancel(kept.id, || true);
    assert!(found(&violations, Fault::CancelledNotDropped));
}

#[test]
fn an_engine_that_loses_one_is_caught() {
    let (context, _clock, violations) = ledger();
    let token = scheduled(&context);
    std::mem::forget(token);
    assert_eq!(context.ledger.open_records(), 1);
    context.ledger.reconcile(None, 0);
    assert!(found(&violations, Fault::Lost));
}

#[test]
fn an_engine_that_drops_one_unrun_is_caught() {
    let (context, _clock, violations) = ledger();
    drop(scheduled(&context));
    assert!(found(&violations, Fault::DroppedUnrun));
}

#[test]
fn an_engine_whose_counters_are_wrong_is_caught() {
    let (context, clock, violations) = ledger();
    let (timer, mut driver) = Timer::builder().build_driven().expect("the defaults");
    let token = scheduled(&context);
    clock.advance(SECOND);
    timer.schedule_detached(Duration::ZERO, || ()).expect("room");
    timer.schedule_detached(Duration::ZERO, || ()).expect("room");
    while driver.turn() > 0 {}
    assert!(token.begin());
    drop(token);
    context.ledger.reconcile(Some(&timer.stats()), 0);
    assert!(violations.kept()[0].contains("scheduled: 1 here, 2 there"), "{:?}", violations.kept());
}
