//! Applies a mutant of `loom-tests/mutants` to a copy of the repository: `mutate NAME ROOT`. Prints
//! the model that has to fail then.
//!
//! A mutant says which text of which function it replaces. Line numbers, white space and comments
//! do not count, so a mutant outlives a move of the function. The text has to be there exactly
//! once, so a mutant can't hit anything else.
//!
//! ```text
//! caught by: inbox::two_producers_neither_lose_nor_duplicate_an_entry
//! an entry that is pushed between the two is lost
//!
//! in src/shard/queue.rs, fn take, replace
//!     let head = self.head.swap(ptr::null_mut(), Ordering::AcqRel);
//! with
//!     let head = self.head.load(Ordering::Acquire);
//!     self.head.store(ptr::null_mut(), Ordering::Release);
//! ```
//!
//! Without `, fn NAME` the program looks for the text in the whole file. It applies several such
//! blocks one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

/// The error says what is wrong with a mutant.
type Outcome<T> = Result<T, String>;

struct Mutant {
    /// The path of the model below `models`.
    caught_by: String,
    edits: Vec<Edit>,
}

#[derive(Default)]
struct Edit {
    file: String,
    function: Option<String>,
    old: String,
    new: String,
}

impl Mutant {
    fn read(root: &Path, name: &str) -> Outcome<Self> {
        let path = root.join("loom-tests/mutants").join(name).with_extension("mutant");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|why| format!("{name}: {why}"))
    }

    fn parse(text: &str) -> Outcome<Self> {
        let mut lines = text.lines();
        let caught_by = lines.next().and_then(|line| line.strip_prefix("caught by: "));
        let caught_by = caught_by.ok_or("the first line has to be `caught by: MODEL`")?.to_owned();
        lines.next().filter(|line| !line.is_empty()).ok_or("the second line has to say what goes wrong")?;
        let mut edits: Vec<Edit> = Vec::new();
        let mut is_new = false;
        for line in lines {
            if let Some(place) = line.strip_prefix("in ").and_then(|line| line.strip_suffix(", replace")) {
                let (file, function) = match place.split_once(", fn ") {
                    Some((file, function)) => (file, Some(function.to_owned())),
                    None => (place, None),
                };
                edits.push(Edit { file: file.to_owned(), function, ..Edit::default() });
                is_new = false;
            } else if line == "with" {
                is_new = true;
            } else if let Some(edit) = edits.last_mut() {
                let part = if is_new { &mut edit.new } else { &mut edit.old };
                *part += line;
                *part += "\n";
            } else if !line.is_empty() {
                return Err(format!("`{line}` stands outside of a block"));
            }
        }
        if edits.is_empty() { Err("it changes nothing".to_owned()) } else { Ok(Self { caught_by, edits }) }
    }

    /// Returns the text of each file that the mutant changes, with the change.
    fn apply(&self, root: &Path) -> Outcome<BTreeMap<String, String>> {
        let mut files = BTreeMap::new();
        for edit in &self.edits {
            if !files.contains_key(&edit.file) {
                let text =
                    fs::read_to_string(root.join(&edit.file)).map_err(|error| format!("{}: {error}", edit.file))?;
                files.insert(edit.file.clone(), text);
            }
            if let Some(text) = files.get_mut(&edit.file) {
                *text = edit.apply(text)?;
            }
        }
        Ok(files)
    }
}

impl Edit {
    fn apply(&self, text: &str) -> Outcome<String> {
        let wanted = Code::of(&self.old).text;
        let whole = || std::iter::once(0..text.len()).collect();
        let scopes: Vec<_> = self.function.as_ref().map_or_else(whole, |function| functions(text, function));
        let found: Vec<_> = scopes.into_iter().flat_map(|scope| find(text, scope, &wanted)).collect();
        let [range] = &*found else {
            let place = self.function.as_ref().map_or(String::new(), |function| format!(", fn {function}"));
            return Err(format!("in {}{place}: this is there {} times:\n{}", self.file, found.len(), self.old));
        };
        Ok([&text[..range.start], &self.new, &text[range.end..]].concat())
    }
}

/// Code without white space and comments, and the position of each of its bytes in the text.
struct Code {
    text: String,
    places: Vec<usize>,
}

impl Code {
    fn of(text: &str) -> Self {
        let mut this = Self { text: String::new(), places: Vec::new() };
        let mut begin = 0;
        for line in text.split_inclusive('\n') {
            let code = line.split("//").next().unwrap_or(line);
            for (at, letter) in code.char_indices().filter(|(_, letter)| !letter.is_whitespace()) {
                this.text.push(letter);
                this.places.extend(std::iter::repeat_n(begin + at, letter.len_utf8()));
            }
            begin += line.len();
        }
        this
    }
}

