//! What one module says about others: its imports, and the paths in its code.

/// A path as it was written, such as `["crate", "time", "Tick"]`. One that begins with `::` has
/// `"::"` first.
pub(crate) type Path = Vec<String>;

/// How far a name can be seen from outside the module that declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Private,
    Parent,
    Crate,
}

/// One leaf of a `use`.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) path: Path,
    /// The name it has here; `*` for a glob.
    pub(crate) name: String,
    pub(crate) reach: Reach,
    pub(crate) line: usize,
    /// It stands in a function, so that only the code there sees it.
    pub(crate) inner: bool,
}

impl Import {
    pub(crate) fn is_glob(&self) -> bool {
        self.name == "*"
    }
}

/// A path in code.
#[derive(Debug)]
pub(crate) struct Mention {
    pub(crate) path: Path,
    pub(crate) line: usize,
    /// It is the path of a macro that is called.
    pub(crate) calls: bool,
}

/// Everything found in one module.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) imports: Vec<Import>,
    pub(crate) mentions: Vec<Mention>,
}
