//! Applies every transition to every word, and compares with the list at the top of `state.rs`,
//! written with names instead of bits.

use super::*;

/// A word, taken apart. The bits' places are those of the drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    deadline: u64,
    phase: u64,
    handle: bool,
    engine: bool,
    linked: bool,
    queued: bool,
    series: bool,
    orphan: bool,
    batched: bool,
    waker: bool,
}

impl Seen {
    fn of(word: u64) -> Self {
        let bit = |bit: u32| word >> bit & 1 == 1;
        Self {
            deadline: word >> 10,
            phase: word % 4,
            handle: bit(2),
            engine: bit(3),
            linked: bit(4),
            queued: bit(5),
            series: bit(6),
            orphan: bit(7),
            batched: bit(8),
            waker: bit(9),
        }
    }

    fn is_pending(self) -> bool {
        self.phase == 1
    }

    fn is_running(self) -> bool {
        self.is_in_run() && !self.linked
    }

    fn is_in_run(self) -> bool {
        self.phase == 2 && self.series && !self.waker
    }

    /// A caller that cancels it, or resets it to an earlier deadline, has to queue it.
    fn is_to_be_queued(self) -> bool {
        self.linked && !self.queued
    }

    /// Its future is putting another waker in.
    fn is_changing(self) -> bool {
        self.waker && self.series
    }

    /// The word after a shutdown's withdrawal or early expiry, or the end of a future's sleep.
    fn ended(self, phase: u64) -> Self {
        Self { phase, linked: false, batched: true, engine: self.engine && !self.is_changing(), ..self }
    }

    fn kind(self) -> Kind {
        match self {
            Seen { waker: true, .. } => Kind::Waker,
            Seen { series: true, .. } => Kind::Series,
            _ => Kind::Once,
        }
    }

    /// Only the engine owns it.
    fn is_alone(self) -> bool {
        !self.handle && !self.queued
    }
}

/// Applies `transition` to every word with a deadline of 10. Gives its answer to `check`, with the
/// words before and after.
fn each<A>(transition: impl Fn(&State) -> A, check: impl Fn(A, Seen, Seen)) {
    for flags in 0..1024 {
        let word = 10 << 10 | flags;
        let state = State(AtomicU64::new(word));
        let answer = transition(&state);
        check(answer, Seen::of(word), Seen::of(state.0.load(Ordering::Relaxed)));
    }
}

/// Like `each`, for a transition that only looks.
fn each_look<A: PartialEq + std::fmt::Debug>(look: impl Fn(&State) -> A, expected: impl Fn(Seen) -> A) {
    each(look, |answer, was, is| assert_eq!((answer, is), (expected(was), was), "{was:?}"));
}

#[test]
fn looks_change_nothing_and_answer_by_the_word() {
    each_look(|state| state.load().is_pending(), |was| was.is_pending() || was.is_in_run());
    each_look(|state| state.load().is_expired(), |was| was.phase == 2 && !was.is_in_run());
    each_look(|state| state.load().is_cancelled(), |was| was.phase == 3);
    let load = |state: &State| (state.load().deadline(), state.load().kind());
    each_look(load, |was| (Subtick::new(10), was.kind()));
    each_look(|state| state.load().is_changing(), |was| was.is_changing());
}

#[test]
fn arming_sets_the_deadline_the_engines_bit_and_the_given_flags_and_nothing_else() {
    let owners = [(ArmFlags::NONE, 0), (ArmFlags::HANDLE, 4)];
    let all = [owners.as_slice(), &[(ArmFlags::SERIES, 64), (ArmFlags::WAKER, 512)]].concat();
    for &(a, a_bit) in &all {
        for &(b, b_bit) in &all {
            let state = State::free_word();
            state.arm(Subtick::new(77), a.and(b));
            assert_eq!(state.0.load(Ordering::Relaxed), 77 << 10 | 8 | 1 | a_bit | b_bit);
            state.disarm();
            assert_eq!(state.0.load(Ordering::Relaxed), 0);
        }
    }
}

