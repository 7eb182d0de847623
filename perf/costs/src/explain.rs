//! Where the instructions of one operation come from.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::costs::{lane, shared, usual};
use super::operation::Operation;
use super::stepper::trace;
use super::subject::{self, How};

/// A place in the source, and the functions that it was inlined into, innermost first.
#[derive(Clone, Debug, Default, PartialEq)]
struct Place {
    frames: Vec<(String, String)>,
}

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

impl Place {
    /// The innermost line of the engine itself.
    fn briefly(&self) -> String {
        let of_engine = self.frames.iter().find(|(_, line)| line.starts_with("src/"));
        let frame = of_engine.or(self.frames.first());
        frame.map_or_else(String::new, |(function, line)| format!("{function} {line}"))
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

/// Asks addr2line, of the binutils.
fn places(offsets: &[u64]) -> Result<Vec<Place>> {
    let program = env::current_exe().context("where is this program?")?;
    let mut command = Command::new("addr2line");
    command.args(["--addresses", "--functions", "--inlines", "--demangle", "--exe"]).arg(program);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run addr2line, which is a part of the binutils")?;
    let mut input = child.stdin.take().context("a pipe to addr2line")?;
    let questions: String = offsets.iter().map(|offset| format!("{offset:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(questions.as_bytes()));
    let output = child.wait_with_output().context("cannot read from addr2line")?;
    ensure!(output.status.success(), "addr2line failed");
    writer.join().ok().context("cannot write to addr2line")?.context("cannot write to addr2line")?;
    let places = parse(&String::from_utf8_lossy(&output.stdout));
    ensure!(places.len() == offsets.len(), "{} answers of addr2line to {} questions", places.len(), offsets.len());
    Ok(places)
}

/// For each address a line with it, and then, for each frame, a line with the function and one with
/// the place.
fn parse(output: &str) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            places.push(Place::default());
        } else if let (Some(place), Some(at)) = (places.last_mut(), lines.next()) {
            place.frames.push((line.to_owned(), shortened(at).to_owned()));
        }
    }
    places
}

/// Without the folders that are different on each machine.
fn shortened(at: &str) -> &str {
    let at = at.split(" (discriminator").next().unwrap_or(at);
    if let Some((_, of_crate)) = at.split_once("/registry/src/") {
        return of_crate.split_once('/').map_or(of_crate, |(_, path)| path);
    }
    let known = ["/library/", "/perf/", "/src/"].iter().filter_map(|folder| at.find(folder)).min();
    known.map_or(at, |from| &at[from + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, line: &str) -> (String, String) {
        (function.to_owned(), line.to_owned())
    }

    #[test]
    fn places_are_the_same_on_each_machine() {
        assert_eq!(shortened("/x/registry/src/host-123/queue-0.3/src/a.rs:1"), "queue-0.3/src/a.rs:1");
        assert_eq!(shortened("/rustc/123/library/core/src/a.rs:1"), "library/core/src/a.rs:1");
        assert_eq!(shortened("/x/perf/costs/src/a.rs:1"), "perf/costs/src/a.rs:1");
    }

    #[test]
    fn what_is_in_no_known_function_was_called_by_the_last_known_one() {
        let places = [("a", "a.rs:1"), ("??", "??:0")].map(|(function, line)| frame(function, line));
        let places = places.map(|frame| Place { frames: vec![frame] });
        assert_eq!(known(&[5, 9], &places)[&9], &places[0]);
    }

    #[test]
    fn the_answers_of_addr2line_are_understood() {
        let answers = "0x0000000000001000\ninner\n/home/x/src/a.rs:3 (discriminator 2)\nouter\n/home/x/src/b.rs:9\n\
                       0x0000000000002000\n??\n??:0\n";
        assert_eq!(
            parse(answers),
            [
                Place { frames: vec![frame("inner", "src/a.rs:3"), frame("outer", "src/b.rs:9")] },
                Place { frames: vec![frame("??", "??:0")] },
            ]
        );
    }
}
