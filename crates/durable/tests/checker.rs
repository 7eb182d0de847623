//! The checker of histories finds each kind of violation, and lets pass what is allowed. The
//! histories here are written by hand: each rule has one that breaks it, and the one beside it that
//! does not.

#![cfg(unix)]

mod support;

use std::time::Duration;

use support::checker::{Rule, check};
use support::history::{Answer, Call, Ending, History, Line, Micros, Op, OpId, Row, Run, Writer};

const LEASE: Duration = Duration::from_secs(2);
const SECOND: Micros = 1_000_000;
/// When a call ended whose process was never seen to end.
const NEVER: Micros = Micros::MAX;

/// Writes a history by hand. All of it is of key 0 and process 1, unless said otherwise.
#[derive(Default)]
struct Story {
    history: History,
    next: u64,
}

impl Story {
    fn call(&mut self, call: Call, answer: Answer, (begin, end): (Micros, Micros)) -> OpId {
        let id = OpId { process: 1, number: self.next };
        self.next += 1;
        self.history.ops.push(Op { id, key: 0, call, answer, begin, end });
        id
    }

    fn schedule(&mut self, due: Micros, generation: i64, time: (Micros, Micros)) -> OpId {
        self.call(Call::Schedule { due }, Answer::Generation(generation), time)
    }

    fn cancel(&mut self, did: bool, time: (Micros, Micros)) {
        self.call(Call::Cancel, Answer::Did(did), time);
    }

    fn reset(&mut self, due: Micros, did: bool, time: (Micros, Micros)) {
        self.call(Call::Reset { due }, Answer::Did(did), time);
    }

    fn found(&mut self, row: Option<(OpId, i64, u32)>, time: (Micros, Micros)) {
        let row = row.map(|(op, generation, attempts)| Row { op, generation, attempts, running: false });
        self.call(Call::Get, Answer::Found(row), time);
    }

    /// A run that was claimed when it was due, and started one microsecond later.
    fn run(&mut self, op: OpId, token: (i64, u32), due: Micros, end: Option<(Micros, Ending)>) -> &mut Run {
        let (generation, attempt) = token;
        let (claimed_at, start) = (due, due + 1);
        self.history.runs.push(Run { process: 1, key: 0, op, generation, attempt, due, claimed_at, start, end });
        self.history.runs.last_mut().expect("just pushed")
    }

    fn done(&mut self, op: OpId, token: (i64, u32), due: Micros, end: Micros) {
        self.run(op, token, due, Some((end, Ending::Done)));
    }

    /// A process got a commit through every 100 ms.
    fn beat(&mut self, process: u32, from: Micros, to: Micros) {
        let beats = self.history.beats.entry(process).or_default();
        beats.extend((from..=to).step_by(100_000));
    }

    fn rules(&self) -> Vec<Rule> {
        check(&self.history, LEASE).iter().map(|violation| violation.rule).collect()
    }
}

fn assert_breaks(rule: Rule, story: &Story) {
    assert_eq!(story.rules(), [rule], "{:?}", check(&story.history, LEASE));
}

fn assert_is_fine(story: &Story) {
    assert_eq!(story.rules(), [], "{:?}", check(&story.history, LEASE));
}

#[test]
fn a_plain_history_is_fine() {
    let mut story = Story::default();
    let first = story.schedule(100, 1, (0, 10));
    story.done(first, (1, 1), 100, 120);
    story.found(None, (200, 210));
    let second = story.schedule(400, 2, (220, 230));
    story.reset(600, true, (300, 310));
    story.found(Some((second, 3, 0)), (320, 330));
    story.run(second, (3, 1), 600, Some((650, Ending::Retry)));
    story.run(second, (3, 2), 700, Some((720, Ending::Dead)));
    story.found(None, (800, 810));
    story.schedule(900, 4, (820, 830));
    story.cancel(true, (840, 850));
    story.cancel(false, (860, 870));
    story.found(None, (1_000, 1_010));
    assert_is_fine(&story);
}