#[test]
fn a_cancel_takes_a_pending_timeout_once_and_says_what_its_caller_has_to_do() {
    each(State::cancel, |answer, was, is| {
        let (expected, phase) = match was {
            was if was.is_running() => (Cancel::WonRunning, 3),
            was if !was.is_pending() => (Cancel::TooLate, was.phase),
            was if was.is_to_be_queued() => (Cancel::WonQueued, 3),
            _ => (Cancel::Won, 3),
        };
        // During a run LINKED is not set.
        let queued = was.queued || (phase != was.phase && was.is_to_be_queued());
        assert_eq!((answer, is), (expected, Seen { phase, queued, ..was }), "{was:?}");
    });
    let before = |answer: Option<Snapshot>| answer.map(|Snapshot(word)| Seen::of(word));
    each(State::withdraw, |answer, was, is| {
        let expected = if was.is_pending() { (Some(was), was.ended(3)) } else { (None, was) };
        assert_eq!((before(answer), is), expected, "{was:?}");
    });
    each(State::fire, |answer, was, is| {
        let expected = match was {
            was if !was.is_pending() => (None, was),
            Seen { waker: true, .. } => (Some(was), was.ended(2)),
            _ => (Some(was), Seen { linked: false, batched: true, ..was }),
        };
        assert_eq!((before(answer), is), expected, "{was:?}");
    });
}

#[test]
fn a_reset_moves_a_pending_timeout_and_says_whether_to_tell_the_worker() {
    for deadline in [9, 10, 11] {
        each(
            |state| state.reset(Subtick::new(deadline)),
            |answer, was, is| {
                let moved = Seen { deadline, ..was };
                let expected = match was {
                    // The runner finds it.
                    was if was.is_running() => (Reset::Later, Seen { batched: true, ..moved }),
                    was if !was.is_pending() => (Reset::TooLate, was),
                    _ if deadline >= 10 => (Reset::Later, moved),
                    was if was.is_to_be_queued() => (Reset::EarlierQueued, Seen { queued: true, ..moved }),
                    _ => (Reset::Earlier, moved),
                };
                assert_eq!((answer, is), expected, "{was:?}");
            },
        );
    }
}

#[test]
fn the_worker_links_pending_entries_and_pops_queued_ones() {
    each(State::link, |answer, was, is| {
        let found = was.is_pending().then_some(Subtick::new(10));
        let linked = was.linked || was.is_pending();
        assert_eq!((answer, is), (found, Seen { linked, ..was }), "{was:?}");
    });
    each(State::pop, |answer, was, is| {
        let popped = Seen { queued: false, ..was };
        let expected = match was {
            Seen { phase: 3, linked: true, .. } => (Popped::Cancelled, was),
            Seen { phase: 1, linked: true, .. } => (Popped::Moved, popped),
            Seen { handle: false, engine: false, .. } => (Popped::Last, was),
            _ => (Popped::Elsewhere, popped),
        };
        assert_eq!((answer, is), expected, "{was:?}");
    });
    each(State::unqueue, |(), was, is| assert_eq!(is, Seen { queued: false, ..was }));
}

#[test]
fn an_entry_that_is_due_is_expired_marked_or_claimed_once() {
    let look = |was: Seen, now| match was {
        was if !was.is_pending() => Err(Expire::Cancelled),
        _ if now < 10 => Err(Expire::NotYetDue),
        // Nobody else is left to look at the word.
        was if was.is_alone() => Ok(Expire::Alone),
        _ => Ok(Expire::Done),
    };
    // The word that is left, whether the engine is alone or not.
    let check = |step: fn(&State, Snapshot, Subtick) -> Expire, kind: Kind, left: fn(Seen, bool) -> Seen| {
        for now in [9, 10, 11] {
            each(
                |state| {
                    let seen = state.load();
                    (seen.kind() == kind).then(|| step(state, seen, Subtick::new(now)))
                },
                |answer, was, is| {
                    let Some(answer) = answer else { return };
                    let expected = match look(was, now) {
                        Err(no) => (no, was),
                        Ok(Expire::Done) if was.is_changing() => (Expire::Left, left(was, false)),
                        Ok(done) => (done, left(was, was.is_alone())),
                    };
                    assert_eq!((answer, is), expected, "{was:?}");
                },
            );
        }
    };
    check(State::expire, Kind::Waker, |was, _| was.ended(2));
    check(State::begin_run, Kind::Series, |was, _| Seen { phase: 2, linked: false, batched: false, ..was });
    check(State::mark, Kind::Once, |was, alone| if alone { was } else { Seen { linked: false, batched: true, ..was } });
    check(
        claim,
        Kind::Once,
        |was, alone| {
            if alone { was } else { Seen { phase: 2, engine: false, linked: false, ..was } }
        },
    );
}

