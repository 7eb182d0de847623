//! `tourbillon::compat::delay_queue` behaves as tokio-util's, by a clock that the test has stopped.

#[path = "common/other_thread.rs"]
mod other_thread;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::StreamExt;
use tourbillon::compat::delay_queue::{DelayQueue, Expired};
use tourbillon::compat::tokio::{Duration, Instant, advance, sleep_until};

use other_thread::wait_for_a_thread;

const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

/// Counts how often a task that polls a queue is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A task of the test, which polls a queue.
#[derive(Default)]
struct Task {
    wakes: Arc<Wakes>,
    seen: usize,
}

impl Task {
    fn poll<T>(&self, queue: &mut DelayQueue<T>) -> Poll<Option<Expired<T>>> {
        queue.poll_expired(&mut Context::from_waker(&Waker::from(Arc::clone(&self.wakes))))
    }

    /// Returns the value that comes out.
    fn take<T>(&self, queue: &mut DelayQueue<T>) -> T {
        let Poll::Ready(Some(expired)) = self.poll(queue) else { panic!("nothing has expired") };
        expired.into_inner()
    }

    /// Returns whether it has been woken since the last call.
    fn is_woken(&mut self) -> bool {
        let seen = std::mem::replace(&mut self.seen, self.wakes.0.load(Ordering::Relaxed));
        self.seen > seen
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_comes_out_at_its_deadline_and_not_a_nanosecond_before() {
    let (mut queue, mut task) = (DelayQueue::new(), Task::default());
    let deadline = Instant::now() + 5 * MS;
    let key = queue.insert("a lease", 5 * MS);
    assert_eq!((queue.deadline(&key), queue.len()), (deadline, 1));
    assert!(task.poll(&mut queue).is_pending());
    advance(5 * MS - NS).await;
    assert!(!task.is_woken() && task.poll(&mut queue).is_pending());
    advance(NS).await;
    assert!(task.is_woken());
    let Poll::Ready(Some(mut expired)) = task.poll(&mut queue) else { panic!("it is due") };
    assert_eq!((*expired.get_ref(), expired.key(), expired.deadline()), ("a lease", key, deadline));
    *expired.get_mut() = "another";
    assert_eq!(expired.into_inner(), "another");
    assert!(queue.is_empty() && matches!(task.poll(&mut queue), Poll::Ready(None)));
}

#[tokio::test(start_paused = true)]
async fn items_come_out_by_their_deadlines_and_those_of_one_in_the_order_of_their_inserts() {
    let mut queue = DelayQueue::new();
    let start = Instant::now();
    for (number, ms) in [30, 10, 20, 10, 30, 10, 0].into_iter().enumerate() {
        queue.insert_at(number, start + ms * MS);
    }
    let mut order = Vec::new();
    while let Some(expired) = queue.next().await {
        assert_eq!(Instant::now(), expired.deadline());
        order.push(expired.into_inner());
    }
    assert_eq!(order, [6, 1, 3, 5, 2, 0, 4]);
}

#[tokio::test(start_paused = true)]
async fn an_item_inserted_or_reset_to_before_the_next_deadline_wakes_the_task_in_time() {
    let (mut queue, mut task) = (DelayQueue::new(), Task::default());
    let start = Instant::now();
    queue.insert_at("last", start + 40 * MS);
    assert!(task.poll(&mut queue).is_pending());
    let reset = queue.insert_at("reset", start + 50 * MS);
    assert!(!task.is_woken(), "it comes later than what the task waits for");
    queue.insert_at("second", start + 20 * MS);
    assert!(task.is_woken() && task.poll(&mut queue).is_pending());
    queue.reset_at(&reset, start + 10 * MS);
    assert!(task.is_woken() && task.poll(&mut queue).is_pending());
    for (ms, value) in [(10, "reset"), (20, "second"), (40, "last")] {
        sleep_until(start + ms * MS).await;
        assert!(task.is_woken(), "{value}");
        assert_eq!(task.take(&mut queue), value);
        assert_eq!(task.poll(&mut queue).is_pending(), value != "last");
    }
    queue.insert_at("past", start);
    assert!(task.is_woken(), "the task was told that there is nothing");
    assert_eq!(task.take(&mut queue), "past");
    queue.insert_at("after an item", start + 60 * MS);
    assert!(task.is_woken(), "the task has not waited since");
}

#[tokio::test(start_paused = true)]
async fn a_reset_to_later_and_the_removal_of_the_first_put_the_wait_off() {
    let (mut queue, task) = (DelayQueue::new(), Task::default());
    let start = Instant::now();
    let first = queue.insert_at("first", start + 10 * MS);
    let second = queue.insert_at("second", start + 20 * MS);
    queue.insert_at("third", start + 30 * MS);
    assert!(task.poll(&mut queue).is_pending());
    queue.reset(&first, 40 * MS);
    assert_eq!(queue.deadline(&first), start + 40 * MS);
    assert_eq!(queue.remove(&second).into_inner(), "second");
    advance(30 * MS - NS).await;
    assert!(task.poll(&mut queue).is_pending());
    advance(NS).await;
    assert_eq!(task.take(&mut queue), "third");
    advance(10 * MS - NS).await;
    assert!(task.poll(&mut queue).is_pending());
    advance(NS).await;
    assert_eq!(task.take(&mut queue), "first");
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_that_is_reset_wakes_the_task_once_in_its_time() {
    let (mut queue, mut task) = (DelayQueue::new(), Task::default());
    let key = queue.insert((), 100 * MS);
    assert!(task.poll(&mut queue).is_pending());
    let mut wakes = 0;
    for _ in 0..1000 {
        queue.reset(&key, 100 * MS);
        advance(MS).await;
        if task.is_woken() {
            wakes += 1;
            assert!(task.poll(&mut queue).is_pending());
        }
    }
    assert!(wakes <= 10, "{wakes} wake-ups in ten times its time");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_is_woken_when_the_queue_has_become_empty() {
    let (mut queue, mut task) = (DelayQueue::new(), Task::default());
    let (key, other) = (queue.insert(Arc::new(()), MS), queue.insert(Arc::new(()), MS));
    let start = Instant::now();
    assert!(task.poll(&mut queue).is_pending());
    let held = queue.remove(&key).into_inner();
    assert!(!task.is_woken(), "there is another");
    assert!(queue.try_remove(&other).is_some() && task.is_woken());
    assert!(matches!(task.poll(&mut queue), Poll::Ready(None)));

    queue.insert(Arc::clone(&held), MS);
    assert!(task.is_woken() && task.poll(&mut queue).is_pending());
    queue.clear();
    assert_eq!((task.is_woken(), queue.len(), queue.peek(), Arc::strong_count(&held)), (true, 0, None, 1));
    assert!(matches!(task.poll(&mut queue), Poll::Ready(None)));
    wait_for_a_thread().await;
    assert_eq!(Instant::now(), start, "a deadline is left, to which the clock has gone");
}

/// Its drop panics.
#[derive(Debug)]
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("on purpose"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clear_wakes_the_task_also_if_a_value_panics() {
    let (mut queue, mut task) = (DelayQueue::new(), Task::default());
    queue.insert(Panics, MS);
    assert!(task.poll(&mut queue).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| queue.clear())).is_err());
    assert!(task.is_woken() && queue.is_empty());
}

#[test]
fn a_queue_that_outlives_its_runtime_gives_nothing_out_early() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (mut queue, task) = (DelayQueue::new(), Task::default());
    runtime.block_on(async {
        queue.insert("an hour", 3_600_000 * MS);
        assert!(task.poll(&mut queue).is_pending());
    });
    drop(runtime);
    assert!(task.poll(&mut queue).is_pending());
}

#[tokio::test(start_paused = true)]
async fn the_key_of_an_item_that_has_gone_finds_no_other() {
    let mut queue = DelayQueue::with_capacity(1);
    let (removed, expired) = (queue.insert(1, MS), queue.insert(2, Duration::ZERO));
    assert_eq!(queue.remove(&removed).key(), removed);
    assert_eq!(queue.next().await.map(|item| item.key()), Some(expired));
    queue.compact();
    let alive = [queue.insert(3, MS), queue.insert(4, MS)];
    for gone in [removed, expired] {
        assert!(!alive.contains(&gone));
        assert!(queue.try_remove(&gone).is_none());
        let calls: [fn(&mut DelayQueue<i32>, _); 4] = [
            |queue, key| _ = queue.remove(&key),
            |queue, key| queue.reset(&key, MS),
            |queue, key| queue.reset_at(&key, Instant::now()),
            |queue, key| _ = queue.deadline(&key),
        ];
        for call in calls {
            assert!(catch_unwind(AssertUnwindSafe(|| call(&mut queue, gone))).is_err());
        }
    }
    assert_eq!(queue.len(), 2, "what is there is untouched");
    assert_eq!(alive.map(|key| queue.remove(&key).into_inner()), [3, 4]);
}

#[tokio::test(start_paused = true)]
async fn many_resets_and_removals_change_neither_the_order_nor_the_memory() {
    let (mut queue, task) = (DelayQueue::new(), Task::default());
    let start = Instant::now();
    let first = queue.insert(0, MS);
    let others = [1, 2, 3, 4, 5].map(|number| queue.insert(number, Duration::from_secs(60)));
    for round in 0..10_000 {
        let removed = queue.insert(6, Duration::from_secs(30));
        queue.reset_at(&others[round % 5], start + Duration::from_secs(40 + (round * round % 50) as u64));
        queue.remove(&removed);
        assert_eq!(queue.peek(), Some(first));
    }
    let printed = format!("{queue:?}").len();
    assert!(printed < 5_000, "it remembers what has gone: {printed} bytes");
    queue.reset(&first, Duration::from_secs(45));
    let mut deadlines: Vec<_> = others.iter().chain([&first]).map(|key| queue.deadline(key)).collect();
    deadlines.sort();
    advance(Duration::from_secs(100)).await;
    let taken: Vec<_> = std::iter::from_fn(|| match task.poll(&mut queue) {
        Poll::Ready(expired) => expired.map(|expired| expired.deadline()),
        Poll::Pending => panic!("all are due"),
    })
    .collect();
    assert_eq!(taken, deadlines);
}

#[tokio::test(start_paused = true)]
async fn peek_names_what_comes_out_next() {
    let mut queue = DelayQueue::default();
    let keys = [30, 10, 20].map(|ms| queue.insert(ms, ms * MS));
    queue.reset(&keys[2], 5 * MS);
    while let Some(next) = queue.peek() {
        assert_eq!(queue.next().await.map(|item| item.key()), Some(next));
    }
    assert!(queue.is_empty());
}

#[test]
fn capacity_is_reserved_kept_by_a_clear_and_given_back() {
    let mut queue = DelayQueue::with_capacity(10);
    let capacity = queue.capacity();
    assert!(capacity >= 10);
    let keys: Vec<_> = (0..10).map(|number| queue.insert(number, MS)).collect();
    assert_eq!(queue.capacity(), capacity);
    queue.reserve(100);
    assert!(queue.capacity() >= 110);
    keys[2..].iter().for_each(|key| _ = queue.remove(key));
    queue.compact();
    assert_eq!(queue.capacity(), 2);
    queue.clear();
    assert_eq!(queue.capacity(), 2);
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), 0);
}

#[test]
fn it_works_without_a_runtime_and_no_time_is_too_long() {
    let mut queue = DelayQueue::new();
    let begun = Instant::now();
    queue.insert("never", Duration::MAX);
    queue.insert("soon", 2 * MS);
    assert_eq!(pollster::block_on(queue.next()).map(Expired::into_inner), Some("soon"));
    assert!(begun.elapsed() >= 2 * MS);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_one_expired_item_after_the_other_yields_now_and_then() {
    let mut queue = DelayQueue::new();
    for number in 0..1000 {
        queue.insert(number, Duration::ZERO);
    }
    let mut all = pin!(queue.count());
    assert!(all.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(), "it has taken all at once");
    assert_eq!(all.await, 1000);
}

#[test]
fn all_parts_can_be_sent_shared_and_printed() {
    fn check<T: Send + Sync + Unpin + std::fmt::Debug>() {}
    check::<(DelayQueue<u32>, Expired<u32>, tourbillon::compat::delay_queue::Key)>();
    fn moves<T: Unpin>() {}
    moves::<DelayQueue<std::marker::PhantomPinned>>();
}
