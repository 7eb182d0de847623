//! Finds the file that defines what a path names.

use std::collections::HashSet;

use crate::found::Import;
use crate::tree::{FileId, House, ModuleId, ROOT, What};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Module(ModuleId),
    /// An item that is defined in this file, or that this file takes from another crate.
    File(FileId),
}

pub(crate) struct Lookup<'a> {
    house: &'a House,
    /// The imports that the search follows, each by module, index and name, so that a path that
    /// leads back to one ends there.
    followed: HashSet<(ModuleId, usize, String)>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(house: &'a House) -> Self {
        Self { house, followed: HashSet::new() }
    }

    /// Returns what a path in the code of `here` leads to, or nothing if it leads out of the crate.
    pub(crate) fn in_code(&mut self, here: ModuleId, path: &[String]) -> Vec<Target> {
        self.path(here, path, true)
    }

    /// Returns what an import of `here` leads to.
    pub(crate) fn imported(&mut self, here: ModuleId, import: &Import) -> Vec<Target> {
        self.path(here, &import.path, import.inner)
    }

    fn path(&mut self, here: ModuleId, path: &[String], in_code: bool) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else {
            return Vec::new();
        };
        let mut targets = match first.as_str() {
            "::" | "Self" => Vec::new(),
            "crate" => vec![Target::Module(ROOT)],
            "self" => vec![Target::Module(here)],
            "super" => self.parent(here),
            name => {
                let mut targets = self.name(here, name, here);
                if in_code {
                    targets.extend(self.inner_name(here, name));
                }
                targets
            }
        };
        for segment in rest {
            let modules: Vec<_> = targets.iter().filter_map(Target::module).collect();
            if modules.is_empty() {
                break;
            }
            targets.clear();
            for module in &modules {
                targets.extend(match segment.as_str() {
                    "super" => self.parent(*module),
                    name => self.name(*module, name, here),
                });
            }
            if targets.is_empty() {
                // A name that a macro makes, or a glob brings from another crate, counts as the
                // module's own.
                targets.extend(modules.iter().map(|&module| Target::File(self.house.modules[module].file)));
            }
        }
        targets
    }

    /// Returns what `name` is in `module`, seen from `here`.
    pub(crate) fn name(&mut self, module: ModuleId, name: &str, here: ModuleId) -> Vec<Target> {
        let house = self.house;
        let this = &house.modules[module];
        let mut targets = Vec::new();
        for entry in this.names.get(name).into_iter().flatten() {
            if !self.is_within(here, entry.seen_in) {
                continue;
            }
            match entry.what {
                What::Module(child) => targets.push(Target::Module(child)),
                What::Item => targets.push(Target::File(this.file)),
                What::Import(index) => targets.extend(self.through(module, index, name)),
            }
        }
        if targets.is_empty() {
            for (index, import) in this.found.imports.iter().enumerate() {
                if import.is_glob() && !import.inner && self.is_within(here, house.seen_in(module, import.reach)) {
                    targets.extend(self.through_glob(module, index, name));
                }
            }
        }
        targets
    }

    /// What the imports in the functions of `module` make of `name`.
    fn inner_name(&mut self, module: ModuleId, name: &str) -> Vec<Target> {
        let house = self.house;
        let mut targets = Vec::new();
        for (index, import) in house.modules[module].found.imports.iter().enumerate() {
            if import.inner && import.is_glob() {
                targets.extend(self.through_glob(module, index, name));
            } else if import.inner && import.name == name {
                targets.extend(self.through(module, index, name));
            }
        }
        targets
    }

    fn through(&mut self, module: ModuleId, index: usize, name: &str) -> Vec<Target> {
        let key = (module, index, name.to_owned());
        if !self.followed.insert(key.clone()) {
            return Vec::new();
        }
        let mut targets = self.path(module, &self.house.modules[module].found.imports[index].path, false);
        self.followed.remove(&key);
        if targets.is_empty() {
            // It comes from another crate: code that names it here names this file's re-export.
            targets.push(Target::File(self.house.modules[module].file));
        }
        targets
    }

    /// What the glob `index` of `module` makes of `name`.
    pub(crate) fn through_glob(&mut self, module: ModuleId, index: usize, name: &str) -> Vec<Target> {
        let key = (module, index, name.to_owned());
        if !self.followed.insert(key.clone()) {
            return Vec::new();
        }
        let mut targets = Vec::new();
        for target in self.path(module, &self.house.modules[module].found.imports[index].path, false) {
            if let Target::Module(from) = target {
                targets.extend(self.name(from, name, module));
            }
        }
        self.followed.remove(&key);
        targets
    }

    fn parent(&self, module: ModuleId) -> Vec<Target> {
        self.house.modules[module].parent.map(Target::Module).into_iter().collect()
    }

    fn is_within(&self, module: ModuleId, ancestor: ModuleId) -> bool {
        std::iter::successors(Some(module), |&module| self.house.modules[module].parent)
            .any(|module| module == ancestor)
    }
}

impl Target {
    fn module(&self) -> Option<ModuleId> {
        match self {
            Self::Module(module) => Some(*module),
            Self::File(_) => None,
        }
    }
}
