//! The modules of a crate, read from its root on.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use syn::{Attribute, Expr, ForeignItem, Item, ItemMod, Lit, Meta};

use crate::conditions::{left_out, of_item};
use crate::found::{Found, Reach};
use crate::reading::{reach, read, read_use};
use crate::tokens::text;

/// An index into [`House::files`].
pub(crate) type FileId = usize;
/// An index into [`House::modules`]; the root is the first.
pub(crate) type ModuleId = usize;

pub(crate) const ROOT: ModuleId = 0;

/// A crate.
#[derive(Debug, Default)]
pub(crate) struct House {
    /// Relative to the folder of the root, with `/`.
    pub(crate) files: Vec<String>,
    pub(crate) modules: Vec<Module>,
}

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) file: FileId,
    pub(crate) parent: Option<ModuleId>,
    /// The names that are declared here. One name may be a type, a value and a macro at once.
    pub(crate) names: HashMap<String, Vec<Name>>,
    /// The names of its `macro_rules`.
    pub(crate) macros: Vec<String>,
    pub(crate) found: Found,
}

#[derive(Debug)]
pub(crate) struct Name {
    /// The name is seen in this module and in those below it.
    pub(crate) seen_in: ModuleId,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Module(ModuleId),
    Item,
    /// An index into the module's imports.
    Import(usize),
}

/// Where the text of a file comes from; `None` if there is no such file.
pub(crate) type Source<'a> = &'a dyn Fn(&Path) -> Option<String>;

impl House {
    /// Reads the crate whose root is called `root` in its folder.
    pub(crate) fn read(root: &str, source: Source<'_>) -> Result<Self, String> {
        let mut builder = Builder { house: Self::default(), source };
        let (file, parsed) = builder.parse(Path::new(root))?.ok_or_else(|| format!("there is no {root}"))?;
        builder.module(None, file, &parsed.items, &Place { folder: PathBuf::new(), below: PathBuf::new() })?;
        Ok(builder.house)
    }

    /// The module in which, and below which, a name of module `id` is seen.
    pub(crate) fn seen_in(&self, id: ModuleId, reach: Reach) -> ModuleId {
        match reach {
            Reach::Private => id,
            Reach::Parent => self.modules[id].parent.unwrap_or(ROOT),
            Reach::Crate => ROOT,
        }
    }
}

/// Where the files of a module's children are.
struct Place {
    /// The folder of the file, from which a `#[path]` counts.
    folder: PathBuf,
    /// The folder of the children that have no `#[path]`.
    below: PathBuf,
}

struct Builder<'a> {
    house: House,
    source: Source<'a>,
}

