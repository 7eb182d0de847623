//! `house`: finds circles among the files of a crate, and among its rooms.
//!
//! It reads the crate from its root, `lib.rs` or `main.rs`, and passes over what only tests and
//! models compile (`cfg(test)`, `cfg(loom)`). A file has an arrow to another file if it names an
//! item that the other defines: in a `use`, in a path in its code, in a macro's tokens, or in an
//! attribute. The arrow goes to the file that defines the item, through all re-exports. An item of
//! another crate counts as defined in the file that re-exports it.
//!
//! These are no arrows: a re-export that the file does not use itself, a `mod`, a visibility, a doc
//! comment. Nor is the call of a method, because only the compiler knows whose method it is.
//!
//! A room is a folder, or a single file, in the folder of the root; `sync.rs` and `sync/` are one.

mod arrows;
mod circles;
mod conditions;
mod found;
mod lookup;
mod reading;
#[cfg(test)]
mod tests;
mod tokens;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use circles::Graph;
use tree::House;

const HELP: &str = "\
Finds circles among the files of a crate, and among its rooms.

usage: house [--layers | --files] ROOT

ROOT is the crate's lib.rs or main.rs. A file has an arrow to another if it names an item that the
other defines, in a `use` or in its code; re-exports are followed to the definition, and are no
arrows themselves. Code under cfg(test) or cfg(loom) does not count. A room is a folder, or a
single file, in the folder of ROOT.

  --layers   print the rooms, each after those that it names, with these
  --files    print every arrow between two files, with the first line that makes it

Without an option it prints the circles, each with a line for every arrow.
Exit status: 0 when there is no circle, 1 when there is one, 2 when the crate can't be read.
With --files it is 0 in any case; --layers prints the circles among rooms, too.";

enum Job {
    Circles,
    Layers,
    Files,
}

fn main() -> ExitCode {
    let mut job = Job::Circles;
    let mut roots = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--help" | "-h" => {
                println!("{HELP}");
                return ExitCode::SUCCESS;
            }
            "--layers" => job = Job::Layers,
            "--files" => job = Job::Files,
            option if option.starts_with('-') => return refuse(&format!("unknown option {option}; see --help")),
            _ => roots.push(argument),
        }
    }
    let [root] = &roots[..] else {
        return refuse("one ROOT is needed; see --help");
    };
    match run(&job, Path::new(root)) {
        Ok((text, has_circles)) => {
            print!("{text}");
            ExitCode::from(u8::from(has_circles))
        }
        Err(error) => refuse(&error),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("house: {why}");
    ExitCode::from(2)
}

/// Returns the text to print, and whether it shows circles.
fn run(job: &Job, root: &Path) -> Result<(String, bool), String> {
    let folder = root.parent().unwrap_or(Path::new(""));
    let name = root.file_name().ok_or("ROOT has to be a file")?.to_string_lossy();
    let house = House::read(&name, &|file| std::fs::read_to_string(folder.join(file)).ok())?;
    let prefix = if folder == Path::new("") { String::new() } else { format!("{}/", folder.display()) };
    let arrows = arrows::arrows(&house);
    let files = Graph::of_files(&house, &arrows, &prefix);
    let rooms = Graph::of_rooms(&house, &arrows, &prefix);
    let (text, circles) = match job {
        Job::Files => (files.arrows(), String::new()),
        Job::Layers => (rooms.layers(), rooms.circles("rooms")),
        Job::Circles => (String::new(), files.circles("files") + &rooms.circles("rooms")),
    };
    let has_circles = !circles.is_empty();
    Ok((text + &circles, has_circles))
}