#[test]
fn a_run_before_its_deadline_is_found() {
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    story.done(op, (1, 1), 98, 120);
    assert_breaks(Rule::Early, &story);

    // By its own words.
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    let run = story.run(op, (1, 1), 150, Some((170, Ending::Done)));
    (run.claimed_at, run.start) = (120, 130);
    assert_breaks(Rule::Early, &story);
}

#[test]
fn a_run_before_the_deadline_that_a_reset_has_set_is_found() {
    let story = |answer, time| {
        let mut story = Story::default();
        let op = story.schedule(100, 1, (0, 10));
        story.call(Call::Reset { due: 500 }, answer, time);
        story.done(op, (1, 1), 100, 120);
        story
    };
    let early = story(Answer::Did(true), (20, 30));
    assert_eq!(early.rules(), [Rule::Early]);
    assert_is_fine(&story(Answer::Did(true), (90, 110)));
    assert_is_fine(&story(Answer::Unknown, (20, 30)));
}

#[test]
fn an_earlier_reset_lets_a_run_begin_earlier() {
    for answer in [Answer::Did(true), Answer::Unknown] {
        let mut story = Story::default();
        let op = story.schedule(100, 1, (0, 10));
        story.call(Call::Reset { due: 50 }, answer, (20, 30));
        story.done(op, (2, 1), 50, 120);
        assert_is_fine(&story);
        // And the one after it does not.
        story.reset(70, true, (35, 40));
        assert!(story.rules().contains(&Rule::Early));
    }
}

#[test]
fn a_row_that_is_gone_without_a_reason_is_found() {
    let mut story = Story::default();
    story.schedule(5_000, 1, (0, 10));
    story.found(None, (20, 30));
    assert_breaks(Rule::Lost, &story);

    // An answer that came before does not explain it, and one at the same time does.
    let gone = |cancel, time| {
        let mut story = Story::default();
        story.call(Call::Cancel, cancel, time);
        story.schedule(5_000, 1, (100, 110));
        story.found(None, (120, 130));
        story
    };
    assert_breaks(Rule::Lost, &gone(Answer::Did(true), (80, 90)));
    assert_breaks(Rule::Lost, &gone(Answer::Did(false), (105, 115)));
    assert_breaks(Rule::Lost, &gone(Answer::Unknown, (80, 90)));
    assert_is_fine(&gone(Answer::Did(true), (80, 105)));
    assert_is_fine(&gone(Answer::Unknown, (80, NEVER)));
}

#[test]
fn a_row_is_not_gone_by_a_run_that_did_not_finish() {
    for (end, is_fine) in [
        (None, false),
        (Some((150, Ending::Retry)), false),
        (Some((250, Ending::Done)), false),
        (Some((150, Ending::Done)), true),
        (Some((150, Ending::Dead)), true),
    ] {
        let mut story = Story::default();
        let op = story.schedule(100, 1, (0, 10));
        story.run(op, (1, 1), 100, end);
        story.found(None, (200, 210));
        // It could be removed at any time since the claim, and still be seen to be gone.
        let expected: &[Rule] = if is_fine { &[] } else { &[Rule::Lost] };
        assert_eq!(story.rules(), expected, "{end:?}");
    }
}

#[test]
fn a_row_that_was_reset_is_not_gone_by_an_earlier_run() {
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    story.done(op, (1, 1), 100, 5_000);
    story.reset(9_000, true, (4_000, 4_010));
    story.found(None, (6_000, 6_010));
    assert_breaks(Rule::Lost, &story);
}

#[test]
fn a_row_that_was_seen_is_not_gone_without_a_reason() {
    let mut story = Story::default();
    let op = story.call(Call::Schedule { due: 5_000 }, Answer::Unknown, (0, 10));
    story.found(None, (20, 30));
    assert_is_fine(&story);
    story.found(Some((op, 1, 0)), (40, 50));
    story.found(None, (60, 70));
    assert_breaks(Rule::Lost, &story);
}

