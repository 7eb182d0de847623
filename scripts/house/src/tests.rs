//! Small crates, each with one thing that the tool has to see, or has to pass over.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::arrows;
use crate::circles::Graph;
use crate::tree::House;

/// A crate from the names and the texts of its files.
fn house(files: &[(&str, &str)]) -> House {
    let files: HashMap<PathBuf, &str> = files.iter().map(|(name, text)| (PathBuf::from(name), *text)).collect();
    House::read("lib.rs", &|path: &Path| files.get(path).map(|text| (*text).to_owned())).unwrap()
}

/// Its arrows, such as `a.rs:1 -> b.rs`.
fn arrows_of(files: &[(&str, &str)]) -> Vec<String> {
    let house = house(files);
    let mut said: Vec<_> = arrows::arrows(&house)
        .iter()
        .map(|arrow| format!("{}:{} -> {}", house.files[arrow.from], arrow.line, house.files[arrow.to]))
        .collect();
    said.sort();
    said
}

/// The text that is printed of its circles: of files, and of rooms.
fn circles_of(files: &[(&str, &str)]) -> (String, String) {
    let house = house(files);
    let arrows = arrows::arrows(&house);
    (Graph::of_files(&house, &arrows, "").circles("files"), Graph::of_rooms(&house, &arrows, "").circles("rooms"))
}

const NONE: [&str; 0] = [];

#[test]
fn a_nested_group_has_an_arrow_for_each_file() {
    let arrows = arrows_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::{\n    b::{self, B, inner::{Deep as _}},\n    c::*,\n};\nfn f() -> C { b::make() }"),
        ("b/mod.rs", "pub mod inner; pub struct B; pub fn make() {}"),
        ("b/inner.rs", "pub struct Deep;"),
        ("c.rs", "pub struct C;"),
    ]);
    assert_eq!(arrows, ["a.rs:2 -> b/inner.rs", "a.rs:2 -> b/mod.rs", "a.rs:5 -> c.rs"]);
}

#[test]
fn a_re_export_is_followed_to_the_definition_and_is_no_arrow() {
    let arrows = arrows_of(&[
        ("lib.rs", "mod a; mod room; pub use room::Thing;"),
        ("a.rs", "use crate::room::Other;\nfn f(_: crate::Thing) {}"),
        ("room/mod.rs", "mod thing; pub use thing::{Other as Renamed, Thing}; pub(crate) use Renamed as Other;"),
        ("room/thing.rs", "pub struct Thing; pub struct Other;"),
    ]);
    assert_eq!(arrows, ["a.rs:1 -> room/thing.rs"]);
}

#[test]
fn a_re_export_that_its_file_uses_is_an_arrow() {
    let arrows = arrows_of(&[
        ("lib.rs", "mod thing;\npub use thing::Thing;\nfn f(_: Thing) {}"),
        ("thing.rs", "pub struct Thing;"),
    ]);
    assert_eq!(arrows, ["lib.rs:3 -> thing.rs"]);
}

#[test]
fn a_variable_is_not_the_re_export_of_its_name() {
    let arrows = arrows_of(&[
        ("lib.rs", "mod time;\npub use time::now;\nfn f(now: u8) -> u8 { g(|x| x + now); now }"),
        ("time.rs", "pub fn now() {}"),
    ]);
    assert_eq!(arrows, NONE);
}

#[test]
fn a_glob_re_export_is_followed_to_what_can_be_seen_through_it() {
    let arrows = arrows_of(&[
        ("lib.rs", "mod a; mod room;"),
        ("a.rs", "use crate::room::{find, Thing};\nuse super::room::Foreign;"),
        ("room.rs", "mod one; mod two; pub use one::*; pub use two::*; pub use other_crate::*;"),
        ("room/one.rs", "pub struct Thing; fn find() {}"),
        ("room/two.rs", "pub fn find() {}"),
    ]);
    assert_eq!(arrows, ["a.rs:1 -> room/one.rs", "a.rs:1 -> room/two.rs", "a.rs:2 -> room.rs"]);
}

#[test]
fn a_glob_that_no_name_goes_through_is_an_arrow_to_its_module() {
    let arrows = arrows_of(&[
        ("lib.rs", "mod a; mod traits;"),
        ("a.rs", "use crate::traits::*;\nfn f(x: u8) { x.go() }"),
        ("traits.rs", "pub trait Go { fn go(self); } impl Go for u8 { fn go(self) {} }"),
    ]);
    assert_eq!(arrows, ["a.rs:1 -> traits.rs"]);
}

#[test]
fn two_files_that_name_each_other_are_a_circle() {
    let (files, rooms) = circles_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "\npub struct A(crate::b::B);"),
        ("b.rs", "use crate::a::A;\npub struct B;"),
    ]);
    let circle = "  a.rs -> b.rs -> a.rs\n    a.rs:2 names crate::b::B\n    b.rs:1 names crate::a::A\n";
    assert_eq!(files, format!("2 files name each other in circles: a.rs, b.rs\n{circle}"));
    assert!(rooms.contains("  a -> b -> a\n"), "{rooms}");
}

