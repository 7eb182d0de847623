//! The loom side of `sync.rs`.

pub(crate) use loom::sync::atomic::{Ordering, fence};
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

use std::time::Duration;

/// Blocks the calling thread until another thread unparks it. Ignores the timeout.
pub(crate) fn park_for(_timeout: Option<Duration>) {
    thread::park();
}

/// Waits for a notification. Ignores the time.
pub(crate) fn wait_for<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, _at_most: Duration) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(crate) fn sleep_briefly() {
    thread::yield_now();
}

/// Loom's threads, with a park token of our own. Loom's own tokens differ from std's in three ways.
/// Its unpark wakes a thread from anything that the thread is blocked on, such as a lock. A thread
/// loses its token if it takes a lock before it parks. And unpark orders memory at once, and not
/// only when the park returns.
pub(crate) mod thread {
    pub(crate) use loom::thread::{panicking, yield_now};

    use std::cell::RefCell;
    use std::io;
    use std::sync::Arc;

    use loom::sync::atomic::{AtomicU8, Ordering};

    const EMPTY: u8 = 0;
    const PARKED: u8 = 1;
    const TOKEN: u8 = 2;

    #[derive(Clone, Debug)]
    pub(crate) struct Thread {
        thread: loom::thread::Thread,
        state: Arc<AtomicU8>,
    }

    loom::thread_local! {
        static CURRENT: RefCell<Option<Thread>> = RefCell::new(None);
    }

    pub(crate) fn current() -> Thread {
        let new = || Thread { thread: loom::thread::current(), state: Arc::new(AtomicU8::new(EMPTY)) };
        CURRENT.with(|current| current.borrow_mut().get_or_insert_with(new).clone())
    }

    pub(crate) fn park() {
        let me = current();
        if me.state.compare_exchange(EMPTY, PARKED, Ordering::Acquire, Ordering::Acquire).is_ok() {
            // Loom switches to no other thread before this one is blocked.
            loom::thread::park();
        }
        me.state.swap(EMPTY, Ordering::Acquire);
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            if self.state.swap(TOKEN, Ordering::Release) == PARKED {
                self.thread.unpark();
            }
        }
    }

    #[derive(Debug)]
    pub(crate) struct JoinHandle<T> {
        handle: loom::thread::JoinHandle<T>,
        thread: Thread,
    }

    impl<T> JoinHandle<T> {
        pub(crate) fn thread(&self) -> &Thread {
            &self.thread
        }

        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.handle.join()
        }
    }

    pub(crate) fn spawn<T: 'static>(run: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
        let state = Arc::new(AtomicU8::new(EMPTY));
        let its = Arc::clone(&state);
        let handle = loom::thread::spawn(move || {
            let me = Thread { thread: loom::thread::current(), state: its };
            CURRENT.with(|current| current.replace(Some(me)));
            run()
        });
        let thread = Thread { thread: handle.thread().clone(), state };
        JoinHandle { handle, thread }
    }

    #[derive(Debug)]
    pub(crate) struct Builder;

    impl Builder {
        pub(crate) fn new() -> Self {
            Self
        }

        pub(crate) fn name(self, _: String) -> Self {
            self
        }

        pub(crate) fn spawn<T: 'static>(self, run: impl FnOnce() -> T + 'static) -> io::Result<JoinHandle<T>> {
            Ok(spawn(run))
        }
    }
}

/// Loom's atomics, with two additional checks.
///
/// Every access to an atomic must happen before its drop. So a model fails if memory is used after
/// it was freed, and also if only the schedule kept that from happening.
///
/// Loads are ordered among each other. When loom looks for other possible executions, it compares a
/// write with the last load only, and that load may be one of the same thread. Take a thread that
/// loads, and then another thread that loads and does a compare-and-swap: without this order, loom
/// would never try the swap first.
macro_rules! checked_atomic {
    ($name:ident $(<$param:ident>)?, $value:ty) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name $(<$param>)? {
            atomic: loom::sync::atomic::$name $(<$param>)?,
            loads: loom::sync::atomic::AtomicU8,
        }

        impl $(<$param>)? $name $(<$param>)? {
            #[track_caller]
            pub(crate) fn new(value: $value) -> Self {
                let atomic = loom::sync::atomic::$name::new(value);
                Self { atomic, loads: loom::sync::atomic::AtomicU8::new(0) }
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.loads.fetch_add(0, Ordering::Relaxed);
                self.atomic.load(order)
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                change: impl Fn($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut value = self.load(failure);
                while let Some(changed) = change(value) {
                    match self.atomic.compare_exchange_weak(value, changed, success, failure) {
                        Ok(_) => return Ok(value),
                        Err(now) => value = now,
                    }
                }
                Err(value)
            }
        }

        impl $(<$param>)? std::ops::Deref for $name $(<$param>)? {
            type Target = loom::sync::atomic::$name $(<$param>)?;

            fn deref(&self) -> &Self::Target {
                &self.atomic
            }
        }

        impl $(<$param>)? Drop for $name $(<$param>)? {
            fn drop(&mut self) {
                if !thread::panicking() {
                    self.atomic.with_mut(|_| ());
                }
            }
        }
    };
}

checked_atomic!(AtomicU8, u8);
checked_atomic!(AtomicU64, u64);
checked_atomic!(AtomicUsize, usize);
checked_atomic!(AtomicPtr<T>, *mut T);

/// std's, as far as it is used: with its orderings, and without its lock, as it is only set to
/// values that were made before. `is_set` decides which is, and who sees it. Loom switches to no
/// other thread between an exchange of it and the access to the value.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    is_set: AtomicU8,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self { is_set: AtomicU8::new(0), value: std::sync::OnceLock::new() }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        // Always a load, also if there is no value yet: a model tries both orders.
        let is_set = self.is_set.load(Ordering::Acquire) != 0;
        self.value.get().filter(|_| is_set)
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        match self.is_set.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => self.value.set(value),
            Err(_) => Err(value),
        }
    }
}

/// A stand-in for crossbeam's queue, whose inside loom can't see. It has the same orderings, but
/// its `pop` lacks the fence, so that no protocol can depend on that. Each place is used once, so a
/// model can push at most four values.
#[derive(Debug)]
pub(crate) struct SegQueue<T> {
    head: AtomicUsize,
    tail: AtomicUsize,
    places: [Place<T>; 4],
}

#[derive(Debug)]
struct Place<T> {
    written: AtomicU8,
    /// Of std, so that loom does not see it: `written` alone orders the accesses.
    value: std::sync::Mutex<Option<T>>,
}

impl<T> SegQueue<T> {
    pub(crate) fn new() -> Self {
        let place = |_| Place { written: AtomicU8::new(0), value: std::sync::Mutex::new(None) };
        Self { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), places: std::array::from_fn(place) }
    }

    pub(crate) fn push(&self, value: T) {
        let place = &self.places[self.tail.fetch_add(1, Ordering::SeqCst)];
        *place.value.lock().expect("nobody panics here") = Some(value);
        place.written.store(1, Ordering::Release);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        let mut head = self.head.load(Ordering::Acquire);
        while head != self.tail.load(Ordering::Relaxed) {
            match self.head.compare_exchange_weak(head, head + 1, Ordering::SeqCst, Ordering::Acquire) {
                Ok(_) => {
                    let place = &self.places[head];
                    while place.written.load(Ordering::Acquire) == 0 {
                        thread::yield_now();
                    }
                    return place.value.lock().expect("nobody panics here").take();
                }
                Err(now) => head = now,
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        let head = self.head.load(Ordering::SeqCst);
        self.tail.load(Ordering::SeqCst) <= head
    }
}
