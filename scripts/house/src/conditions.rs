//! Which code a `cfg` leaves out of the crate that users get: neither tests nor models run that
//! crate.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ImplItem, Item, Meta, Stmt, Token, TraitItem};

/// True if a `cfg` among the attributes needs `test` or `loom`.
pub(crate) fn left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<Meta>().is_ok_and(|condition| value(&condition) == Some(false))
    })
}

/// The value of a condition without `test` and `loom`; `None` if the target or the features decide.
fn value(condition: &Meta) -> Option<bool> {
    let Meta::List(list) = condition else {
        let never = ["test", "loom"].iter().any(|name| condition.path().is_ident(name));
        return if never { Some(false) } else { None };
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let values: Vec<_> = parts.iter().map(value).collect();
    if list.path.is_ident("not") {
        values.first().copied().flatten().map(|value| !value)
    } else if list.path.is_ident("all") {
        decided_by(false, &values)
    } else if list.path.is_ident("any") {
        decided_by(true, &values)
    } else {
        None
    }
}

/// One `decider` decides the whole; the opposite takes all of them.
fn decided_by(decider: bool, values: &[Option<bool>]) -> Option<bool> {
    if values.contains(&Some(decider)) {
        Some(decider)
    } else if values.contains(&None) {
        None
    } else {
        Some(!decider)
    }
}

macro_rules! attributes {
    ($name:ident, $node:ident: $($variant:ident)*) => {
        /// The attributes of a node. They are empty for a kind that has none.
        pub(crate) fn $name(node: &$node) -> &[Attribute] {
            match node {
                $($node::$variant(inside) => &inside.attrs,)*
                _ => &[],
            }
        }
    };
}

attributes!(of_item, Item: Const Enum ExternCrate Fn ForeignMod Impl Macro Mod Static Struct Trait TraitAlias Type
    Union Use);
attributes!(of_impl_item, ImplItem: Const Fn Type Macro);
attributes!(of_trait_item, TraitItem: Const Fn Type Macro);
attributes!(of_expression, Expr: Array Assign Async Await Binary Block Break Call Cast Closure Const Field ForLoop
    Group If Index Let Lit Loop Macro Match MethodCall Paren Path Range Reference Repeat Return Struct Try Tuple Unary
    Unsafe While);

/// The attributes of a statement. An item or an expression carries its own.
pub(crate) fn of_statement(statement: &Stmt) -> &[Attribute] {
    match statement {
        Stmt::Local(local) => &local.attrs,
        Stmt::Macro(call) => &call.attrs,
        Stmt::Item(item) => of_item(item),
        Stmt::Expr(expression, _) => of_expression(expression),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_a_test_or_a_model_is_left_out() {
        let cases = [
            ("test", true),
            ("loom", true),
            ("all(test, not(loom))", true),
            ("all(unix, any(test, loom))", true),
            ("not(loom)", false),
            ("any(test, unix)", false),
            ("not(any(test, feature = \"x\"))", false),
            ("all(target_os = \"linux\", not(miri))", false),
        ];
        for (condition, expected) in cases {
            let item: Item = syn::parse_str(&format!("#[cfg({condition})] struct S;")).unwrap();
            assert_eq!(left_out(of_item(&item)), expected, "{condition}");
        }
    }
}
