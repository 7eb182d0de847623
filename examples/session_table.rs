//! A table of sessions by key, each with an idle timeout that every touch pushes out.
//!
//! ```toml
//! [dependencies]
//! tourbillon = { path = "../tourbillon" }
//! ```
//!
//! A touch and a timeout may meet. One word of the timeout decides, so there are two outcomes:
//!
//! * `reset` returns true. The callback does not run before the new deadline.
//! * `reset` returns false: the timeout has fired. The callback runs now, or waits for the table's
//!   lock. Meanwhile the key may be given to a new session. So the callback looks, under the lock,
//!   whether the session of its key is still the one that it was armed for.
//!
//! `reset` takes `&self`. So with an `RwLock` touches of many threads need only the read lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tourbillon::{ManualClock, Refusal, TimeoutGuard, Timer};

const IDLE: Duration = Duration::from_secs(30);

type Key = &'static str;

struct Session {
    /// No two sessions have the same, also of one key.
    number: u64,
    /// Cancelled when the session is dropped.
    idle: TimeoutGuard,
}

struct Sessions {
    timer: Timer,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    by_key: HashMap<Key, Session>,
    opened: u64,
    expired: Vec<u64>,
}

impl Sessions {
    fn new(timer: Timer) -> Arc<Self> {
        Arc::new(Self { timer, table: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session, in place of the one that the key may have.
    fn open(self: &Arc<Self>, key: Key, table: &mut Table) -> Result<(), Refusal> {
        table.opened += 1;
        let number = table.opened;
        // With an `Arc` the table and its timeouts would keep each other alive.
        let sessions = Arc::downgrade(self);
        let expire = move || {
            if let Some(sessions) = sessions.upgrade() {
                sessions.expire(key, number);
            }
        };
        let idle = self.timer.schedule(IDLE, expire).map_err(|error| error.kind())?.cancel_on_drop();
        table.by_key.insert(key, Session { number, idle });
        Ok(())
    }

    /// Returns whether the key has a session, which then has its whole time again.
    fn touch(&self, key: Key) -> bool {
        // False also if the session is still in the table: its callback is about to remove it.
        self.lock().by_key.get(key).is_some_and(|session| session.idle.reset(IDLE))
    }

    /// A timeout calls this when it fires.
    fn expire(&self, key: Key, number: u64) {
        let mut table = self.lock();
        if table.by_key.get(key).is_some_and(|session| session.number == number) {
            table.by_key.remove(key);
            table.expired.push(number);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Moved by hand, to show each case. A server leaves the clock out.
    let clock = ManualClock::new();
    let sessions = Sessions::new(Timer::builder().clock(clock.clone()).build()?);
    sessions.open("alice", &mut sessions.lock())?;
    sessions.open("bob", &mut sessions.lock())?;

    clock.advance(IDLE / 2);
    assert!(sessions.touch("alice"));
    clock.advance(IDLE / 2);
    assert!(sessions.touch("alice") && !sessions.touch("bob"));
    println!("alice was touched and stays, bob has expired");

    // The race: alice's timeout fires while a thread holds the lock and opens her next session.
    let mut table = sessions.lock();
    let time = thread::spawn(move || clock.advance(IDLE));
    while !table.by_key["alice"].idle.is_expired() {
        thread::yield_now();
    }
    assert!(!table.by_key["alice"].idle.reset(IDLE), "it has fired");
    sessions.open("alice", &mut table)?;
    drop(table);
    time.join().expect("it does not panic");
    assert!(sessions.touch("alice"), "the callback has left the new session alone");
    assert_eq!(sessions.lock().expired, [2], "only bob's");
    println!("a callback that came too late has left alice's new session alone");

    // The drop of the table cancels the timeouts that are left.
    let timer = sessions.timer.clone();
    drop(sessions);
    assert_eq!(timer.shutdown()?.len(), 0);
    Ok(())
}
