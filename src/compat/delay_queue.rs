//! `tokio_util::time::delay_queue` on this engine. (Feature `tokio`.)
//!
//! Names, arguments and behaviour are tokio-util's, so one import is the whole move:
//! `use tourbillon::compat::delay_queue::DelayQueue;` in place of
//! `use tokio_util::time::DelayQueue;`. [`DelayQueue`] lists the differences.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use super::tokio::{Duration, Instant, Sleep, after, sleep_until};

/// The panic message of a call that needs an item.
const NO_ITEM: &str = "the queue has no item of this key: it has expired, or was removed, or is another queue's";

/// Values that come back when their deadlines have come, like `tokio_util::time::DelayQueue`.
///
/// One task polls it, by [`poll_expired`](Self::poll_expired), or as a `Stream` with the feature
/// `stream`. However many items it has, it takes one timeout of the engine: that of a [`Sleep`],
/// which the first poll with an item makes. The engine learns of a change with the next poll. A
/// reset of another item than the first to later takes constant time. Everything else takes
/// logarithmic time, on average: now and then a call looks at all items.
///
/// In a `select!` its branch is `poll_fn(|context| queue.poll_expired(context)), if
/// !queue.is_empty()`. Its `Duration` and `Instant` are Tokio's.
///
/// ```
/// use std::future::poll_fn;
/// use tourbillon::compat::delay_queue::DelayQueue;
/// use tourbillon::compat::tokio::Duration;
///
/// # pollster::block_on(async {
/// let mut leases = DelayQueue::new();
/// let alice = leases.insert("alice", Duration::from_millis(4));
/// let bob = leases.insert("bob", Duration::from_secs(60));
/// leases.insert("carol", Duration::from_millis(2));
///
/// leases.reset(&alice, Duration::from_secs(30)); // she has been heard of
/// let gone = poll_fn(|context| leases.poll_expired(context)).await;
/// assert_eq!(gone.map(|lease| lease.into_inner()), Some("carol"));
///
/// assert_eq!(leases.peek(), Some(alice));
/// assert_eq!(leases.remove(&bob).into_inner(), "bob");
/// assert_eq!(leases.len(), 1);
/// # });
/// ```
///
/// # What differs
///
/// * Deadlines are not rounded to milliseconds, and none is too far.
/// * Items of one deadline come out in the order in which they were inserted.
/// * A key is never used again, so the key of an item that has gone finds no other item.
/// * It is a heap and no wheel. With very many items a reset is cheaper than tokio-util's, and all
///   else is dearer.
/// * A reset of the first item to later wakes nobody, and its removal wakes nobody but for the last
///   item. The task is woken at the old deadline, once at most, and goes on waiting.
/// * It works outside of a runtime. In one it takes part in cooperative scheduling: a task that
///   takes one expired item after the other yields now and then.
#[derive(Debug)]
pub struct DelayQueue<T> {
    /// By the numbers of their keys.
    items: HashMap<u64, (Instant, T)>,
    /// Times and numbers, the earliest on top. The top is of the item that is next. The others may
    /// be out of date, but each item has a time here that is not behind its deadline.
    order: BinaryHeap<Reverse<(Instant, u64)>>,
    next_number: u64,
    /// Ends at the first deadline of the last poll that had to wait. A later poll moves it.
    sleep: Option<Sleep>,
    /// The waker of the last poll, until it is called.
    waker: Option<Waker>,
}

/// Names an item of a [`DelayQueue`], which returns it when the item is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u64);

/// An item that has left its [`DelayQueue`], because its deadline came or because it was removed.
#[derive(Debug)]
pub struct Expired<T> {
    value: T,
    deadline: Instant,
    key: Key,
}

