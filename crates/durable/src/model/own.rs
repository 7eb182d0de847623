//! Another connection to the file, and its transactions.

use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::World;
use super::steps::{OwnCall, Step};
use crate::clock::WallClock;
use crate::transaction::sqlite;

impl World {
    pub(super) fn own(&mut self, key: &str, call: OwnCall, due: SystemTime, commit: bool) {
        let now = self.wall.now();
        let mut connection = Connection::open(&self.path).unwrap();
        let own = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let running = "SELECT running FROM tourbillon_timeouts WHERE key = ?1";
        let runs = own.query_row(running, [key], |row| row.get(0)).optional().unwrap().unwrap_or(false);
        let (mut generation, mut did) = (0, false);
        match call {
            OwnCall::Schedule => generation = sqlite::schedule_at(&own, key, due, "handler", b"").unwrap().generation,
            OwnCall::Reset => did = sqlite::reset_by(now, &own, key, due).unwrap(),
            OwnCall::Cancel => did = sqlite::cancel_by(now, &own, key).unwrap(),
        }
        if !commit {
            return own.rollback().unwrap();
        }
        own.commit().unwrap();
        match call {
            OwnCall::Schedule => self.renewed(key, generation),
            // Its end may not be written yet: the writer waits for the store.
            OwnCall::Reset | OwnCall::Cancel if runs && !did => {}
            OwnCall::Reset => self.answered(key, Ok(did), true),
            OwnCall::Cancel => self.answered(key, Ok(did), false),
        }
    }
}

#[test]
fn a_timeout_that_another_connection_has_committed_is_not_late_by_a_scan() {
    for delay_ms in [0, 1_000, 5_000, 60_000] {
        let mut world = World::new();
        world.carry_out(Step::Own { key: 0, call: OwnCall::Schedule, delay_ms, commit: true });
        // Until it is due, or until the next peek, and one step more.
        for _ in 0..=delay_ms.max(250) / 50 {
            world.carry_out(Step::Advance { ms: 50 });
        }
        assert_eq!(world.handed_out.len(), 1, "after {delay_ms} ms");
    }
}