#[test]
fn a_schedule_if_absent_that_replaces_a_row_is_found() {
    let story = |time| {
        let mut story = Story::default();
        story.schedule(5_000, 1, (0, 10));
        story.call(Call::ScheduleIfAbsent { due: 6_000 }, Answer::Generation(2), time);
        story
    };
    assert_breaks(Rule::Lost, &story((20, 30)));
    // It may have come first.
    assert_is_fine(&story((5, 30)));
    let mut cancelled = story((20, 30));
    cancelled.cancel(true, (12, 18));
    assert_is_fine(&cancelled);
}

#[test]
fn a_schedule_if_absent_that_finds_a_row_where_none_is_is_found() {
    let if_absent = |story: &mut Story, answer, time| story.call(Call::ScheduleIfAbsent { due: 900 }, answer, time);
    let mut story = Story::default();
    let found = if_absent(&mut story, Answer::Did(false), (200, 210));
    assert_breaks(Rule::FoundNothing, &story);
    story.schedule(5_000, 1, (0, 10));
    assert_is_fine(&story);
    // A timeout that the call has not scheduled does not run.
    story.done(found, (2, 1), 900, 910);
    assert_breaks(Rule::Invented, &story);
    story.history.runs.clear();
    story.cancel(true, (20, 30));
    assert_breaks(Rule::FoundNothing, &story);
    // A row of which nobody knows when it came.
    if_absent(&mut story, Answer::Unknown, (15, NEVER));
    assert_is_fine(&story);
}

#[test]
fn a_row_that_a_schedule_if_absent_has_found_is_not_gone_without_a_reason() {
    let mut story = Story::default();
    story.call(Call::Schedule { due: 5_000 }, Answer::Unknown, (0, 10));
    story.call(Call::ScheduleIfAbsent { due: 6_000 }, Answer::Did(false), (20, 30));
    assert_is_fine(&story);
    story.found(None, (40, 50));
    assert_breaks(Rule::Lost, &story);
}

#[test]
fn an_attempt_that_two_handlers_got_is_found() {
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    story.done(op, (1, 1), 100, 110);
    story.run(op, (1, 1), 100, Some((130, Ending::Done))).process = 2;
    assert_breaks(Rule::Twice, &story);
}

/// One process runs a row from 10 s on, and another runs it a second later.
fn two_runs(end: Option<(Micros, Ending)>) -> Story {
    let mut story = Story::default();
    let op = story.schedule(10 * SECOND, 1, (0, 10));
    story.run(op, (1, 1), 10 * SECOND, end);
    story.run(op, (1, 2), 11 * SECOND, Some((12 * SECOND, Ending::Done))).process = 2;
    story
}

#[test]
fn two_runs_at_a_time_under_one_lease_are_found() {
    let end = Some((13 * SECOND, Ending::Retry));
    let mut story = two_runs(end);
    story.beat(1, 0, 20 * SECOND);
    assert_breaks(Rule::Overlap, &story);

    let mut one_after_the_other = two_runs(Some((10 * SECOND + 500_000, Ending::Retry)));
    one_after_the_other.beat(1, 0, 20 * SECOND);
    assert_is_fine(&one_after_the_other);
}

#[test]
fn two_runs_at_a_time_are_fine_if_the_first_process_stood_still_or_was_killed() {
    let mut stopped = two_runs(Some((13 * SECOND, Ending::Retry)));
    stopped.beat(1, 0, 9 * SECOND);
    stopped.beat(1, 10 * SECOND, 20 * SECOND);
    assert_is_fine(&stopped);
    let mut killed = two_runs(None);
    killed.beat(1, 0, 10 * SECOND + 500_000);
    assert_is_fine(&killed);
    assert_is_fine(&two_runs(None));
}

#[test]
fn a_run_after_one_that_finished_is_found() {
    let end = Some((10 * SECOND + 500_000, Ending::Done));
    let mut story = two_runs(end);
    story.beat(1, 0, 20 * SECOND);
    assert_breaks(Rule::AfterItsEnd, &story);

    // It was killed before it can have stored its end.
    let mut killed = two_runs(end);
    killed.beat(1, 0, 11 * SECOND);
    assert_is_fine(&killed);
}