/// Finds the code in a part of the text.
fn find(text: &str, scope: Range<usize>, wanted: &str) -> Vec<Range<usize>> {
    let code = Code::of(&text[scope.clone()]);
    let at = |index: usize| scope.start + code.places[index];
    let matches = code.text.match_indices(wanted).filter(|_| !wanted.is_empty());
    matches.map(|(index, found)| at(index)..at(index + found.len() - 1) + 1).collect()
}

/// Returns the functions of this name. Each ranges from its first line to its closing brace, which
/// has the same indentation.
fn functions(text: &str, name: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let is_head = line.split("//").next().and_then(|code| code.split_once("fn ")).is_some_and(|(before, after)| {
            let rest = after.strip_prefix(name).and_then(|rest| rest.chars().next());
            before.chars().all(|letter| letter.is_ascii_alphanumeric() || " ()_:\"".contains(letter))
                && matches!(rest, Some('(' | '<'))
        });
        if is_head {
            let indent = &line[..line.len() - line.trim_start().len()];
            let rest = &text[begin..];
            let is_whole = line.trim_end().ends_with('}');
            let end = if is_whole {
                Some(line.len())
            } else {
                rest.find(&format!("\n{indent}}}\n")).map(|at| at + indent.len() + 3)
            };
            found.push(begin..begin + end.unwrap_or(rest.len()));
        }
        begin += line.len();
    }
    found
}

fn run(name: &str, root: &Path) -> Outcome<String> {
    let mutant = Mutant::read(root, name)?;
    for (file, text) in mutant.apply(root).map_err(|why| format!("{name} does not apply {why}"))? {
        fs::write(root.join(&file), text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(mutant.caught_by)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, root] = &*arguments else {
        eprintln!("usage: mutate NAME ROOT (the name of a file of ROOT/loom-tests/mutants, without its ending)");
        return ExitCode::from(2);
    };
    match run(name, Path::new(root)) {
        Ok(model) => {
            println!("{model}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
    }

    #[test]
    fn every_mutant_applies_and_names_a_model_that_is_there() {
        let mut wrong = Vec::new();
        let mut mutants = 0;
        for file in fs::read_dir(root().join("loom-tests/mutants")).expect("the mutants") {
            let path = file.expect("a mutant").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            mutants += 1;
            let mutant = match Mutant::read(root(), name) {
                Ok(mutant) => mutant,
                Err(why) => {
                    wrong.push(why);
                    continue;
                }
            };
            match mutant.apply(root()) {
                Ok(files)
                    if files
                        .iter()
                        .any(|(file, text)| !fs::read_to_string(root().join(file)).is_ok_and(|now| now == *text)) => {}
                Ok(_) => wrong.push(format!("{name} changes nothing")),
                Err(why) => wrong.push(format!("{name}: {why}")),
            }
            let (file, model) = mutant.caught_by.split_once("::").unwrap_or_default();
            let models =
                fs::read_to_string(root().join(format!("loom-tests/src/models/{file}.rs"))).unwrap_or_default();
            if functions(&models, model).is_empty() {
                wrong.push(format!("{name}: there is no model {}", mutant.caught_by));
            }
        }
        assert!(mutants > 100 && wrong.is_empty(), "{} of {mutants}:\n{}", wrong.len(), wrong.join("\n"));
    }

    const TEXT: &str = "
impl A {
    /// fn drop() { here }
    pub(crate) unsafe fn go(&self) {
        // here, too
        self.look(
            1,
        );
        here();
    }

    fn short(&self) -> u8 { here() }
}
";

    fn replace(function: Option<&str>, old: &str) -> Outcome<String> {
        let function = function.map(str::to_owned);
        Edit { file: "a.rs".to_owned(), function, old: old.to_owned(), new: "there();\\n".to_owned() }.apply(TEXT)
    }

    #[test]
    fn text_is_found_whatever_its_lines_and_comments() {
        let replaced = replace(Some("go"), "self.look(1,); // and so on").expect("it is there once");
        assert!(
            replaced.contains("there();") && !replaced.contains("look") && replaced.contains("// here, too"),
            "{replaced}"
        );
        assert!(replace(Some("short"), "here()").is_ok_and(|text| text.contains("u8 { there();")));
    }

    #[test]
    fn text_that_is_not_there_once_is_refused() {
        for (function, old, times) in [(None, "here()", 2), (Some("go"), "nowhere()", 0), (Some("gone"), "here()", 0)] {
            let why = replace(function, old).expect_err("refused");
            assert!(why.contains(&format!("{times} times")), "{why}");
        }
    }
}
