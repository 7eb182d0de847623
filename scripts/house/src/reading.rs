//! Collects from one item the paths that its code has.

use std::collections::HashSet;

use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, Meta, Token, UseTree, Visibility};

use crate::conditions::{left_out, of_expression, of_impl_item, of_item, of_statement, of_trait_item};
use crate::found::{Found, Import, Mention, Path, Reach};
use crate::tokens::{scan, text};

/// Adds what `item` mentions. Its `use` declarations, if it is a function, are inner ones.
pub(crate) fn read(item: &syn::Item, found: &mut Found) {
    Reader { found, bound: Vec::new() }.visit_item(item);
}

/// Adds the leaves of a `use`.
pub(crate) fn read_use(item: &syn::ItemUse, inner: bool, found: &mut Found) {
    let mut path = Path::new();
    if item.leading_colon.is_some() {
        path.push("::".to_owned());
    }
    add_leaves(&item.tree, &path, reach(&item.vis), inner, found);
}

fn add_leaves(tree: &UseTree, before: &[String], reach: Reach, inner: bool, found: &mut Found) {
    let line = tree.span().start().line;
    let mut leaf = |last: Option<String>, name: Option<String>| {
        let path: Path =
            before.iter().cloned().chain(last.filter(|last| last != "self" || before.is_empty())).collect();
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        found.imports.push(Import { path, name, reach, line, inner });
    };
    match tree {
        UseTree::Name(leaf_name) => leaf(Some(text(&leaf_name.ident)), None),
        UseTree::Rename(renamed) => leaf(Some(text(&renamed.ident)), Some(text(&renamed.rename))),
        UseTree::Glob(_) => leaf(None, Some("*".to_owned())),
        UseTree::Path(part) => {
            let mut path = before.to_vec();
            path.push(text(&part.ident));
            add_leaves(&part.tree, &path, reach, inner, found);
        }
        UseTree::Group(group) => {
            for part in &group.items {
                add_leaves(part, before, reach, inner, found);
            }
        }
    }
}

/// How far a declaration with this visibility can be seen.
pub(crate) fn reach(visibility: &Visibility) -> Reach {
    match visibility {
        Visibility::Inherited => Reach::Private,
        Visibility::Public(_) => Reach::Crate,
        Visibility::Restricted(to) if to.path.is_ident("self") => Reach::Private,
        Visibility::Restricted(to) if to.path.is_ident("super") => Reach::Parent,
        Visibility::Restricted(_) => Reach::Crate,
    }
}

struct Reader<'a> {
    found: &'a mut Found,
    /// What the functions around bind: a variable is not the item of its name.
    bound: Vec<HashSet<String>>,
}

impl Reader<'_> {
    fn mention(&mut self, path: Path, line: usize, calls: bool) {
        let is_variable = matches!(&path[..], [name] if self.bound.iter().any(|names| names.contains(name)));
        if calls || !is_variable {
            self.found.mentions.push(Mention { path, line, calls });
        }
    }

    fn mention_path(&mut self, path: &syn::Path, calls: bool) {
        let colons = path.leading_colon.map(|_| "::".to_owned());
        let whole = colons.into_iter().chain(path.segments.iter().map(|segment| text(&segment.ident))).collect();
        self.mention(whole, path.span().start().line, calls);
    }

    fn in_function(&mut self, bound: HashSet<String>, visit: impl FnOnce(&mut Self)) {
        self.bound.push(bound);
        visit(self);
        self.bound.pop();
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !left_out(of_item(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if !left_out(of_impl_item(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        if !left_out(of_trait_item(item)) {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if !left_out(of_statement(statement)) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        if !left_out(of_expression(expression)) {
            visit::visit_expr(self, expression);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !left_out(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        if !left_out(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !left_out(&variant.attrs) {
            visit::visit_variant(self, variant);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !left_out(&arm.attrs) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.in_function(Bindings::of(|all| all.visit_item_fn(function)), |this| visit::visit_item_fn(this, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let bound = Bindings::of(|all| all.visit_impl_item_fn(function));
        self.in_function(bound, |this| visit::visit_impl_item_fn(this, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        let bound = Bindings::of(|all| all.visit_trait_item_fn(function));
        self.in_function(bound, |this| visit::visit_trait_item_fn(this, function));
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        read_use(item, true, self.found);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.mention_path(path, false);
        visit::visit_path(self, path);
    }

    // `pub(in some::path)` names nothing that the code uses.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        if is_constant(pattern) {
            self.mention(vec![text(&pattern.ident)], pattern.ident.span().start().line, false);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        let is_silent = ["doc", "cfg", "cfg_attr"].iter().any(|name| attribute.path().is_ident(name));
        if let Meta::List(list) = &attribute.meta
            && !is_silent
        {
            let mut mentions = Vec::new();
            scan(list.tokens.clone(), &mut mentions);
            self.found.mentions.extend(mentions.into_iter().filter(|mention| mention.path.len() > 1));
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.mention_path(&call.path, true);
        let tokens = || call.tokens.clone();
        if let Ok(arguments) = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens()) {
            arguments.iter().for_each(|argument| self.visit_expr(argument));
        } else if let Ok(statements) = Block::parse_within.parse2(tokens()) {
            statements.iter().for_each(|statement| self.visit_stmt(statement));
        } else {
            scan(tokens(), &mut self.found.mentions);
        }
    }
}

/// A name alone in a pattern that begins with a capital is a constant or a unit, not a variable.
fn is_constant(pattern: &syn::PatIdent) -> bool {
    pattern.by_ref.is_none()
        && pattern.mutability.is_none()
        && pattern.subpat.is_none()
        && text(&pattern.ident).starts_with(char::is_uppercase)
}

/// The variables of one function.
#[derive(Default)]
struct Bindings(HashSet<String>);

impl Bindings {
    fn of(visit: impl FnOnce(&mut Self)) -> HashSet<String> {
        let mut all = Self::default();
        visit(&mut all);
        all.0
    }
}

impl<'ast> Visit<'ast> for Bindings {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        if !is_constant(pattern) {
            self.0.insert(text(&pattern.ident));
        }
        visit::visit_pat_ident(self, pattern);
    }
}
