//! Where the instructions of one operation come from.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use super::costs::{lane, shared, usual};
use super::operation::Operation;
use super::places::{Place, places};
use super::stepper::trace;
use super::subject::{self, How};

/// Prints what the usual operation does, by function, and each of its read-modify-writes by its
/// line.
pub(crate) fn print(operation: Operation) -> Result<()> {
    let trace = trace(&mut subject::command(operation, How::Step, 2)?)?;
    let sections = lane(&trace, 0);
    let usual = usual(&sections).context("nothing was measured")?;
    let offsets: Vec<u64> = usual.path.iter().map(|address| address.wrapping_sub(trace.base)).collect();
    let places = places(&offsets)?;
    println!(
        "{}: {} instructions for {} operations, {} read-modify-writes, {} lines written outside of the stack",
        operation.name(),
        usual.path.len(),
        usual.operations,
        usual.read_modify_writes.len(),
        usual.written.len()
    );
    let known = known(&usual.path, &places);
    println!("\nread-modify-writes, each with what it was inlined into:");
    by_frames(usual.read_modify_writes.iter().filter_map(|address| known.get(address)));
    if !usual.call_sites.is_empty() {
        println!("\nsystem calls:");
        by_frames(usual.call_sites.iter().filter_map(|address| known.get(address)));
    }
    if usual.operations == 1 {
        let shared = shared(&trace)?;
        for (line, by) in &usual.written {
            let with = if shared.contains(line) { ", SHARED with a producer of another shard" } else { "" };
            println!("\na cache line{with}, written by:");
            by.iter().filter_map(|address| known.get(address)).for_each(|place| println!("       {}", place.briefly()));
        }
    }
    println!("\ninstructions by function of the binary:");
    by_count(places.iter().map(|place| place.frames.last().into_iter()));
    println!(
        "\ninstructions by function of the engine's source, with what it has inlined (so most count more than once):"
    );
    let of_engine = |frame: &&(String, String)| frame.1.starts_with("src/") && frame.0.contains("tourbillon");
    by_count(places.iter().map(|place| place.frames.iter().filter(of_engine)));
    Ok(())
}

/// The place of each instruction; of one in the C library that of the last one before it that is in
/// the program.
fn known<'a>(path: &[u64], places: &'a [Place]) -> BTreeMap<u64, &'a Place> {
    let mut known = BTreeMap::new();
    let mut last = None;
    for (&address, place) in path.iter().zip(places) {
        if place.frames.iter().any(|(function, _)| function != "??") {
            last = Some(place);
        }
        known.entry(address).or_insert(last.unwrap_or(place));
    }
    known
}

/// Prints the places with all their frames, and how often each is there.
fn by_frames<'a>(places: impl Iterator<Item = &'a &'a Place>) {
    let mut seen = BTreeMap::<Vec<String>, usize>::new();
    for place in places {
        let frames = place.frames.iter().map(|(function, line)| format!("{function} {line}")).collect();
        *seen.entry(frames).or_default() += 1;
    }
    for (frames, times) in seen {
        println!("{times:5}  {}", frames.join("\n         in "));
    }
}

/// Prints the functions, and in how many of the places each of them is; not those with less than a
/// hundredth.
fn by_count<'a>(places: impl Iterator<Item = impl Iterator<Item = &'a (String, String)>>) {
    let (mut counts, mut total) = (BTreeMap::<String, usize>::new(), 0);
    for frames in places {
        total += 1;
        let names: BTreeSet<String> = frames.map(|(function, line)| format!("{function} ({})", file(line))).collect();
        names.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
    }
    let mut counts: Vec<_> = counts.into_iter().filter(|(_, count)| count * 100 >= total).collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), name.clone()));
    for (name, count) in counts {
        println!("{count:7}  {name}");
    }
}

fn file(line: &str) -> &str {
    line.rsplit_once(':').map_or(line, |(file, _)| file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::tests::frame;

    #[test]
    fn what_is_in_no_known_function_was_called_by_the_last_known_one() {
        let places = [("a", "a.rs:1"), ("??", "??:0")].map(|(function, line)| frame(function, line));
        let places = places.map(|frame| Place { frames: vec![frame] });
        assert_eq!(known(&[5, 9], &places)[&9], &places[0]);
    }
}
