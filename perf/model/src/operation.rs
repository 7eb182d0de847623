//! What is modelled: the operations of three workloads of `compare`, by the systems that it
//! measures.

use clap::ValueEnum;
use serde::Serialize;

/// A workload whose operations are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Schedule.
    W1,
    /// Cancel the oldest of a ring, and schedule.
    W2,
    /// Reset to later.
    W3,
}

impl Operation {
    pub(crate) const ALL: [Self; 3] = [Self::W1, Self::W2, Self::W3];

    /// As in the JSON of `compare`.
    pub(crate) fn case(self) -> &'static str {
        match self {
            Self::W1 => "w1",
            Self::W2 => "w2",
            Self::W3 => "w3",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::W1 => "W1 schedule",
            Self::W2 => "W2 cancel + schedule",
            Self::W3 => "W3 reset to later",
        }
    }
}

/// A system whose operations are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Timers {
    Tourbillon,
    Heap,
    Tokio,
    /// A queue for each thread.
    DelayQueue,
    /// One queue for all threads. `compare` does not measure it.
    LockedDelayQueue,
}

impl Timers {
    /// Those that `compare` measures.
    pub(crate) const MEASURED: [Self; 4] = [Self::Tourbillon, Self::Heap, Self::Tokio, Self::DelayQueue];

    /// As on the command line, and in the JSON of `compare`.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Tourbillon => "tourbillon",
            Self::Heap => "heap",
            Self::Tokio => "tokio",
            Self::DelayQueue => "delay-queue",
            Self::LockedDelayQueue => "locked-delay-queue",
        }
    }

    /// Whether threads meet in it. What shares nothing tells nothing about a model of sharing.
    pub(crate) fn is_shared(self) -> bool {
        self != Self::DelayQueue
    }

    /// Whether a compare-and-exchange and a later exchange of one word are a mutex, locked and
    /// unlocked.
    pub(crate) fn has_mutex(self) -> bool {
        self != Self::Tourbillon
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for timers in Timers::value_variants() {
            assert_eq!(timers.to_possible_value().expect("a name").get_name(), timers.id());
        }
        for operation in Operation::ALL {
            assert_eq!(operation.to_possible_value().expect("a name").get_name(), operation.case());
        }
    }
}
