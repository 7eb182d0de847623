//! How a model runs: within a bound, with its schedules counted, and with its memory watched.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::Instant;

use super::ledger::Ledger;
use super::memory;

/// A model with fewer schedules than this has not interleaved anything.
const FEWEST_SCHEDULES: usize = 10;

thread_local! {
    /// The message of the first panic since the model began.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `model`, with a new ledger, once for each way in which its threads can interleave with at
/// most `preemptions` preemptions (`None`: any number), and for each value that a load may then
/// see. Fails if the model panics anywhere, if it leaks or misuses memory, or if it has hardly any
/// schedules. An engine that catches a task's panic hides it from loom, but not from this function.
///
/// `LOOM_MORE_PREEMPTIONS` is added to the bound.
pub(super) fn check<M: Fn(Ledger) + Send + Sync + 'static>(preemptions: impl Into<Option<usize>>, model: M) {
    note_panics();
    let start = Instant::now();
    let schedules = explore(preemptions.into(), move || model(Ledger::default()));
    let panic = PANIC.take();
    assert!(panic.is_none(), "something panicked, and was caught: {panic:?}");
    println!("model {}: {schedules} schedules, {:.2} s", name_of::<M>(), start.elapsed().as_secs_f64());
    assert!(schedules >= FEWEST_SCHEDULES, "only {schedules} schedules: nothing was interleaved");
}

/// Runs a model that has to fail, with a panic that says `why`.
pub(super) fn fails<M: Fn() + Send + Sync + 'static>(why: &str, model: M) {
    note_panics();
    let start = Instant::now();
    let failed = std::panic::catch_unwind(AssertUnwindSafe(|| explore(None, model))).is_err();
    let panic = PANIC.take().unwrap_or_default();
    assert!(failed && panic.contains(why), "it has to fail, but not so: {panic:?}");
    println!("control {}: fails as it has to, {:.2} s", name_of::<M>(), start.elapsed().as_secs_f64());
}

/// Returns the number of schedules.
fn explore(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) -> usize {
    PANIC.set(None);
    let more: usize = std::env::var("LOOM_MORE_PREEMPTIONS").map_or(0, |more| more.parse().expect("a number"));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions.map(|bound| bound + more);
    builder.max_branches = 10_000;
    // From here on, whatever loom keeps for this OS thread is allocated.
    loom::model::Builder::new().check(|| ());
    memory::forget_all();
    let schedules = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&schedules);
    builder.check(move || {
        // By now all threads of the previous schedule have ended.
        memory::assert_all_free();
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    memory::assert_all_free();
    schedules.load(Ordering::Relaxed)
}

/// Returns the test's name, out of the name of the closure in it.
fn name_of<M>() -> &'static str {
    let name = std::any::type_name::<M>().trim_end_matches("::{{closure}}");
    name.split_once("::models::").map_or(name, |(_, name)| name)
}

fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANIC.with_borrow_mut(|first| {
                first.get_or_insert_with(|| panic.to_string());
            });
            usual(panic);
        }));
    });
}
