//! Where an instruction comes from: its line of the source, with all that it was inlined into.

use std::env;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A place in the source, and the functions that it was inlined into, innermost first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Place {
    pub(crate) frames: Vec<(String, String)>,
}

impl Place {
    /// Whether the code, or what it was inlined into, stands in this file or folder.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        self.frames.iter().any(|(_, line)| line.starts_with(folder))
    }

    /// The innermost line of the engine itself.
    pub(crate) fn briefly(&self) -> String {
        let of_engine = self.frames.iter().find(|(_, line)| line.starts_with("src/"));
        let frame = of_engine.or(self.frames.first());
        frame.map_or_else(String::new, |(function, line)| format!("{function} {line}"))
    }
}

/// Asks addr2line, of the binutils.
pub(crate) fn places(offsets: &[u64]) -> Result<Vec<Place>> {
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn frame(function: &str, line: &str) -> (String, String) {
        (function.to_owned(), line.to_owned())
    }

    #[test]
    fn places_are_the_same_on_each_machine() {
        assert_eq!(shortened("/x/registry/src/host-123/queue-0.3/src/a.rs:1"), "queue-0.3/src/a.rs:1");
        assert_eq!(shortened("/rustc/123/library/core/src/a.rs:1"), "library/core/src/a.rs:1");
        assert_eq!(shortened("/x/perf/costs/src/a.rs:1"), "perf/costs/src/a.rs:1");
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
