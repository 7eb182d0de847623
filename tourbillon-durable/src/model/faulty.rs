//! A store that fails as the test wants it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::store::sqlite::SqliteStore;
use crate::store::{Answer, Claim, Claimed, Failure, Op, Owner, Scan, Store, Taken};

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The connection is lost, before it was done or after.
    Lost { done: bool },
    /// The process crashes, before it was done or after.
    Crash { done: bool },
    /// The store refuses.
    Refused,
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
        let lost = || Err(Failure::Lost("as the test wants it".to_owned()));
        if self.faults.crashed.load(Ordering::Relaxed) {
            return lost();
        }
        let Some(fault) = self.faults.take() else { return work(&mut self.store) };
        let done = match fault {
            Fault::Refused => return Err(Failure::Refused("as the test wants it".to_owned())),
            Fault::Lost { done } => done,
            Fault::Crash { done } => {
                self.faults.crashed.store(true, Ordering::Relaxed);
                done
            }
        };
        if done {
            work(&mut self.store)?;
        }
        lost()
    }
}

impl Store for Faulty {
    fn commit(&mut self, owner: &Owner, ops: &[Op], lease: bool) -> Result<Vec<Answer>, Failure> {
        self.call(|store| store.commit(owner, ops, lease))
    }

    fn claim(&mut self, owner: &Owner, claims: &[Claim]) -> Result<Vec<Claimed>, Failure> {
        self.call(|store| store.claim(owner, claims))
    }

    fn scan(&mut self, owner: &Owner, scan: &Scan) -> Result<Vec<Taken>, Failure> {
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

    fn batch(&self) -> usize {
        self.store.batch()
    }
}
