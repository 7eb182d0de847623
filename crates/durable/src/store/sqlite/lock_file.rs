//! One process owns a database: where there are no POSIX locks, by a lock on a file beside it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::refusal::Refusal;

/// The files that must stay where they are. Open files can't be replaced here.
#[derive(Default)]
pub(super) struct Places;

impl Places {
    pub(super) fn watch(&mut self, _path: PathBuf) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn watch_database(&mut self, _path: PathBuf) -> Result<(), Refusal> {
        Ok(())
    }

    pub(super) fn are_there(&self) -> Result<(), String> {
        Ok(())
    }
}

/// The ownership of a database. It ends with the process.
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Makes this process the owner of the file.
    pub(super) fn take(path: &Path) -> Result<Self, Refusal> {
        // Symbolic links to the file lead to one lock. A file that is not there has one name.
        let mut name = path.canonicalize().unwrap_or_else(|_| path.to_owned()).into_os_string();
        name.push("-lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(name)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Refusal::InUse),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Open files can't be replaced here.
    pub(super) fn watch(&mut self, _path: PathBuf) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn hold(&self) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn in_place(&self) -> Result<(), String> {
        Ok(())
    }
}