/// Claims the entry. The task is copied if it is due, and otherwise not looked at.
fn claim(state: &State, seen: Snapshot, now: Subtick) -> Expire {
    let mut is_copied = false;
    let end = state.claim(seen, now, || is_copied = true);
    assert_eq!(is_copied, !matches!(end, Expire::Cancelled | Expire::NotYetDue));
    end
}

#[test]
fn a_periodic_timeout_is_rearmed_by_its_schedule_or_its_reset_unless_cancelled() {
    let running = |was: Seen| was.is_running() || (was.series && !was.waker && was.phase == 3);
    each(
        |state| state.rearm(Subtick::new(50)),
        |answer, was, is| {
            // The runner calls it on no others.
            if !running(was) {
                return;
            }
            let deadline = if was.batched { 10 } else { 50 };
            let Seen { handle, engine, queued, .. } = was;
            let armed = Seen { deadline, phase: 1, handle, engine, queued, series: true, ..Seen::of(0) };
            let expected = if was.phase == 3 { (false, was) } else { (true, armed) };
            assert_eq!((answer, is), expected, "{was:?}");
        },
    );
    each(State::begin_end, |answer, was, is| {
        let expected = if was.is_running() { (true, Seen { linked: true, ..was }) } else { (false, was) };
        assert_eq!((answer, is), expected, "{was:?}");
    });
    each(State::end_series, |(), was, is| assert_eq!(is, Seen { series: false, linked: false, ..was }, "{was:?}"));
}

#[test]
fn only_the_last_owner_is_told_that_it_is_the_last() {
    each(State::engine_lets_go, |answer, was, is| {
        let expected = match was {
            Seen { phase: 1, .. } => (EngineGone::NotYet, was),
            // If the engine is the last owner, its bit means nothing any more.
            was if was.is_alone() => (EngineGone::Last, was),
            _ => (EngineGone::OthersOwn, Seen { engine: false, linked: false, ..was }),
        };
        assert_eq!((answer, is), expected, "{was:?}");
    });
    each(State::queue_lets_go, |answer, was, is| {
        let gone = Seen { engine: false, queued: false, linked: false, ..was };
        assert_eq!((answer, is), if was.handle { (false, gone) } else { (true, was) }, "{was:?}");
    });
    each(State::handle_lets_go, |answer, was, is| {
        let gone = Seen { handle: false, ..was };
        let expected = match was {
            Seen { engine: false, queued: false, .. } => (HandleGone::Last, was),
            Seen { orphan: true, .. } => (HandleGone::Orphan, gone),
            _ => (HandleGone::OthersOwn, gone),
        };
        assert_eq!((answer, is), expected, "{was:?}");
    });
}

#[test]
fn the_final_sweep_marks_entries_and_counts_handles_which_find_the_mark() {
    each(State::orphan, |answer, was, is| {
        // A tombstone is free, and belongs to no handle.
        let is_held = was.handle && was.phase != 0;
        assert_eq!((answer, is), (is_held, Seen { orphan: true, ..was }), "{was:?}");
    });
    each(State::free, |answer, was, is| assert_eq!((answer, is), (was.orphan, Seen::of(0)), "{was:?}"));
}

