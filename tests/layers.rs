//! Crates are the layers: none of the workspace depends on one beside it or above it.

use std::env;
use std::process::Command;

use serde_json::Value;

/// From the bottom to the top. A package does not depend on another of its layer.
const LAYERS: &[&[&str]] = &[
    &["tourbillon-wheel"],
    &["tourbillon"],
    &["pingora-timeout", "testkit", "tourbillon-c", "tourbillon-durable", "tourbillon-hyper", "tourbillon-local"],
    &["loom-tests", "tourbillon-costs", "tourbillon-integrations", "tourbillon-perf"],
];

fn layer_of(package: &str) -> usize {
    let layer = LAYERS.iter().position(|layer| layer.contains(&package));
    layer.unwrap_or_else(|| panic!("{package} has no layer yet: give it one in tests/layers.rs"))
}

/// The packages of the workspace, as cargo describes them.
fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

#[test]
fn no_crate_depends_on_one_above_it() {
    let (mut members, mut dependencies) = (0, 0);
    for package in packages() {
        let name = package["name"].as_str().expect("a name");
        let layer = layer_of(name);
        members += 1;
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            // Tests may use what is above. A dependency of the workspace has a path.
            if dependency["kind"] == "dev" || dependency["path"].is_null() {
                continue;
            }
            let below = dependency["name"].as_str().expect("a name");
            assert!(layer_of(below) < layer, "{name} may not depend on {below}: see the layers in tests/layers.rs");
            dependencies += 1;
        }
    }
    assert!(members > 1 && dependencies > 1, "{members} packages and {dependencies} dependencies were found");
}
