//! One process owns a database. The operating system says which: it has a lock on the file itself,
//! so neither a second name of the file nor a deleted file beside it makes a second owner.
//!
//! The lock is a POSIX record lock on one byte. It ends with its process, even if a child that was
//! forked lives on. But it has a trap: when a process closes any descriptor of a file, all its
//! locks on that file end, SQLite's own locks among them. So:
//!
//! - The descriptor of the lock is never closed while the file has a name. It stays in a registry,
//!   one for each database file that the process has ever opened.
//! - Others in the process may open the file, read it and close it. Then the lock is gone without a
//!   word. So it is taken again before each transaction.
//! - The locks of one process never exclude each other. So the registry says whether the process
//!   has the file open already.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{mem, process};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::refusal::Refusal;

/// The byte that is locked. SQLite locks 512 bytes from 0x4000_0000 on.
const BYTE: libc::off_t = 0x4000_1000;

const TAKEN_OVER: &str = "another process has taken the database over: something in this process has closed the \
    file, which ends all locks of the process on it";

/// A file, whatever name it has: its device and its inode.
type Id = (u64, u64);

/// The files that this process has ever opened. A fork copies the entries of its parent, which say
/// nothing about the child: so each names its process.
static FILES: Mutex<BTreeMap<(u32, Id), Arc<Known>>> = Mutex::new(BTreeMap::new());

struct Known {
    process: u32,
    file: File,
    in_use: AtomicBool,
}

/// The ownership of a database. Dropped after all connections to it.
pub(super) struct FileLock {
    known: Arc<Known>,
    places: Places,
}

/// The files that must stay where they are.
#[derive(Default)]
pub(super) struct Places(Vec<(PathBuf, Id)>);

impl Places {
    /// Sees to it that this file stays where it is.
    pub(super) fn watch(&mut self, path: PathBuf) -> io::Result<()> {
        let id = id(&fs::metadata(&path)?);
        self.0.push((path, id));
        Ok(())
    }

    /// The same for a database that must have one name.
    pub(super) fn watch_database(&mut self, path: PathBuf) -> Result<(), Refusal> {
        has_one_name(&fs::metadata(&path)?)?;
        Ok(self.watch(path)?)
    }

    /// Whether what is written goes to files that the next process will find.
    pub(super) fn are_there(&self) -> Result<(), String> {
        for (path, id) in &self.0 {
            match fs::metadata(path) {
                Ok(found) if self::id(&found) == *id => {}
                Ok(_) => return Err(format!("{} was replaced by another file", path.display())),
                Err(error) => return Err(format!("{} was deleted or replaced: {error}", path.display())),
            }
        }
        Ok(())
    }
}

impl FileLock {
    /// Makes this process the owner of the file, and makes the file if it is not there.
    pub(super) fn take(path: &Path) -> Result<Self, Refusal> {
        let known = known(path)?;
        if known.in_use.swap(true, Ordering::AcqRel) {
            return Err(Refusal::InUse);
        }
        let lock = Self { places: Places::default(), known };
        match set(&lock.known.file, libc::F_WRLCK) {
            Ok(()) => {}
            Err(Errno::EACCES | Errno::EAGAIN) => return Err(Refusal::InUse),
            Err(error) => return Err(Refusal::Other(format!("it can't be locked: {error}"))),
        }
        has_one_name(&lock.known.file.metadata()?)?;
        Ok(lock)
    }

    /// Sees to it that this file stays where it is.
    pub(super) fn watch(&mut self, path: PathBuf) -> io::Result<()> {
        self.places.watch(path)
    }

    /// Takes the lock again, in case that it is gone.
    pub(super) fn hold(&self) -> Result<(), String> {
        match set(&self.known.file, libc::F_WRLCK) {
            Ok(()) => Ok(()),
            Err(Errno::EACCES | Errno::EAGAIN) => Err(TAKEN_OVER.to_owned()),
            Err(error) => Err(format!("the database can't be locked: {error}")),
        }
    }

    /// Whether what is written goes to files that the next process will find.
    pub(super) fn in_place(&self) -> Result<(), String> {
        self.places.are_there()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // In a child that was forked it is the parent's.
        if self.known.process == process::id() {
            // A failure leaves a lock that `take` takes again.
            _ = set(&self.known.file, libc::F_UNLCK);
            self.known.in_use.store(false, Ordering::Release);
        }
    }
}

/// Returns the entry of a file. A file that this process has open already is not opened again.
fn known(path: &Path) -> Result<Arc<Known>, Refusal> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    // Nobody reaches a file without a name, so no lock on it counts any more.
    files.retain(|_, known| {
        known.in_use.load(Ordering::Acquire) || known.file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    });
    let process = process::id();
    if let Ok(metadata) = fs::metadata(path) {
        if !metadata.is_file() {
            return Err(Refusal::Other("it is there, and is no file".to_owned()));
        }
        if let Some(known) = files.get(&(process, id(&metadata))) {
            return Ok(Arc::clone(known));
        }
    }
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let id = id(&file.metadata()?);
    if let Some(known) = files.get(&(process, id)) {
        // The path has led to it only just now. To close it would end the locks.
        mem::forget(file);
        return Ok(Arc::clone(known));
    }
    let known = Arc::new(Known { process, file, in_use: AtomicBool::new(false) });
    files.insert((process, id), Arc::clone(&known));
    Ok(known)
}

fn has_one_name(metadata: &fs::Metadata) -> Result<(), Refusal> {
    let links = metadata.nlink();
    if links > 1 {
        return Err(Refusal::Other(format!(
            "the file has {links} names (hard links), and SQLite keeps its log beside one of them: \
             what is in the log would be lost under another name; keep the name that has a -wal file \
             beside it, if one has, and delete the others"
        )));
    }
    Ok(())
}

fn id(metadata: &fs::Metadata) -> Id {
    (metadata.dev(), metadata.ino())
}

/// Locks or unlocks the byte, without waiting.
fn set(file: &File, how: libc::c_int) -> nix::Result<()> {
    #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "the types differ by platform")]
    let lock = libc::flock {
        l_type: how as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: BYTE,
        l_len: 1,
        l_pid: 0,
        #[cfg(target_os = "freebsd")]
        l_sysid: 0,
    };
    fcntl(file, FcntlArg::F_SETLK(&lock)).map(drop)
}
