//! The cost of a step of the wheel, by the number of timeouts: `cargo bench -p tourbillon-wheel`.
//! They are spread over 30 s, in ticks of 62.5 us. `perf` compares the wheel with others.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tourbillon_wheel::{Items, NEVER, Place, Take, Wheel};

/// 30 s in ticks of 62.5 us.
const SPREAD: u64 = 480_000;
const LEN: [usize; 3] = [10_000, 100_000, 1_000_000];

/// A deadline and a place, in a cache line of their own as in an engine.
#[repr(align(64))]
struct Entry {
    deadline: u64,
    place: Place,
}

struct Entries(Vec<Entry>);

impl Items for Entries {
    type Item = u32;

    fn deadline(&self, item: u32) -> u64 {
        self.0[item as usize].deadline
    }

    fn placed(&mut self, item: u32, place: Place) {
        self.0[item as usize].place = place;
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }
}

/// A wheel of so many timeouts, each due at some time within the spread.
fn filled(len: usize) -> (Wheel<u32>, Entries, Random) {
    let (mut wheel, mut random) = (Wheel::new(512, 5).expect("memory"), Random(0x9E37_79B9_7F4A_7C15));
    let place = Place::from_bits(u32::MAX);
    let mut entries = Entries((0..len).map(|_| Entry { deadline: NEVER, place }).collect());
    for item in 0..u32::try_from(len).expect("few") {
        entries.0[item as usize].deadline = 1 + random.below(480_000) as u64;
        wheel.insert(&mut entries, item).expect("memory");
    }
    (wheel, entries, random)
}

/// One is cancelled, and another is scheduled.
fn remove_and_insert(c: &mut Criterion) {
    let mut group = c.benchmark_group("remove one and insert one, of");
    for len in LEN {
        let (mut wheel, mut entries, mut random) = filled(len);
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter(|| {
                let which = random.below(len);
                let item = u32::try_from(which).expect("few");
                assert!(wheel.remove(entries.0[which].place, item));
                entries.0[which].deadline = 1 + random.below(480_000) as u64;
                wheel.insert(&mut entries, item).expect("memory");
            });
        });
        println!("{len} take {:.1} bytes of blocks each", wheel.memory() as f64 / len as f64);
    }
}

/// Time goes on by a tick, and all that is due is scheduled again. It is the whole cost of a
/// timeout that fires: insert, cascades, expire. The figure is that of a tick.
fn expire_and_insert(c: &mut Criterion) {
    let mut group = c.benchmark_group("a tick, with what fires put off by 30 s, of");
    for len in LEN {
        let (mut wheel, mut entries, _) = filled(len);
        let (mut now, mut fired) = (0, Vec::new());
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter(|| {
                now += 1;
                wheel.expire(&mut entries, now, &mut 100_000, |_, item| {
                    fired.push(item);
                    Take::Taken
                });
                for item in fired.drain(..) {
                    entries.0[item as usize].deadline += SPREAD;
                    wheel.insert(&mut entries, black_box(item)).expect("memory");
                }
                wheel.cascade(&mut entries, &mut 100_000);
            });
        });
        let (ticks, fire) = (now, len as f64 / SPREAD as f64);
        println!(
            "{len}: {fire:.2} fire in a tick; after {ticks} ticks {:.1} bytes of blocks each",
            wheel.memory() as f64 / len as f64
        );
    }
}

criterion_group!(benches, remove_and_insert, expire_and_insert);
criterion_main!(benches);
