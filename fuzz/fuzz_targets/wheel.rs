//! Runs any bytes as a program for the wheel, against the oracle of its tests.

#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use tourbillon_wheel::{Items, NEVER, OutOfMemory, Place, Take, Wheel};

#[path = "../../crates/wheel/model.rs"]
mod model;

use model::{Bench, Op};

/// More steps would only be slower.
const MOST_STEPS: usize = 200;

#[derive(Debug)]
struct Program {
    bits: u32,
    levels: usize,
    ops: Vec<Op>,
}

/// Delays of all orders of magnitude.
fn delay(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let bits = u32::arbitrary(bytes)? % 45;
    Ok(u64::arbitrary(bytes)? & ((1 << bits) - 1))
}

fn few<T>(bytes: &mut Unstructured<'_>, mut one: impl FnMut(&mut Unstructured<'_>) -> Result<T>) -> Result<Vec<T>> {
    (0..usize::from(u8::arbitrary(bytes)? % 40)).map(|_| one(bytes)).collect()
}

impl Op {
    fn read(bytes: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match u8::arbitrary(bytes)? % 16 {
            0..=2 => Self::Insert(few(bytes, delay)?),
            // A crowd.
            3 => Self::Insert(vec![delay(bytes)?; usize::from(u8::arbitrary(bytes)?)]),
            4 => Self::Never,
            5..=7 => Self::Remove(few(bytes, |bytes| u32::arbitrary(bytes))?),
            8..=9 => Self::Reset(u32::arbitrary(bytes)?, delay(bytes)?),
            10 => Self::Turn(delay(bytes)?, 100_000, usize::from(u8::arbitrary(bytes)? % 20)),
            11 => Self::Shrink,
            12 => Self::Advance(delay(bytes)?, 1 + usize::from(u8::arbitrary(bytes)? % 40)),
            13 => Self::Turn(delay(bytes)?, 1 + usize::from(u8::arbitrary(bytes)? % 40), usize::MAX),
            14 => Self::Rescan,
            _ => Self::Advance(delay(bytes)?, 100_000),
        })
    }
}

impl<'a> Arbitrary<'a> for Program {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let (bits, levels) = (1 + u32::from(u8::arbitrary(bytes)? % 9), 1 + usize::from(u8::arbitrary(bytes)? % 6));
        let mut ops = Vec::new();
        while !bytes.is_empty() && ops.len() < MOST_STEPS {
            ops.push(Op::read(bytes)?);
        }
        Ok(Self { bits, levels, ops })
    }
}

fuzz_target!(|program: Program| {
    let mut bench = Bench::new(1 << program.bits, program.levels);
    program.ops.into_iter().for_each(|op| bench.play(op));
});