#[test]
fn a_tombstone_revives_where_it_is_or_is_abandoned_if_its_slot_comes_up_too_late() {
    // Without the engine, in the inbox, and in a slot.
    for flags in [0b100, 0b1100, 0b1_1100] {
        let tombstone = || State(AtomicU64::new(10 << 10 | flags));
        let was = Seen::of(10 << 10 | flags);
        for with in [ArmFlags::NONE, ArmFlags::HANDLE, ArmFlags::HANDLE.and(ArmFlags::SERIES)] {
            for deadline in [9, 10, 11] {
                let (state, is_too_late) = (tombstone(), was.linked && deadline < 10);
                let may_be = |claiming| state.may_be_revived(Subtick::new(deadline), || claiming);
                assert_eq!([may_be(false), may_be(true)], [!is_too_late, !was.linked]);
                if !is_too_late {
                    let armed = State(AtomicU64::new(0));
                    armed.arm(Subtick::new(deadline), with);
                    let armed = Seen { linked: was.linked, ..Seen::of(armed.0.into_inner()) };
                    assert_eq!(state.revive(Subtick::new(deadline), with), was.engine);
                    assert_eq!(Seen::of(state.0.into_inner()), if was.engine { armed } else { was });
                }
            }
        }
        let state = tombstone();
        assert_eq!(state.abandon(), was.linked);
        let abandoned = Seen { phase: 3, handle: false, queued: true, ..was };
        assert_eq!(Seen::of(state.0.into_inner()), if was.linked { abandoned } else { was });
    }
}

#[test]
fn an_entry_that_has_changed_since_the_worker_looked_takes_another_look() {
    // A closure of deadline 10, as the worker has seen it, and a future of deadline 11.
    let (seen, now) = (10 << 10 | 0b1_1101, 11 << 10 | 0b10_0001_1101);
    let state = State(AtomicU64::new(now));
    for end in [State::mark, claim, State::expire] {
        assert_eq!(end(&state, Snapshot(seen), Subtick::new(50)), Expire::Changed);
    }
    assert_eq!(state.0.into_inner(), now);
}

#[test]
fn only_an_entry_that_was_cancelled_before_linking_is_given_up_in_one_step() {
    given_up_in_one_step(false, 3);
}

#[test]
fn only_a_pending_entry_of_one_handle_is_cancelled_and_given_up_in_one_step() {
    given_up_in_one_step(true, 1);
}

/// Checks that only an entry in this phase is, of one handle and the engine; and one in a slot only
/// if it is pending, and becomes a tombstone.
fn given_up_in_one_step(cancels: bool, phase: u64) {
    let may_be = |was: Seen| {
        let plain = Seen { deadline: was.deadline, phase, handle: true, engine: true, ..Seen::of(0) };
        was == Seen { waker: was.waker, linked: was.linked && cancels, ..plain }
    };
    each_look(|state| state.may_be_given_up(cancels).is_some(), may_be);
    for is_listed in [true, false] {
        each(
            |state| state.may_be_given_up(cancels).is_some_and(|seen| state.give_up(seen, is_listed)),
            |answer, was, is| {
                let is_given_up = may_be(was) && (is_listed || !was.linked);
                let given_up =
                    if is_listed { Seen { phase: 0, ..was } } else { Seen { phase: 3, handle: false, ..was } };
                assert_eq!((answer, is), (is_given_up, if is_given_up { given_up } else { was }), "{was:?}");
            },
        );
    }
}

#[test]
fn a_future_changes_the_waker_of_what_is_pending_and_learns_whether_that_has_ended() {
    each(State::begin_change, |answer, was, is| {
        let begun = if was.is_pending() { Seen { series: true, ..was } } else { was };
        assert_eq!((answer, is), (was.is_pending(), begun), "{was:?}");
    });
    each(State::end_change, |answer, was, is| {
        assert_eq!((answer, is), (was.is_pending(), Seen { series: false, ..was }), "{was:?}");
    });
}
