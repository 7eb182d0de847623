//! An interval as a stream: collects lines, and flushes them at every tick, or when there are
//! enough.
//!
//! ```toml
//! [dependencies]
//! futures-util = "0.3.31"
//! pollster = "0.4"
//! tourbillon = { path = "../tourbillon", features = ["stream"] }
//! ```

use std::time::Duration;

use futures_util::{StreamExt, stream};
use tourbillon::{MissedTicks, Timer};

enum Event {
    Line(u32),
    Flush,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    pollster::block_on(async {
        let timer = Timer::new()?;
        let mut flushes = timer.interval(Duration::from_millis(25));
        // A late flush puts off the next one. It does not make up for the ticks it missed.
        flushes.set_missed_ticks(MissedTicks::Delay);

        // A line every 4 ms, 20 of them.
        let lines = timer.interval(Duration::from_millis(4)).take(20).enumerate();
        let lines = lines.map(|(number, _due)| Some(Event::Line(u32::try_from(number).unwrap_or(u32::MAX))));
        // Ends with the lines: the flushes alone would never end.
        let lines = lines.chain(stream::once(async { None }));
        let flushes = flushes.map(|_due| Some(Event::Flush));
        let events = stream::select(lines, flushes).take_while(|event| std::future::ready(event.is_some()));

        let (mut waiting, mut flushed) = (Vec::new(), 0);
        let mut events = std::pin::pin!(events);
        while let Some(Some(event)) = events.next().await {
            match event {
                Event::Line(number) => waiting.push(number),
                Event::Flush if waiting.is_empty() => {}
                Event::Flush => {
                    flushed += waiting.len();
                    println!("flushed {:?}", std::mem::take(&mut waiting));
                }
            }
        }
        println!("and at the end {waiting:?}");
        assert_eq!(flushed + waiting.len(), 20);
        Ok(())
    })
}
