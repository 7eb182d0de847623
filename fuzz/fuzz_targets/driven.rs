//! Runs any bytes as a program for the driven engine, against the model of `testkit`. `cargo
//! +nightly fuzz fmt driven FILE` shows the program that a file holds.

#![no_main]

use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use testkit::DAY;
use testkit::oracle::{Act, End, Kept, Options, Pair, Rule, Step, Via};
use tourbillon::{MissedTicks, Shutdown, Timer};

/// More steps would only be slower.
const MOST_STEPS: usize = 200;

/// The wheels can count no more ticks than these bits have.
const TICK_BITS: u32 = 55;

/// The options of an engine, a program for it, and how it ends.
#[derive(Debug)]
struct Program {
    shards: usize,
    /// Base-2 logarithm of the number of ticks that a wheel spans.
    bits: u32,
    levels: usize,
    transfer_limit: usize,
    expiry_limit: usize,
    capacity: usize,
    options: Options,
    steps: Vec<Step>,
    end: End,
}

/// Reads a program. Each choice takes one byte, and each chosen value one to nine more. So a change
/// of one byte changes one step.
struct Reader<'a, 'b> {
    bytes: &'a mut Unstructured<'b>,
    tick: Duration,
}

impl Reader<'_, '_> {
    fn byte(&mut self) -> Result<u8> {
        u8::arbitrary(self.bytes)
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> Result<T> {
        Ok(from[usize::from(self.byte()?) % from.len()])
    }

    fn which(&mut self) -> Result<usize> {
        Ok(usize::from(self.byte()?))
    }

    /// Delays of all orders of magnitude, on ticks and beside them. A few are special, and many
    /// fall together.
    fn delay(&mut self) -> Result<Duration> {
        let most = Duration::from_nanos((1 << 54) - 1);
        let delay = match self.byte()? % 8 {
            0 => Duration::ZERO,
            1 => return Ok(Duration::MAX),
            2 => Duration::from_millis(self.byte()?.into()),
            3 => self.tick.saturating_mul(self.byte()?.into()),
            4 => self.tick.saturating_mul(u16::arbitrary(self.bytes)?.into()),
            5 => {
                let near = self.tick.saturating_mul(1_u32 << (self.byte()? % 32));
                let beside = i8::arbitrary(self.bytes)?;
                let by = Duration::from_nanos(beside.unsigned_abs().into());
                if beside < 0 { near.saturating_sub(by) } else { near.saturating_add(by) }
            }
            6 => Duration::from_nanos(u32::arbitrary(self.bytes)?.into()),
            _ => Duration::from_nanos(u64::arbitrary(self.bytes)?),
        };
        Ok(delay.min(most))
    }

    fn period(&mut self) -> Result<Duration> {
        Ok(self.delay()?.clamp(Duration::from_nanos(1), 400 * DAY))
    }

    /// The offset of an instant from now. It is never one that has passed and whose tick is still
    /// to come: the engine does not promise when that one is due.
    fn offset(&mut self) -> Result<i64> {
        let offset = i64::try_from(self.delay()?.min(400 * DAY).as_nanos()).expect("less than centuries");
        let is_past = self.byte()? % 4 == 0;
        let two_ticks = i64::try_from(2 * self.tick.as_nanos()).expect("a tick is short");
        Ok(if is_past { -offset - two_ticks } else { offset.max(1) })
    }

    fn via(&mut self) -> Result<Via> {
        Ok(match self.byte()? % 32 {
            0..20 => Via::Timer,
            20..31 => Via::Key(self.byte()?),
            // A thread costs as much as all other steps together.
            _ => Via::Elsewhere,
        })
    }

    fn is_elsewhere(&mut self) -> Result<bool> {
        Ok(self.byte()? % 32 == 31)
    }

    fn kept(&mut self) -> Result<Kept> {
        self.choose(&[Kept::Plainly, Kept::Plainly, Kept::Guarded, Kept::Detached])
    }

    fn act(&mut self) -> Result<Act> {
        Ok(match self.byte()? % 16 {
            1 => Act::Panic,
            2 => Act::Schedule { delay: self.delay()? },
            3 => Act::Cancel { which: self.which()? },
            4 => Act::Reset { which: self.which()?, delay: self.delay()? },
            5 => Act::Drop { which: self.which()? },
            6 => Act::Advance { by: self.delay()?.min(DAY) },
            _ => Act::Nothing,
        })
    }

    fn rule(&mut self) -> Result<Rule> {
        Ok(match self.byte()? % 5 {
            0 => Rule::Rate(self.period()?, MissedTicks::Skip),
            1 => Rule::Rate(self.period()?, MissedTicks::Burst),
            2 => Rule::Rate(self.period()?, MissedTicks::Delay),
            3 => Rule::Delay(self.period()?),
            _ => {
                let times = self.choose(&[u32::MAX, u32::MAX, 0, 1, 5])?;
                Rule::Answer(self.delay()?.min(400 * DAY), times)
            }
        })
    }

    fn step(&mut self) -> Result<Step> {
        Ok(match self.byte()? % 32 {
            0..5 => Step::Schedule { delay: self.delay()?, kept: self.kept()?, via: self.via()?, act: self.act()? },
            5 => Step::ScheduleAt { offset: self.offset()?, via: self.via()? },
            6 => Step::ScheduleMany {
                delay: self.delay()?,
                many: self.which()? % 40,
                is_elsewhere: self.is_elsewhere()?,
            },
            7..10 => Step::Periodic {
                initial: self.delay()?.min(400 * DAY),
                rule: self.rule()?,
                is_elsewhere: self.is_elsewhere()?,
                act: self.act()?,
            },
            10..14 => Step::Reset { which: self.which()?, delay: self.delay()? },
            14 => Step::ResetAt { which: self.which()?, offset: self.offset()? },
            15 | 16 => Step::Cancel { which: self.which()? },
            17 => Step::Drop { which: self.which()? },
            18 => Step::Unguard { which: self.which()? },
            19 | 20 => Step::Pause,
            21 | 22 => Step::Resume,
            23 => Step::ToNext,
            24..27 => Step::Advance { by: self.delay()?.min(30 * DAY) },
            27 | 28 => Step::Turn,
            29 | 30 => Step::Settle,
            _ => Step::Sleep,
        })
    }

    fn end(&mut self) -> Result<End> {
        Ok(match self.byte()? % 5 {
            0 => End::Shutdown(Shutdown::Cancel),
            1 => End::Shutdown(Shutdown::FireNow),
            2 => End::Shutdown(Shutdown::Drain(Duration::from_millis(self.byte()?.into()))),
            3 => End::DropTimers,
            _ => End::DropDriver,
        })
    }
}

impl<'b> Arbitrary<'b> for Program {
    fn arbitrary(bytes: &mut Unstructured<'b>) -> Result<Self> {
        let mut reader = Reader { bytes, tick: Duration::from_micros(1) };
        let tick_ns = reader.choose(&[1_000_000, 1_000_000, 1_000, 333_000, 60_000_000_000, 1_000, 1_007])?;
        reader.tick = Duration::from_nanos(tick_ns);
        let shards = usize::from(reader.byte()?) % 4 + 1;
        let bits = u32::from(reader.byte()?) % 9;
        let most_levels = TICK_BITS.checked_div(bits).map_or(1, |most| most.min(8));
        let levels = 1 + (u32::from(reader.byte()?) % most_levels) as usize;
        let limits = [100_000, 1, 2, 3, 7, 50];
        let (transfer_limit, expiry_limit) = (reader.choose(&limits)?, reader.choose(&limits)?);
        let max_pending = match reader.byte()? {
            most @ 0..64 => Some(usize::from(most) % 32 + 1),
            _ => None,
        };
        let capacity = usize::from(reader.byte()?) / 16;
        let end = reader.end()?;
        let mut steps = Vec::new();
        while !reader.bytes.is_empty() && steps.len() < MOST_STEPS {
            steps.push(reader.step()?);
        }
        let is_unlimited = transfer_limit.min(expiry_limit) > 10_000;
        let options = Options { tick: reader.tick, max_pending, is_unlimited };
        Ok(Self { shards, bits, levels, transfer_limit, expiry_limit, capacity, options, steps, end })
    }
}

fuzz_target!(|program: Program| {
    let builder = Timer::builder().shards(program.shards).ticks_per_wheel(1 << program.bits).levels(program.levels);
    let builder = builder.transfer_limit(program.transfer_limit).expiry_limit(program.expiry_limit);
    let mut pair = Pair::new(builder.capacity(program.capacity), program.options);
    for step in program.steps {
        pair.step(step);
        pair.check();
    }
    pair.end(program.end);
});