#[test]
fn a_circle_through_super_is_one_of_files_and_not_of_rooms() {
    let (files, rooms) = circles_of(&[
        ("lib.rs", "mod room;"),
        ("room/mod.rs", "mod part; pub struct Whole(part::Part);"),
        ("room/part.rs", "pub struct Part; impl Part { fn f(_: super::Whole) {} }"),
    ]);
    assert!(files.contains("  room/mod.rs -> room/part.rs -> room/mod.rs\n"), "{files}");
    assert_eq!(rooms, "");
}

#[test]
fn rooms_can_be_a_circle_where_files_are_none() {
    let (files, rooms) = circles_of(&[
        ("lib.rs", "mod left; mod right;"),
        ("left/mod.rs", "pub mod x; pub mod y;"),
        ("left/x.rs", "use crate::right::x::X;"),
        ("left/y.rs", "pub struct Y;"),
        ("right/mod.rs", "pub mod x; pub mod y;"),
        ("right/x.rs", "pub struct X;"),
        ("right/y.rs", "use crate::left::y::Y;"),
    ]);
    assert_eq!(files, "");
    assert!(rooms.contains("  left -> right -> left\n"), "{rooms}");
}

#[test]
fn every_arrow_of_a_knot_is_shown_once_at_least() {
    let (files, _) = circles_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::c::C; use crate::a::A; pub struct B;"),
        ("c.rs", "use crate::a::A; pub struct C;"),
    ]);
    assert!(files.contains("  a.rs -> b.rs -> a.rs\n"), "{files}");
    assert!(files.contains("  a.rs -> b.rs -> c.rs -> a.rs\n"), "{files}");
    assert_eq!(files.matches(" -> a.rs\n").count(), 2, "{files}");
}

#[test]
fn what_tests_and_models_compile_is_passed_over() {
    let (files, rooms) = circles_of(&[
        ("lib.rs", "mod a; mod b; #[cfg(all(test, not(loom)))] mod checks; #[cfg(loom)] mod model;"),
        (
            "a.rs",
            "#[cfg(test)] mod tests { use crate::b::B; }
            #[cfg(test)] mod more;
            #[cfg(loom)] use crate::b::B;
            fn f() { #[cfg(loom)] crate::b::g(); #[cfg(test)] { crate::b::g() } }
            pub struct A;",
        ),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
    assert_eq!((files.as_str(), rooms.as_str()), ("", ""));
}

#[test]
fn a_path_attribute_is_followed_and_so_are_the_children_beside_that_file() {
    let arrows = arrows_of(&[
        ("lib.rs", "#[path = \"sync/std.rs\"] mod imp; #[path = \"../shared/mod.rs\"] mod shared; mod sync;"),
        ("sync.rs", "mod fork; use crate::imp::Lock;\nuse crate::shared::Shared;\nuse crate::imp::child::Child;"),
        ("sync/fork.rs", "use super::Lock;"),
        ("sync/std.rs", "pub mod child; pub struct Lock;"),
        ("sync/child.rs", "pub struct Child;"),
        ("../shared/mod.rs", "pub struct Shared;"),
    ]);
    let expected = [
        "sync.rs:1 -> sync/std.rs",
        "sync.rs:2 -> ../shared/mod.rs",
        "sync.rs:3 -> sync/child.rs",
        "sync/fork.rs:1 -> sync/std.rs",
    ];
    assert_eq!(arrows, expected);
}

#[test]
fn macros_are_items_and_their_tokens_are_read() {
    let arrows = arrows_of(&[
        ("lib.rs", "#[macro_use] mod macros; mod a; mod b;"),
        ("macros.rs", "macro_rules! make {\n    ($x:ident) => {\n        $crate::b::B::$x()\n    };\n}"),
        ("a.rs", "fn f() { make!(new); }\n\nfn g() { println!(\"{}\", crate::b::B); }"),
        ("b.rs", "pub struct B;"),
    ]);
    assert_eq!(arrows, ["a.rs:1 -> macros.rs", "a.rs:3 -> b.rs", "macros.rs:3 -> b.rs"]);
}

#[test]
fn attributes_name_items_but_doc_comments_and_visibilities_do_not() {
    let arrows = arrows_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b;\nstruct S {\n    #[arg(value_parser = b::parse)]\n    x: u8,\n}"),
        ("b.rs", "/// As [`crate::c::C`].\npub(in crate) fn parse() {}"),
        ("c.rs", "pub struct C;"),
    ]);
    assert_eq!(arrows, ["a.rs:3 -> b.rs"]);
}

#[test]
fn layers_stand_after_those_that_they_name() {
    let house = house(&[
        ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
        ("a.rs", "use crate::{b::B, c::C}; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "pub struct C;"),
    ]);
    let arrows = arrows::arrows(&house);
    assert_eq!(Graph::of_rooms(&house, &arrows, "").layers(), "c:\nlib:\nb: c\na: b, c\n");
}

#[test]
fn a_file_that_is_missing_or_wrong_is_said() {
    let read = |files: &[(&str, &str)]| {
        let files: HashMap<PathBuf, &str> = files.iter().map(|(name, text)| (PathBuf::from(name), *text)).collect();
        House::read("lib.rs", &|path: &Path| files.get(path).map(|text| (*text).to_owned())).unwrap_err()
    };
    assert_eq!(read(&[("lib.rs", "\nmod a;")]), "lib.rs:2: no file for `mod a`");
    assert!(read(&[("lib.rs", "mod a;"), ("a.rs", "\nstruct 5;")]).starts_with("a.rs:2: "));
}
