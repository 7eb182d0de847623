//! The loom half of `sync.rs`.

pub(crate) use loom::sync::atomic::Ordering;
pub(crate) use loom::sync::atomic::fence;
pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

use std::time::Duration;

use super::ProtocolCell;

/// Blocks the calling thread until it is unparked. Without end, whatever the timeout.
pub(crate) fn park_for(_timeout: Option<Duration>) {
    thread::park();
}

pub(crate) fn sleep_briefly() {
    thread::yield_now();
}

/// Loom's threads, parked by a token of their own. Loom's own unpark wakes a thread from whatever it is blocked on, be it a
/// lock; it loses the token if the thread takes a lock before it parks; and it orders memory at once, and not only when the
/// park returns.
pub(crate) mod thread {
    pub(crate) use loom::thread::{LocalKey, panicking, yield_now};

    use std::cell::RefCell;
    use std::io;
    use std::sync::Arc;

    use loom::sync::atomic::{AtomicU8, Ordering};
    use loom::thread::ThreadId;

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
            // No other thread runs before this one is blocked.
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

        pub(crate) fn id(&self) -> ThreadId {
            self.thread.id()
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

/// What std's thread-locals can do and loom's can't.
pub(crate) trait LocalCell<T> {
    fn get(&'static self) -> T;
    fn set(&'static self, value: T);
}

impl<T: Copy> LocalCell<T> for thread::LocalKey<std::cell::Cell<T>> {
    fn get(&'static self) -> T {
        self.with(std::cell::Cell::get)
    }

    fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }
}

/// Loom's atomics, with two things more.
///
/// When an atomic goes, all that anybody did to it must have happened before. So a model fails not only if memory is used
/// after it was freed, but also if nothing but luck kept that from happening.
///
/// And loads are ordered among each other. When loom looks for what else could have happened it compares a write with the
/// last load only, and that may be one of the same thread: of a load, and then a load and a compare-and-swap by another
/// thread, it would never try the swap first.
macro_rules! checked_atomic {
    ($name:ident $(<$param:ident>)?, $value:ty) => {
        #[derive(Debug)]
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

/// A stand-in for crossbeam's queue, which loom can't see into: with its orderings, except that `pop` lacks its fence,
/// so that no protocol comes to lean on that. Each place is used once, which bounds what a model may push.
#[derive(Debug)]
pub(crate) struct SegQueue<T> {
    head: AtomicUsize,
    tail: AtomicUsize,
    places: [Place<T>; 4],
}

#[derive(Debug)]
struct Place<T> {
    written: AtomicU8,
    value: ProtocolCell<Option<T>>,
}

// SAFETY: a value is written by who claimed its place on the tail, and read by who claimed it on the head.
unsafe impl<T: Send> Sync for SegQueue<T> {}

impl<T> SegQueue<T> {
    pub(crate) fn new() -> Self {
        let place = |_| Place { written: AtomicU8::new(0), value: ProtocolCell::new(None) };
        Self { head: AtomicUsize::new(0), tail: AtomicUsize::new(0), places: std::array::from_fn(place) }
    }

    pub(crate) fn push(&self, value: T) {
        let place = &self.places[self.tail.fetch_add(1, Ordering::SeqCst)];
        // SAFETY: the place was just claimed.
        place.value.with_mut(|to| unsafe { *to = Some(value) });
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
                    // SAFETY: the place was just claimed, and has been written.
                    return place.value.with_mut(|from| unsafe { (*from).take() });
                }
                Err(now) => head = now,
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        let head = self.head.load(Ordering::SeqCst);
        self.tail.load(Ordering::SeqCst).saturating_sub(head)
    }
}
