//! The error of an operator's call.

use thiserror::Error;

use crate::store::Failure;

/// Why a call of an [`Operator`](crate::Operator) has failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperatorError {
    /// The store has refused, or can't be reached. A call that changes many rows does so in
    /// batches, and those before this one are on disk.
    #[error("the store has refused, after {changed} rows were changed: {reason}")]
    Store {
        /// How many rows this call had changed before.
        changed: u64,
        /// The error message of the store or its client.
        reason: String,
    },
    /// The connection was lost while a batch was under way: it may be on disk, or not. To repeat
    /// the call is safe.
    #[error("{changed} rows were changed, and perhaps some more: {reason}")]
    Unknown {
        /// How many rows this call had changed before.
        changed: u64,
        /// The error message of the store or its client.
        reason: String,
    },
    /// A live process has not written down which handlers it has, so nobody knows which handlers
    /// are missing. It is of an older version.
    #[error(
        "process {process} is of an older version, which does not say which handlers it has: ask for \
         a handler by its name, or bring that process up to date"
    )]
    UnknownHandlers {
        /// The number of the process.
        process: i64,
    },
    /// This is a child that was forked from the process that opened the store.
    #[error("this process was forked from that which opened the store: open it here as well")]
    Forked,
}

impl OperatorError {
    pub(super) fn after(changed: u64, failure: Failure) -> Self {
        match failure {
            Failure::Lost { reason, unknown: true } => Self::Unknown { changed, reason },
            Failure::Lost { reason, unknown: false } | Failure::Unavailable(reason) | Failure::Locked(reason) => {
                Self::Store { changed, reason }
            }
        }
    }
}