#[test]
fn a_claim_after_a_cancel_that_returned_true_is_found() {
    let story = |answer, time| {
        let mut story = Story::default();
        let op = story.schedule(100, 1, (0, 10));
        story.call(Call::Cancel, answer, time);
        story.done(op, (1, 1), 100, 120);
        story
    };
    assert_breaks(Rule::Undead, &story(Answer::Did(true), (20, 30)));
    assert_is_fine(&story(Answer::Unknown, (20, 30)));
    // The cancel can have come first, or while it ran without a lease.
    assert_is_fine(&story(Answer::Did(true), (5, 30)));
    assert_is_fine(&story(Answer::Did(true), (105, 115)));
}

#[test]
fn a_claim_after_a_newer_schedule_is_found() {
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    let newer = story.schedule(100, 2, (20, 30));
    story.done(op, (1, 1), 100, 120);
    assert_breaks(Rule::Undead, &story);
    story.history.runs.clear();
    story.done(newer, (2, 1), 100, 120);
    assert_is_fine(&story);
}

#[test]
fn a_row_that_is_seen_after_it_was_cancelled_is_found() {
    let mut story = Story::default();
    let op = story.schedule(5_000, 1, (0, 10));
    story.cancel(true, (20, 30));
    story.found(Some((op, 1, 0)), (40, 50));
    assert_breaks(Rule::Undead, &story);
}

#[test]
fn a_killed_schedule_that_was_seen_and_cancelled_stays_away() {
    let mut story = Story::default();
    let op = story.call(Call::Schedule { due: 100 }, Answer::Unknown, (0, NEVER));
    story.cancel(true, (60, 70));
    story.done(op, (1, 1), 100, 120);
    assert_is_fine(&story);
    story.found(Some((op, 1, 0)), (40, 50));
    assert_breaks(Rule::Undead, &story);
}

#[test]
fn a_run_that_nobody_scheduled_is_found() {
    let mut story = Story::default();
    let nobody = OpId { process: 9, number: 9 };
    story.done(nobody, (1, 1), 100, 120);
    assert_breaks(Rule::Invented, &story);
    story.history.runs[0].op = story.call(Call::Schedule { due: 100 }, Answer::Unknown, (0, NEVER));
    assert_is_fine(&story);
}

#[test]
fn a_run_of_another_generation_or_key_is_found() {
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    story.done(op, (2, 1), 100, 120);
    assert_breaks(Rule::Invented, &story);
    // A reset has given it.
    story.call(Call::Reset { due: 100 }, Answer::Unknown, (20, 30));
    assert_is_fine(&story);
    story.history.runs[0].key = 5;
    assert_eq!(story.rules(), [Rule::Invented]);
}

#[test]
fn an_answer_of_false_for_a_row_that_waited_is_found() {
    for call in [Call::Cancel, Call::Reset { due: 90 }] {
        let story = |time| {
            let mut story = Story::default();
            let op = story.schedule(100, 1, (0, 10));
            story.call(call, Answer::Did(false), time);
            story.done(op, (1, 1), 100, 120);
            story
        };
        assert_breaks(Rule::FalseAnswer, &story((20, 30)));
        assert_is_fine(&story((20, 101)));
        assert_is_fine(&story((5, 30)));
    }
    // A claim whose answer was lost is made again, under the same number and later.
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    story.cancel(false, (110, 120));
    let again = story.run(op, (1, 1), 100, Some((320, Ending::Done)));
    (again.claimed_at, again.start) = (300, 301);
    assert_is_fine(&story);
    // An earlier claim may have run then.
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    story.cancel(false, (110, 120));
    story.done(op, (1, 2), 300, 320);
    assert_is_fine(&story);
    story.found(Some((op, 1, 0)), (150, 160));
    assert_is_fine(&story);
    // But nobody claims it before its deadline.
    story.cancel(false, (20, 30));
    assert_breaks(Rule::FalseAnswer, &story);
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    story.cancel(false, (20, 30));
    story.found(Some((op, 1, 0)), (40, 50));
    assert_breaks(Rule::FalseAnswer, &story);
}

