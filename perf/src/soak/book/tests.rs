//! Engines played by the tests, right and wrong ones.

use tourbillon::ManualClock;

use super::super::clock::Time;
use super::*;

/// A book whose engine is played by the test, which may be a wrong one.
fn book() -> (Arc<Book>, ManualClock, Arc<Violations>) {
    let clock = ManualClock::new();
    let violations = Arc::new(Violations::new(7));
    let time = Time::Manual(clock.clone());
    let book = Book::new("test".to_owned(), time, Duration::from_millis(1), 8, false, &Arc::default(), &violations);
    (Arc::new(book), clock, violations)
}

const SECOND: Duration = Duration::from_secs(1);

fn scheduled(book: &Arc<Book>) -> Token {
    let token = book.open(Kind::Once, book.floor_in(SECOND)).expect("room");
    book.accepted();
    book.let_go(token.id);
    token
}

fn found(violations: &Violations, what: Fault) -> bool {
    violations.kept().iter().any(|text| text.contains(&what.to_string()) && text.contains("seed 7"))
}

#[test]
fn a_right_engine_passes() {
    let (book, clock, violations) = book();
    let token = scheduled(&book);
    clock.advance(SECOND);
    assert!(book.begin(token.id));
    drop(token);
    let refused = book.open(Kind::Once, 0).expect("room");
    book.rejected();
    book.let_go(refused.id);
    scoped(Scope::Refused, || drop(refused));
    book.balance(None, 0);
    assert_eq!(violations.kept(), Vec::<String>::new());
    assert_eq!((book.tally.ended(Ended::Fired), book.tally.ended(Ended::Refused)), (1, 1));
}

#[test]
fn an_engine_that_runs_one_twice_is_caught_while_it_lives_and_afterwards() {
    let (book, clock, violations) = book();
    let token = scheduled(&book);
    clock.advance(SECOND);
    assert!(book.begin(token.id));
    assert!(!book.begin(token.id));
    assert!(found(&violations, Fault::Twice));
    let id = token.id;
    drop(token);
    assert!(!book.begin(id));
    assert!(found(&violations, Fault::AfterEnd));
}

#[test]
fn an_engine_that_is_early_is_caught() {
    let (book, clock, violations) = book();
    let token = scheduled(&book);
    clock.advance(SECOND - Duration::from_nanos(1));
    assert!(!book.begin(token.id));
    assert!(found(&violations, Fault::Early));
}

#[test]
fn an_engine_that_forgets_a_reset_is_caught() {
    let (book, clock, violations) = book();
    let token = scheduled(&book);
    assert!(book.place(token.id).holders == 0);
    book.reset(token.id, book.floor_in(2 * SECOND), || true);
    clock.advance(SECOND);
    assert!(!book.begin(token.id));
    assert!(found(&violations, Fault::Early));
}

#[test]
fn an_engine_that_runs_what_was_cancelled_is_caught() {
    let (book, clock, violations) = book();
    let token = book.open(Kind::Once, book.floor_in(SECOND)).expect("room");
    let id = token.id;
    assert!(book.cancel(id, || {
        drop(token);
        true
    }));
    assert_eq!(violations.count(), 0);
    clock.advance(SECOND);
    assert!(!book.begin(id));
    assert!(found(&violations, Fault::AfterEnd));
    let kept = book.open(Kind::Once, 0).expect("room");
    book.cancel(kept.id, || true);
    assert!(found(&violations, Fault::CancelledNotDropped));
}

#[test]
fn an_engine_that_loses_one_is_caught() {
    let (book, _clock, violations) = book();
    let token = scheduled(&book);
    std::mem::forget(token);
    assert_eq!(book.open_records(), 1);
    book.balance(None, 0);
    assert!(found(&violations, Fault::Lost));
}

#[test]
fn an_engine_that_drops_one_unrun_is_caught() {
    let (book, _clock, violations) = book();
    drop(scheduled(&book));
    assert!(found(&violations, Fault::DroppedUnrun));
}

#[test]
fn an_engine_whose_counters_are_wrong_is_caught() {
    let (book, clock, violations) = book();
    let (timer, mut driver) = Timer::builder().build_driven().expect("the defaults");
    let token = scheduled(&book);
    clock.advance(SECOND);
    timer.schedule_detached(Duration::ZERO, || ()).expect("room");
    timer.schedule_detached(Duration::ZERO, || ()).expect("room");
    while driver.turn() > 0 {}
    assert!(book.begin(token.id));
    drop(token);
    book.balance(Some(&timer.stats()), 0);
    assert!(violations.kept()[0].contains("scheduled: 1 here, 2 there"), "{:?}", violations.kept());
}
