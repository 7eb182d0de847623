//! The cost of each operation for its caller: `cargo bench`. `perf` compares the engine with other
//! timers.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tourbillon::{Inline, Timeout, Timer};

const FAR: Duration = Duration::from_secs(60);

fn timer() -> Timer {
    Timer::builder().capacity(1 << 17).executor(Inline).build().expect("the options make sense")
}

/// A request's deadline: armed, and cancelled while a thousand others are outstanding.
fn schedule_and_cancel(c: &mut Criterion) {
    let timer = timer();
    let mut ring: Vec<Option<Timeout>> = (0..1_000).map(|_| None).collect();
    let mut next = 0;
    c.bench_function("schedule + cancel, ring of 1,000", |b| {
        b.iter(|| {
            let timeout = timer.schedule(FAR, move || _ = black_box(next)).expect("not shut down");
            if let Some(oldest) = ring[next].replace(timeout) {
                assert!(oldest.cancel());
            }
            next = (next + 1) % ring.len();
        });
    });
}

/// A connection's idle timeout: every packet pushes out the timeout of one of 100,000 connections.
fn reset(c: &mut Criterion) {
    let timer = timer();
    let timeouts: Vec<_> = (0..100_000).map(|_| timer.schedule(FAR, || ()).expect("not shut down")).collect();
    let mut random = 88_172_645_463_325_252_usize;
    let mut pick = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        &timeouts[random % timeouts.len()]
    };
    c.bench_function("reset, one of 100,000", |b| b.iter(|| assert!(pick().reset(FAR))));
    let mut deadline = std::time::Instant::now() + FAR;
    c.bench_function("reset_at, one of 100,000", |b| {
        b.iter(|| {
            deadline += Duration::from_micros(10);
            assert!(pick().reset_at(deadline));
        });
    });
    // An event loop does this after a look at its sockets. The figures are per timeout.
    let mut group = c.benchmark_group("a batch of 64 of 100,000");
    group.throughput(criterion::Throughput::Elements(64));
    let mut ready = move || -> [&Timeout; 64] { std::array::from_fn(|_| pick()) };
    group.bench_function("one after the other", |b| {
        b.iter_batched(
            &mut ready,
            |ready| assert!(ready.iter().all(|timeout| timeout.reset(FAR))),
            criterion::BatchSize::SmallInput,
        );
    });
    group.bench_function("reset_many", |b| {
        b.iter_batched(
            &mut ready,
            |ready| assert_eq!(timer.reset_many(ready, FAR), 64),
            criterion::BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// The whole way of a timeout without the threads: inbox, wheel, batch, task.
fn schedule_and_fire(c: &mut Criterion) {
    let (timer, mut driver) = Timer::builder().capacity(1 << 17).build_driven().expect("the options make sense");
    let mut group = c.benchmark_group("fire");
    group.throughput(criterion::Throughput::Elements(1_000));
    group.bench_function("schedule and turn, 1,000 at a time", |b| {
        b.iter(|| {
            for n in 0..1_000 {
                timer.schedule_detached(Duration::ZERO, move || _ = black_box(n)).expect("not shut down");
            }
            assert_eq!(driver.turn(), 1_000);
        });
    });
    group.finish();
}

criterion_group!(benches, schedule_and_cancel, reset, schedule_and_fire);
criterion_main!(benches);
