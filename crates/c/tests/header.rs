//! The header that is checked in is the one that the Rust code makes.

use std::path::Path;

/// `scripts/c --header` sets it, to write the header instead of comparing it.
const WRITE: &str = "TOURBILLON_WRITE_HEADER";

#[test]
fn the_header_says_what_the_code_says() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).expect("a valid configuration");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(crate_dir.join("src/lib.rs"))
        .generate()
        .expect("the code can be parsed");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).expect("a header is text");
    let path = crate_dir.join("include/tourbillon.h");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &made).expect("the header can be written");
    }
    let checked_in = std::fs::read_to_string(&path).expect("the header is checked in");
    let differs = checked_in.lines().zip(made.lines()).position(|(is, should)| is != should);
    assert!(
        checked_in == made,
        "include/tourbillon.h is old, from line {}: run scripts/c --header",
        differs.map_or(checked_in.lines().count().min(made.lines().count()), |line| line) + 1
    );
}
