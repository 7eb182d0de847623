//! The history of processes that use one store: each writes its calls, their answers and its runs
//! to a file of its own, and the test reads them all.
//!
//! A line is one `write`, so that SIGKILL loses at most the one that is being written. A call's
//! line is written before the call, and its answer's after it: the store decided in between.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Microseconds since 1970, rounded down.
pub(crate) type Micros = i64;

pub(crate) fn now() -> Micros {
    micros(SystemTime::now())
}

pub(crate) fn micros(time: SystemTime) -> Micros {
    let since = time.duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_micros()).expect("before the year 200,000")
}

/// One call of one process. A schedule's is also its payload, so each run says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct OpId {
    pub(crate) process: u32,
    pub(crate) number: u64,
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.process, self.number)
    }
}

impl FromStr for OpId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text
            .split_once(':')
            .and_then(|(process, number)| Some(Self { process: process.parse().ok()?, number: number.parse().ok()? }));
        parts.ok_or_else(|| format!("{text:?} is no payload of these tests"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Call {
    /// The deadline is the earliest that the call can mean: a delay begins after the line.
    Schedule {
        due: Micros,
    },
    /// Answered false if the key had a row.
    ScheduleIfAbsent {
        due: Micros,
    },
    Reset {
        due: Micros,
    },
    Cancel,
    Get,
}

/// The row of a key, as `get` saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) op: OpId,
    pub(crate) generation: i64,
    pub(crate) attempts: u32,
    pub(crate) running: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Generation(i64),
    Did(bool),
    Found(Option<Row>),
    /// The connection was lost, or the process was killed: it may have happened.
    Unknown,
    /// It was refused, or failed: it has not happened.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    Done,
    Retry,
    Dead,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    Begin {
        number: u64,
        key: u32,
        call: Call,
        at: Micros,
    },
    End {
        number: u64,
        answer: Answer,
        at: Micros,
    },
    Start(Run),
    /// Written before the handler returns: no completion is stored without it.
    Ended {
        generation: i64,
        attempt: u32,
        ending: Ending,
        at: Micros,
    },
    /// The process has got a commit of its own through, and one of its timers': neither it nor the
    /// server stood still, and its timers waited for nobody's locks.
    Beat {
        at: Micros,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) id: OpId,
    pub(crate) key: u32,
    pub(crate) call: Call,
    pub(crate) answer: Answer,
    pub(crate) begin: Micros,
    /// Nothing of the call happened later. Of a call without an answer: when its process and its
    /// sessions had ended.
    pub(crate) end: Micros,
}

impl Op {
    /// Returns the generation that a schedule was answered.
    pub(crate) fn generation(&self) -> Option<i64> {
        if let Answer::Generation(generation) = self.answer { Some(generation) } else { None }
    }

    pub(crate) fn is_schedule(&self) -> bool {
        matches!(self.call, Call::Schedule { .. } | Call::ScheduleIfAbsent { .. })
    }

    pub(crate) fn is_true(&self) -> bool {
        self.answer == Answer::Did(true)
    }

    pub(crate) fn is_false(&self) -> bool {
        self.answer == Answer::Did(false)
    }

    /// Whether the call has taken effect, or may have.
    pub(crate) fn may_have_happened(&self) -> bool {
        !matches!(self.answer, Answer::Did(false) | Answer::Refused)
    }

    /// Returns the earliest deadline that a schedule or a reset can have set.
    pub(crate) fn due(&self) -> Option<Micros> {
        match self.call {
            Call::Schedule { due } | Call::ScheduleIfAbsent { due } | Call::Reset { due } => Some(due),
            Call::Cancel | Call::Get => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) process: u32,
    pub(crate) key: u32,
    /// The schedule that it is a run of, as its payload says.
    pub(crate) op: OpId,
    pub(crate) generation: i64,
    pub(crate) attempt: u32,
    pub(crate) due: Micros,
    pub(crate) claimed_at: Micros,
    pub(crate) start: Micros,
    /// `None` if its process was killed first.
    pub(crate) end: Option<(Micros, Ending)>,
}

impl Run {
    /// Returns when its handler ended with an outcome that deletes the row.
    pub(crate) fn finished(&self) -> Option<Micros> {
        self.end.filter(|(_, ending)| *ending != Ending::Retry).map(|(at, _)| at)
    }
}

/// A process's own file.
pub(crate) struct Writer {
    file: File,
}

impl Writer {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path).expect("a file for the history");
        Self { file }
    }

    /// The end of a line comes before it, so that one that a kill has torn spoils no other.
    pub(crate) fn write(&self, line: &Line) {
        let text = format!("\n{}", serde_json::to_string(line).expect("plain data"));
        (&self.file).write_all(text.as_bytes()).expect("room for the history");
    }
}

/// The histories of all processes.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) ops: Vec<Op>,
    pub(crate) runs: Vec<Run>,
    pub(crate) beats: HashMap<u32, Vec<Micros>>,
}

impl History {
    /// How much later a write may be committed than its process has heard that the connection is
    /// lost.
    const LINGERING: Micros = 2_000_000;
    /// How many lines can be torn: one for each thread that was writing.
    const TORN: usize = 16;

    /// Adds what a process wrote. It had ended, and all its sessions with it, at `gone`.
    pub(crate) fn add(&mut self, process: u32, path: &Path, gone: Micros) {
        let Ok(text) = fs::read_to_string(path) else { return };
        let mut calls = HashMap::new();
        let mut open_runs = HashMap::new();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        for (at, text) in lines.iter().enumerate() {
            let line = match serde_json::from_str(text) {
                Ok(line) => line,
                Err(_) if at + Self::TORN >= lines.len() => continue,
                Err(error) => panic!("{}: {error}: {text}", path.display()),
            };
            match line {
                Line::Begin { number, key, call, at } => {
                    let id = OpId { process, number };
                    calls.insert(number, Op { id, key, call, answer: Answer::Unknown, begin: at, end: gone });
                }
                Line::End { number, answer, at } => {
                    let mut op = calls.remove(&number).expect("it has begun");
                    op.end = if answer == Answer::Unknown { at + Self::LINGERING } else { at };
                    op.answer = answer;
                    self.push(op);
                }
                Line::Start(run) => {
                    open_runs.insert((run.generation, run.attempt), self.runs.len());
                    self.runs.push(run);
                }
                Line::Ended { generation, attempt, ending, at } => {
                    let run = open_runs.remove(&(generation, attempt)).expect("it has started");
                    self.runs[run].end = Some((at, ending));
                }
                Line::Beat { at } => self.beats.entry(process).or_default().push(at),
            }
        }
        calls.into_values().for_each(|op| self.push(op));
    }

    fn push(&mut self, op: Op) {
        let is_nothing = op.answer == Answer::Refused || (op.call == Call::Get && op.answer == Answer::Unknown);
        if !is_nothing {
            self.ops.push(op);
        }
    }

    /// Returns what there is of it, for people.
    pub(crate) fn summary(&self) -> String {
        let answered = self.ops.iter().filter(|op| op.answer != Answer::Unknown).count();
        let finished = self.runs.iter().filter(|run| run.finished().is_some()).count();
        format!(
            "{answered} calls answered, {} in flight at a kill or a lost connection, {} runs, \
             of which {finished} finished",
            self.ops.len() - answered,
            self.runs.len(),
        )
    }
}
