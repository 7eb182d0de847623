//! Engines played by the tests, right and wrong ones.

use std::sync::Arc;

use tourbillon::{ManualClock, Timer};

use super::*;

/// A value that a closure captures: it tells the ledger when it is dropped.
struct Token {
    id: u64,
    ledger: Arc<Ledger>,
}

impl Token {
    fn begin(&self) -> bool {
        self.ledger.begin(self.id)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.ledger.drop_closure(self.id);
    }
}

type Told = Arc<Mutex<Vec<String>>>;

/// A ledger whose engine is played by the test, which may be a wrong one.
fn ledger() -> (Arc<Ledger>, ManualClock, Told) {
    let (clock, told) = (ManualClock::new(), Told::default());
    let (now, tell) = (clock.clone(), Arc::clone(&told));
    let tell = move |what: &str| lock(&tell).push(what.to_owned());
    (Arc::new(Ledger::new(move || now.now(), Duration::from_millis(1), 8, tell)), clock, told)
}

const SECOND: Duration = Duration::from_secs(1);

fn open(ledger: &Arc<Ledger>, floor: u64) -> Token {
    Token { id: ledger.open(Kind::Once, floor).expect("room"), ledger: Arc::clone(ledger) }
}

fn scheduled(ledger: &Arc<Ledger>) -> Token {
    let token = open(ledger, ledger.floor_in(SECOND));
    ledger.accepted();
    ledger.let_go(token.id);
    token
}

fn found(told: &Told, what: Fault) -> bool {
    lock(told).iter().any(|text| text.contains(&what.to_string()))
}

#[test]
fn a_right_engine_passes() {
    let (ledger, clock, told) = ledger();
    let token = scheduled(&ledger);
    clock.advance(SECOND);
    assert!(token.begin());
    drop(token);
    let refused = open(&ledger, 0);
    ledger.rejected();
    ledger.let_go(refused.id);
    scoped(Scope::Refused, || drop(refused));
    let ends = ledger.reconcile(None, 0);
    assert_eq!(*lock(&told), Vec::<String>::new());
    assert_eq!((ends.fired, ends.refused), (1, 1));
}

#[test]
fn an_engine_that_runs_one_twice_is_caught_while_it_lives_and_afterwards() {
    let (ledger, clock, told) = ledger();
    let token = scheduled(&ledger);
    clock.advance(SECOND);
    assert!(token.begin());
    assert!(!token.begin());
    assert!(found(&told, Fault::Twice));
    let id = token.id;
    drop(token);
    assert!(!ledger.begin(id));
    assert!(found(&told, Fault::AfterEnd));
}

#[test]
fn an_engine_that_is_early_is_caught() {
    let (ledger, clock, told) = ledger();
    let token = scheduled(&ledger);
    clock.advance(SECOND - Duration::from_nanos(1));
    assert!(!token.begin());
    assert!(found(&told, Fault::Early));
}

#[test]
fn an_engine_that_forgets_a_reset_is_caught() {
    let (ledger, clock, told) = ledger();
    let token = scheduled(&ledger);
    assert!(ledger.place(token.id).holders == 0);
    ledger.reset(token.id, ledger.floor_in(2 * SECOND), || true);
    clock.advance(SECOND);
    assert!(!token.begin());
    assert!(found(&told, Fault::Early));
}

#[test]
fn an_engine_that_runs_what_was_cancelled_is_caught() {
    let (ledger, clock, told) = ledger();
    let token = open(&ledger, ledger.floor_in(SECOND));
    let id = token.id;
    assert!(ledger.cancel(id, || {
        drop(token);
        true
    }));
    assert!(lock(&told).is_empty());
    clock.advance(SECOND);
    assert!(!ledger.begin(id));
    assert!(found(&told, Fault::AfterEnd));
    let kept = open(&ledger, 0);
    ledger.cancel(kept.id, || true);
    assert!(found(&told, Fault::CancelledNotDropped));
}

#[test]
fn an_engine_that_loses_one_is_caught() {
    let (ledger, _clock, told) = ledger();
    let token = scheduled(&ledger);
    std::mem::forget(token);
    assert_eq!(ledger.open_records(), 1);
    ledger.reconcile(None, 0);
    assert!(found(&told, Fault::Lost));
}

#[test]
fn an_engine_that_drops_one_unrun_is_caught() {
    let (ledger, _clock, told) = ledger();
    drop(scheduled(&ledger));
    assert!(found(&told, Fault::DroppedUnrun));
}

#[test]
fn an_engine_whose_counters_are_wrong_is_caught() {
    let (ledger, clock, told) = ledger();
    let (timer, mut driver) = Timer::builder().build_driven().expect("the defaults");
    let token = scheduled(&ledger);
    clock.advance(SECOND);
    timer.schedule_detached(Duration::ZERO, || ()).expect("room");
    timer.schedule_detached(Duration::ZERO, || ()).expect("room");
    while driver.turn() > 0 {}
    assert!(token.begin());
    drop(token);
    ledger.reconcile(Some(&timer.stats()), 0);
    assert!(lock(&told)[0].contains("scheduled: 1 here, 2 there"), "{told:?}");
}