impl<T> DelayQueue<T> {
    /// Makes an empty queue. Allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// Makes an empty queue with memory for at least so many items.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let (items, order) = (HashMap::with_capacity(capacity), BinaryHeap::with_capacity(capacity));
        Self { items, order, next_number: 0, sleep: None, waker: None }
    }

    /// Inserts a value that comes back `timeout` from now. A duration that is too long to be
    /// counted is 30 years. Otherwise it is [`insert_at`](Self::insert_at).
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        self.insert_at(value, after(timeout))
    }

    /// Inserts a value that comes back at a point in time, or at once if that has passed. Wakes the
    /// task that polls the queue, if it would come too late. Allocates if the capacity is used up,
    /// in which what was removed may count for a while.
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        let number = self.next_number;
        self.next_number += 1;
        self.items.insert(number, (when, value));
        self.order.push(Reverse((when, number)));
        self.wake_before(when);
        Key(number)
    }

    /// Returns the next item whose deadline has come. Returns `None` if the queue is empty; more
    /// can be inserted then. Otherwise the context's task is woken when there is an item, when the
    /// queue has become empty, and when something earlier is inserted. Allocates nothing, but for a
    /// thread's first use of the engine.
    ///
    /// # Panics
    /// As [`sleep`](super::tokio::sleep) does, the first time that there is an item.
    #[track_caller]
    pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.waker.get_or_insert_with(|| context.waker().clone()).clone_from(context.waker());
        let Some(&Reverse((deadline, number))) = self.order.peek() else { return Poll::Ready(None) };
        let sleep = match &mut self.sleep {
            Some(sleep) => sleep,
            none => none.insert(sleep_until(deadline)),
        };
        let mut sleep = Pin::new(sleep);
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        ready!(sleep.as_mut().poll(context));
        if sleep.ended_by_shutdown() {
            // The global engine goes on with it.
            sleep.as_mut().reset(deadline);
            ready!(sleep.poll(context));
        }
        Poll::Ready(self.take(Key(number)))
    }

    /// Removes an item, and returns it, also if its deadline has come. Returns `None` if the queue
    /// has no such item. Allocates nothing. The removal of the last item wakes the task that polls
    /// the queue.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let item = self.take(*key)?;
        if self.is_empty() {
            self.stop_waiting();
        }
        Some(item)
    }

    /// Removes an item, and returns it. Otherwise it is [`try_remove`](Self::try_remove).
    ///
    /// # Panics
    /// Panics if the queue has no item of this key.
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        self.try_remove(key).expect(NO_ITEM)
    }

    /// Moves an item's deadline to `timeout` from now. Otherwise it is
    /// [`reset_at`](Self::reset_at).
    ///
    /// # Panics
    /// Panics if the queue has no item of this key.
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        self.reset_at(key, after(timeout));
    }

    /// Moves an item's deadline, to an earlier or a later time. Wakes the task that polls the
    /// queue, if it would come too late. A reset to earlier may allocate.
    ///
    /// # Panics
    /// Panics if the queue has no item of this key.
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        let (deadline, _) = self.items.get_mut(&key.0).expect(NO_ITEM);
        let old = mem::replace(deadline, when);
        if when < old {
            self.order.push(Reverse((when, key.0)));
        }
        self.settle();
        self.wake_before(when);
    }

    /// Returns the key of the item that [`poll_expired`](Self::poll_expired) returns next, whether
    /// or not its deadline has come. Returns `None` if the queue is empty.
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.order.peek().map(|Reverse((_, number))| Key(*number))
    }

    /// Returns an item's deadline, as it was given.
    ///
    /// # Panics
    /// Panics if the queue has no item of this key.
    #[must_use]
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        self.items.get(&key.0).expect(NO_ITEM).0
    }

    /// Returns how many items there are, with those whose deadlines have come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Drops all items. If there are any, it wakes the task that polls the queue. The capacity
    /// stays.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.order.clear();
            // Before the values go: a destructor of one may panic.
            self.stop_waiting();
            self.items.clear();
        }
    }

    /// Returns how many items there is memory for, as long as none is removed, or reset to earlier.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.items.capacity().min(self.order.capacity())
    }

    /// Makes room for at least so many more items.
    ///
    /// # Panics
    /// Panics if that is more than an address can count.
    pub fn reserve(&mut self, additional: usize) {
        self.items.reserve(additional);
        self.order.reserve(additional);
    }

    /// Gives memory back that the items do not need. Takes linear time.
    pub fn shrink_to_fit(&mut self) {
        self.rebuild();
        self.items.shrink_to_fit();
        self.order.shrink_to_fit();
    }

    /// The same as [`shrink_to_fit`](Self::shrink_to_fit). Keys stay as they are.
    pub fn compact(&mut self) {
        self.shrink_to_fit();
    }

    /// Wakes the task unless something else does by then.
    fn wake_before(&mut self, when: Instant) {
        if self.sleep.as_ref().is_none_or(|sleep| sleep.is_elapsed() || when < sleep.deadline()) {
            self.wake();
        }
    }

    fn take(&mut self, key: Key) -> Option<Expired<T>> {
        let (deadline, value) = self.items.remove(&key.0)?;
        self.settle();
        Some(Expired { value, deadline, key })
    }

    /// Brings the next item to the top of the order, and bounds what is out of date.
    fn settle(&mut self) {
        if self.order.len() / 2 > self.items.len() {
            self.rebuild();
        }
        while let Some(mut top) = self.order.peek_mut() {
            let Reverse((time, number)) = *top;
            match self.items.get(&number) {
                Some(&(deadline, _)) if deadline == time => break,
                // It was reset to later.
                Some(&(deadline, _)) if deadline > time => top.0.0 = deadline,
                _ => drop(PeekMut::pop(top)),
            }
        }
    }

    /// Leaves in the order only what is not out of date.
    fn rebuild(&mut self) {
        self.order.clear();
        self.order.extend(self.items.iter().map(|(&number, &(deadline, _))| Reverse((deadline, number))));
    }

    /// Tells the task that there is nothing to wait for.
    fn stop_waiting(&mut self) {
        self.sleep = None;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// No value is ever pinned.
impl<T> Unpin for DelayQueue<T> {}

impl<T> Expired<T> {
    /// Returns the value.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns the value, mutably.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the value, without the rest.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns the deadline that the item had, as it was given.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the key that the item had.
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }
}
