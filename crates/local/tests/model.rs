//! Programs of a local engine, beside the simplest timer that there is: a list of deadlines.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tourbillon::{Clock, ManualClock};
use tourbillon_local::{LocalTimeout, LocalTimer};

/// One that the engine does not know to be moved by hand, so that timeouts of a tick wait for each
/// other.
#[derive(Clone)]
struct UsersClock(ManualClock);

impl Clock for UsersClock {
    fn now(&self) -> Instant {
        self.0.now()
    }
}

/// How an engine is made and turned.
#[derive(Clone, Copy, Debug)]
struct Ways {
    ticks_per_wheel: usize,
    levels: usize,
    knows_its_clock: bool,
    /// Or only when time passes.
    asks_after_each_step: bool,
}

const TICK_NS: u64 = 1 << 20;

/// A step of a program. A timeout is named by its number, round the number of those there are.
#[derive(Clone, Debug)]
enum Step {
    Schedule(u64),
    Cancel(usize),
    Reset(usize, u64),
    /// The handle goes, and the timeout stays.
    Detach(usize),
    /// The task of the timeout cancels the other one, or puts it off, when it runs.
    Meddle(u64, usize, Option<u64>),
    Pass(u64),
}

/// Nanoseconds: within a tick, within a wheel, and beyond all levels of a small wheel.
fn delays() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..3_000_000_u64, 1..100_000_000_u64, 1..20_000_000_000_u64]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = || any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    let step = prop_oneof![
        4 => delays().prop_map(Step::Schedule),
        2 => number().prop_map(Step::Cancel),
        3 => (number(), delays()).prop_map(|(which, delay)| Step::Reset(which, delay)),
        1 => number().prop_map(Step::Detach),
        1 => (delays(), number(), prop::option::of(delays())).prop_map(|(at, which, to)| Step::Meddle(at, which, to)),
        3 => delays().prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

fn ways() -> impl Strategy<Value = Ways> {
    let ticks = prop_oneof![Just(4), Just(64)];
    (ticks, 1..4_usize, any::<bool>(), any::<bool>()).prop_map(
        |(ticks_per_wheel, levels, knows_its_clock, asks_after_each_step)| Ways {
            ticks_per_wheel,
            levels,
            knows_its_clock,
            asks_after_each_step,
        },
    )
}

/// The state that the tasks and the program share.
#[derive(Default)]
struct World {
    handles: RefCell<Vec<Option<LocalTimeout>>>,
    /// Deadlines of what is pending, in nanoseconds since the start.
    model: RefCell<BTreeMap<usize, u64>>,
    now: RefCell<u64>,
    /// Deadlines are rounded up to it.
    rounds_to: u64,
    fired: RefCell<usize>,
}

impl World {
    fn deadline(&self, delay: u64) -> u64 {
        if delay == 0 { *self.now.borrow() } else { (*self.now.borrow() + delay).next_multiple_of(self.rounds_to) }
    }

    fn run(&self, number: usize) {
        let deadline = self.model.borrow_mut().remove(&number).expect("only what is pending runs, once");
        assert!(deadline <= *self.now.borrow(), "{number} runs early");
        *self.fired.borrow_mut() += 1;
    }

    /// Every other time the handle goes, too.
    fn cancel(&self, which: usize) {
        let mut handles = self.handles.borrow_mut();
        let Some(number) = which.checked_rem(handles.len()) else { return };
        let is_owned = which >> 10 & 1 == 1;
        let handle = &mut handles[number];
        let cancelled = if is_owned {
            handle.take().map(LocalTimeout::cancel_owned)
        } else {
            handle.as_ref().map(LocalTimeout::cancel)
        };
        if let Some(cancelled) = cancelled {
            assert_eq!(cancelled, self.model.borrow_mut().remove(&number).is_some());
        }
    }

    fn reset(&self, which: usize, delay: u64) {
        let handles = self.handles.borrow();
        let Some(number) = which.checked_rem(handles.len()) else { return };
        if let Some(handle) = &handles[number] {
            let was_pending = self.model.borrow().contains_key(&number);
            assert_eq!(handle.reset(Duration::from_nanos(delay)), was_pending);
            if was_pending {
                self.model.borrow_mut().insert(number, self.deadline(delay));
            }
        }
    }
}

fn run(program: &[Step], ways: Ways) {
    let clock = ManualClock::new();
    let builder = LocalTimer::builder().tick_duration(Duration::from_nanos(TICK_NS));
    let builder =
        if ways.knows_its_clock { builder.clock(clock.clone()) } else { builder.clock(UsersClock(clock.clone())) };
    let builder = builder.ticks_per_wheel(ways.ticks_per_wheel).levels(ways.levels);
    let (timer, mut driver) = builder.build().expect("an engine");
    let patience = if ways.knows_its_clock { 0 } else { TICK_NS };
    // Deadlines are rounded up to sixteenths of a tick.
    let world = Rc::new(World { rounds_to: TICK_NS / 16, ..World::default() });
    let schedule = |delay: u64, meddles: Option<(usize, Option<u64>)>| {
        let number = world.handles.borrow().len();
        let of_task = Rc::clone(&world);
        let task = move || {
            of_task.run(number);
            match meddles {
                Some((which, None)) => of_task.cancel(which),
                Some((which, Some(delay))) => of_task.reset(which, delay),
                None => {}
            }
        };
        let handle = timer.schedule(Duration::from_nanos(delay), task).expect("room");
        world.model.borrow_mut().insert(number, world.deadline(delay));
        world.handles.borrow_mut().push(Some(handle));
    };
    for step in program {
        match *step {
            Step::Schedule(delay) => schedule(delay, None),
            Step::Meddle(delay, which, to) => schedule(delay, Some((which, to))),
            Step::Cancel(which) => world.cancel(which),
            Step::Reset(which, delay) => world.reset(which, delay),
            Step::Detach(which) => {
                let len = world.handles.borrow().len();
                if let Some(number) = which.checked_rem(len) {
                    drop(world.handles.borrow_mut()[number].take());
                }
            }
            Step::Pass(delay) => {
                clock.advance(Duration::from_nanos(delay));
                *world.now.borrow_mut() += delay;
                // A timeout that a task puts off to now waits for the next turn.
                while driver.next_wakeup().is_some_and(|at| at <= timer.now()) {
                    driver.turn();
                }
                let now = *world.now.borrow();
                assert!(world.model.borrow().values().all(|&deadline| deadline + patience > now), "something is late");
            }
        }
        let (pending, fired) = (world.model.borrow().len(), *world.fired.borrow());
        assert_eq!((timer.pending(), timer.fired()), (pending, fired as u64));
        if !ways.asks_after_each_step {
            continue;
        }
        let earliest = world.model.borrow().values().min().copied();
        let wakeup = driver.next_wakeup();
        assert_eq!(wakeup.is_some(), earliest.is_some());
        if let (Some(wakeup), Some(earliest)) = (wakeup, earliest) {
            let left = earliest.saturating_sub(*world.now.borrow());
            assert!(wakeup <= timer.now() + Duration::from_nanos(left + patience), "the loop would sleep too long");
        }
        let handles = world.handles.borrow();
        let is_told = |(number, handle): (usize, &Option<LocalTimeout>)| {
            handle.as_ref().is_none_or(|handle| handle.is_pending() == world.model.borrow().contains_key(&number))
        };
        assert!(handles.iter().enumerate().all(is_told));
    }
    assert_eq!(timer.panicked(), 0, "an assertion of a task");
    drop(driver);
    assert_eq!((timer.pending(), Rc::strong_count(&world)), (0, 1), "all tasks are gone");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 400 }, ..ProptestConfig::default() })]

    #[test]
    fn a_local_engine_does_what_a_list_of_deadlines_does(program in steps(), ways in ways()) {
        run(&program, ways);
    }
}