#[test]
fn generations_that_do_not_grow_are_found() {
    let mut story = Story::default();
    story.schedule(5_000, 2, (0, 10));
    story.schedule(5_000, 1, (20, 30));
    assert_breaks(Rule::Disorder, &story);
    story.history.ops[1].begin = 5;
    assert_is_fine(&story);
}

#[test]
fn a_generation_of_two_rows_is_found() {
    let mut story = Story::default();
    story.schedule(5_000, 1, (0, 10));
    story.schedule(5_000, 1, (5, 15));
    story.history.ops[1].key = 8;
    assert_breaks(Rule::Disorder, &story);
    story.history.ops[1].answer = Answer::Generation(2);
    assert_is_fine(&story);
}

#[test]
fn claims_that_do_not_grow_are_found() {
    let mut story = Story::default();
    let op = story.schedule(100, 1, (0, 10));
    story.run(op, (1, 2), 100, Some((120, Ending::Retry)));
    story.run(op, (1, 1), 200, Some((220, Ending::Done)));
    assert_breaks(Rule::Disorder, &story);
}

#[test]
fn an_answer_of_true_while_a_row_ran_under_its_lease_is_found() {
    for call in [Call::Cancel, Call::Reset { due: 20 * SECOND }] {
        let mut story = Story::default();
        let op = story.schedule(10 * SECOND, 1, (0, 10));
        story.done(op, (1, 1), 10 * SECOND, 14 * SECOND);
        story.call(call, Answer::Did(true), (11 * SECOND, 12 * SECOND));
        assert_is_fine(&story);
        story.beat(1, 0, 20 * SECOND);
        assert_breaks(Rule::WhileItRan, &story);
        // It was another row's.
        story.schedule(30 * SECOND, 2, (10 * SECOND + 10, 10 * SECOND + 20));
        assert_is_fine(&story);
    }
}

#[test]
fn a_history_is_read_back_but_for_what_a_kill_has_torn() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("history");
    let writer = Writer::open(&path);
    let begin = |number, call, at| Line::Begin { number, key: 3, call, at };
    let schedule = Call::Schedule { due: 9 };
    writer.write(&begin(0, schedule, 1));
    writer.write(&begin(1, Call::Cancel, 2));
    writer.write(&Line::End { number: 0, answer: Answer::Generation(7), at: 4 });
    writer.write(&begin(2, Call::Get, 5));
    let run = Run {
        process: 1,
        key: 3,
        op: OpId { process: 1, number: 0 },
        generation: 7,
        attempt: 1,
        due: 9,
        claimed_at: 10,
        start: 11,
        end: None,
    };
    writer.write(&Line::Start(run));
    writer.write(&Line::Ended { generation: 7, attempt: 1, ending: Ending::Retry, at: 12 });
    writer.write(&Line::Beat { at: 13 });
    let text = std::fs::read_to_string(&path).expect("it was written");
    // The last line half, and a whole one after it.
    std::fs::write(&path, format!("{}\n{{\"Beat\":{{\"at\":14}}}}", &text[..text.len() - 5])).expect("room");

    let mut history = History::default();
    history.add(1, &path, 100);
    assert_eq!(history.ops.len(), 2, "a get without an answer says nothing");
    let [answered, killed] = [&history.ops[0], &history.ops[1]];
    assert_eq!((answered.call, answered.answer, answered.begin, answered.end), (schedule, Answer::Generation(7), 1, 4));
    assert_eq!((killed.call, killed.answer, killed.begin, killed.end), (Call::Cancel, Answer::Unknown, 2, 100));
    assert_eq!(history.runs[0].end, Some((12, Ending::Retry)));
    assert_eq!(history.beats[&1], [14]);
}