impl Builder<'_> {
    /// Returns `None` if there is no such file. A file that is left out as a whole has no items.
    fn parse(&mut self, path: &Path) -> Result<Option<(FileId, syn::File)>, String> {
        let Some(code) = (self.source)(path) else {
            return Ok(None);
        };
        let label = path.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/");
        let mut parsed =
            syn::parse_file(&code).map_err(|error| format!("{label}:{}: {error}", error.span().start().line))?;
        if left_out(&parsed.attrs) {
            parsed.items.clear();
        }
        let files = &mut self.house.files;
        let file = files.iter().position(|known| *known == label).unwrap_or_else(|| {
            files.push(label);
            files.len() - 1
        });
        Ok(Some((file, parsed)))
    }

    fn module(
        &mut self,
        parent: Option<ModuleId>,
        file: FileId,
        items: &[Item],
        place: &Place,
    ) -> Result<ModuleId, String> {
        let id = self.house.modules.len();
        let empty = Module { file, parent, names: HashMap::new(), macros: Vec::new(), found: Found::default() };
        self.house.modules.push(empty);
        for item in items.iter().filter(|item| !left_out(of_item(item))) {
            self.item(id, item, place)?;
        }
        Ok(id)
    }

    fn item(&mut self, id: ModuleId, item: &Item, place: &Place) -> Result<(), String> {
        let module = &mut self.house.modules[id];
        match item {
            Item::Mod(child) => return self.child(id, child, place),
            Item::Use(import) => {
                let first = module.found.imports.len();
                read_use(import, false, &mut module.found);
                for index in first..module.found.imports.len() {
                    let import = &self.house.modules[id].found.imports[index];
                    if !import.is_glob() {
                        self.declare(id, import.name.clone(), import.reach, What::Import(index));
                    }
                }
                return Ok(());
            }
            Item::ForeignMod(block) => {
                for foreign in &block.items {
                    let (visibility, name) = match foreign {
                        ForeignItem::Fn(function) => (&function.vis, &function.sig.ident),
                        ForeignItem::Static(variable) => (&variable.vis, &variable.ident),
                        ForeignItem::Type(kind) => (&kind.vis, &kind.ident),
                        _ => continue,
                    };
                    self.declare(id, text(name), reach(visibility), What::Item);
                }
            }
            Item::Macro(rules) => {
                if let Some(name) = &rules.ident {
                    module.macros.push(text(name));
                    self.declare(id, text(name), Reach::Crate, What::Item);
                }
            }
            _ => {
                if let Some((visibility, name)) = declared(item) {
                    self.declare(id, text(name), reach(visibility), What::Item);
                }
            }
        }
        read(item, &mut self.house.modules[id].found);
        Ok(())
    }

    fn declare(&mut self, id: ModuleId, name: String, reach: Reach, what: What) {
        let seen_in = self.house.seen_in(id, reach);
        self.house.modules[id].names.entry(name).or_default().push(Name { seen_in, what });
    }

    fn child(&mut self, id: ModuleId, child: &ItemMod, place: &Place) -> Result<(), String> {
        let name = text(&child.ident);
        let made = if let Some((_, items)) = &child.content {
            let below =
                path_attribute(&child.attrs).map_or_else(|| place.below.join(&name), |path| place.folder.join(path));
            let file = self.house.modules[id].file;
            // A `#[path]` in an inline module counts from that module's folder.
            self.module(Some(id), file, items, &Place { folder: below.clone(), below })?
        } else {
            let candidates = match path_attribute(&child.attrs) {
                Some(path) => vec![(place.folder.join(path), true)],
                None => vec![
                    (place.below.join(format!("{name}.rs")), false),
                    (place.below.join(&name).join("mod.rs"), true),
                ],
            };
            let mut found = None;
            for (path, owns_folder) in candidates {
                let path = normal(&path);
                if let Some(parsed) = self.parse(&path)? {
                    found = Some((path, owns_folder, parsed));
                    break;
                }
            }
            let Some((path, owns_folder, (file, parsed))) = found else {
                let from = &self.house.files[self.house.modules[id].file];
                return Err(format!("{from}:{}: no file for `mod {name}`", child.ident.span().start().line));
            };
            let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
            let below = if owns_folder { folder.clone() } else { folder.join(&name) };
            self.module(Some(id), file, &parsed.items, &Place { folder, below })?
        };
        self.declare(id, name, reach(&child.vis), What::Module(made));
        Ok(())
    }
}

/// The visibility and the name of an item that has both.
fn declared(item: &Item) -> Option<(&syn::Visibility, &proc_macro2::Ident)> {
    Some(match item {
        Item::Const(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::ExternCrate(item) => (&item.vis, item.rename.as_ref().map_or(&item.ident, |(_, name)| name)),
        Item::Fn(item) => (&item.vis, &item.sig.ident),
        Item::Static(item) => (&item.vis, &item.ident),
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::TraitAlias(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        Item::Union(item) => (&item.vis, &item.ident),
        _ => return None,
    })
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(path) => Some(path.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

/// The path without `.`, and without `..` that can be resolved.
fn normal(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if whole.file_name().is_some() => {
                whole.pop();
            }
            _ => whole.push(part),
        }
    }
    whole
}
