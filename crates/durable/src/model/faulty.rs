//! A store that fails as the test wants it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::clock::WallClock;
use crate::store::sqlite::SqliteStore;
use crate::store::{Answer, Claim, Claimed, Failure, Op, Owner, Rejected, Scan, Scanned, Store, Taken};

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The connection is lost, before it was done or after.
    Lost { done: bool },
    /// The process crashes, before it was done or after.
    Crash { done: bool },
    /// The connection is lost before it was done, and that is known.
    Dropped,
    /// The store can't do anything.
    Unavailable,
    /// Somebody has locked the rows.
    Busy,
    /// The rows can't be read.
    Bad,
}

/// The next fault, which the store shares with the test.
#[derive(Clone, Default)]
pub(super) struct Faults {
    pub(super) next: Arc<Mutex<Option<(u8, Fault)>>>,
    pub(super) crashed: Arc<AtomicBool>,
}

impl Faults {
    fn take(&self) -> Option<Fault> {
        let mut next = self.next.lock().unwrap();
        match &mut *next {
            Some((0, fault)) => {
                let fault = *fault;
                *next = None;
                Some(fault)
            }
            Some((after, _)) => {
                *after -= 1;
                None
            }
            None => None,
        }
    }
}

/// A store with faults.
pub(super) struct Faulty {
    pub(super) store: SqliteStore,
    pub(super) faults: Faults,
}

impl Faulty {
    fn call<T>(&mut self, work: impl FnOnce(&mut SqliteStore) -> Result<T, Failure>) -> Result<T, Failure> {
        self.call_each(work, |_| None)
    }

    /// As [`call`](Self::call). `reject` answers each operation apart, if they are several.
    fn call_each<T>(
        &mut self,
        work: impl FnOnce(&mut SqliteStore) -> Result<T, Failure>,
        reject: impl FnOnce(Rejected) -> Option<T>,
    ) -> Result<T, Failure> {
        let reason = || "as the test wants it".to_owned();
        let lost = |unknown| Failure::Lost { reason: reason(), unknown };
        if self.faults.crashed.load(Ordering::Relaxed) {
            return Err(lost(true));
        }
        let Some(fault) = self.faults.take() else { return work(&mut self.store) };
        let done = match fault {
            Fault::Dropped => return Err(lost(false)),
            Fault::Unavailable => return Err(Failure::Unavailable(reason())),
            Fault::Busy => return reject(Rejected::Busy(reason())).ok_or(Failure::Locked(reason())),
            Fault::Bad => return reject(Rejected::Bad(reason())).ok_or(Failure::Unavailable(reason())),
            Fault::Lost { done } => done,
            Fault::Crash { done } => {
                self.faults.crashed.store(true, Ordering::Relaxed);
                done
            }
        };
        if done {
            work(&mut self.store)?;
        }
        Err(lost(true))
    }
}

impl Store for Faulty {
    fn commit(&mut self, owner: &Owner, ops: &[Op], careful: bool) -> Result<Vec<Result<Answer, Rejected>>, Failure> {
        let all = |rejected: Rejected| Some(ops.iter().map(|_| Err(rejected.clone())).collect());
        self.call_each(|store| store.commit(owner, ops, careful), all)
    }

    fn claim(&mut self, owner: &Owner, claims: &[Claim]) -> Result<Vec<Result<Option<Claimed>, Rejected>>, Failure> {
        let all = |rejected: Rejected| Some(claims.iter().map(|_| Err(rejected.clone())).collect());
        self.call_each(|store| store.claim(owner, claims), all)
    }

    fn scan(&mut self, owner: &Owner, scan: &Scan) -> Result<Scanned, Failure> {
        self.call(|store| store.scan(owner, scan))
    }

    fn mine(&mut self, owner: &Owner) -> Result<Vec<Taken>, Failure> {
        self.call(|store| store.mine(owner))
    }

    fn renew(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.call(|store| store.renew(owner))
    }

    fn give_back(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.call(|store| store.give_back(owner))
    }

    fn release(&mut self, owner: &Owner) -> Result<(), Failure> {
        self.call(|store| store.release(owner))
    }

    fn reconnect(&mut self) -> Result<(), Failure> {
        self.call(SqliteStore::reconnect)
    }

    fn begin(&mut self, clock: Arc<dyn WallClock>, stopping: Arc<AtomicBool>) -> Result<(), Failure> {
        self.store.begin(clock, stopping)
    }

    fn batch(&self) -> usize {
        self.store.batch()
    }
}
