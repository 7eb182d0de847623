//! The arrows among the files of a crate: from each file to those whose items it names.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::found::{Import, Reach};
use crate::lookup::{Lookup, Target};
use crate::tree::{FileId, House, ModuleId};

/// One file names something in another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrow {
    pub(crate) from: FileId,
    pub(crate) to: FileId,
    /// The first line that does.
    pub(crate) line: usize,
    /// The path as it is written there.
    pub(crate) path: String,
}

/// All arrows, one for each pair of files, in the order of the pairs.
pub(crate) fn arrows(house: &House) -> Vec<Arrow> {
    let mut macros: HashMap<&str, HashSet<FileId>> = HashMap::new();
    for module in &house.modules {
        for name in &module.macros {
            macros.entry(name).or_default().insert(module.file);
        }
    }
    let mut finder = Finder { house, lookup: Lookup::new(house), macros, arrows: BTreeMap::new() };
    for module in 0..house.modules.len() {
        finder.imports(module);
        finder.mentions(module);
    }
    finder.arrows.into_iter().map(|((from, to), (line, path))| Arrow { from, to, line, path }).collect()
}

struct Finder<'a> {
    house: &'a House,
    lookup: Lookup<'a>,
    /// The files that define a `macro_rules` of a name. Code below one calls it without an import.
    macros: HashMap<&'a str, HashSet<FileId>>,
    arrows: BTreeMap<(FileId, FileId), (usize, String)>,
}

impl Finder<'_> {
    fn add(&mut self, here: ModuleId, to: FileId, line: usize, path: &[String]) {
        let from = self.house.modules[here].file;
        let said = (line, path.join("::"));
        if from != to {
            let first = self.arrows.entry((from, to)).or_insert_with(|| said.clone());
            *first = said.min(first.clone());
        }
    }

    /// A re-export counts only if code uses it, and then by what [`Finder::mentions`] finds.
    fn imports(&mut self, here: ModuleId) {
        let house = self.house;
        for (index, import) in house.modules[here].found.imports.iter().enumerate() {
            if import.reach != Reach::Private {
                continue;
            }
            for target in self.lookup.imported(here, import) {
                match target {
                    Target::File(file) => self.add(here, file, import.line, &import.path),
                    // Only its name: the paths that begin with it say which files are meant.
                    Target::Module(module) => {
                        if !self.is_used(here, index, import) {
                            self.add(here, house.modules[module].file, import.line, &import.path);
                        }
                    }
                }
            }
        }
    }

    /// Whether a path in the code goes through this import of a module.
    fn is_used(&mut self, here: ModuleId, index: usize, import: &Import) -> bool {
        let module = &self.house.modules[here];
        let is_glob = import.is_glob();
        module.found.mentions.iter().any(|mention| match &mention.path[..] {
            [name, ..] if is_glob => {
                !module.names.contains_key(name) && !self.lookup.through_glob(here, index, name).is_empty()
            }
            [name, _, ..] => *name == import.name,
            _ => false,
        })
    }

    fn mentions(&mut self, here: ModuleId) {
        let house = self.house;
        for mention in &house.modules[here].found.mentions {
            let targets = self.lookup.in_code(here, &mention.path);
            for target in &targets {
                if let Target::File(file) = target {
                    self.add(here, *file, mention.line, &mention.path);
                }
            }
            if let [name] = &mention.path[..]
                && mention.calls
                && targets.is_empty()
            {
                for file in self.macros.get(name.as_str()).cloned().unwrap_or_default() {
                    self.add(here, file, mention.line, &mention.path);
                }
            }
        }
    }
}
