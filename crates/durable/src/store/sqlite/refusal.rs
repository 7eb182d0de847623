//! Why a file is not opened.

use std::io;

/// Why a file was not opened.
pub(super) enum Refusal {
    InUse,
    NewerSchema { found: i64 },
    Other(String),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Other(error.to_string())
    }
}
