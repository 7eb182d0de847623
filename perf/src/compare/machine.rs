//! The machine and the versions of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::away;
use crate::process;

/// The machine, and the versions of what was compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) clock_source: String,
    pub(crate) transparent_huge_pages: String,
    /// Milliseconds of a look at 1,600 pages: at once, and after a wait.
    #[serde(default)]
    pub(crate) page_looks_ms: [f64; 2],
    pub(crate) rustc: String,
    /// Of the repository that this program was built from, as it stands now.
    #[serde(default)]
    pub(crate) commit: String,
    pub(crate) started: String,
    pub(crate) debug_assertions: bool,
    /// Of the crates that were measured.
    pub(crate) crates: BTreeMap<String, String>,
}

const CRATES: [&str; 8] = [
    "tourbillon",
    "tokio",
    "tokio-util",
    "pingora-timeout",
    "async-io",
    "hierarchical_hash_wheel_timer",
    "nexus-timer",
    "bitwheel",
];

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, memory, kernel, rustc, commit, .. } = self;
        write!(f, "{processor}, {cores} cores, {memory}, Linux {kernel}, {rustc}; commit {commit}")?;
        f.write_str(if self.debug_assertions { "; a build for debugging: no figure means anything" } else { "" })?;
        let [at_once, after_a_wait] = self.page_looks_ms;
        // A page that has left the caches takes some 0.5 us.
        if after_a_wait > at_once + 2.0 {
            f.write_str("; memory that waits is slow to come back: a look at 1,600 pages takes ")?;
            write!(f, "{after_a_wait:.1} ms after half a second, and {at_once:.1} at once")?;
        }
        Ok(())
    }
}

impl Machine {
    pub(crate) fn look() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let root = root.display().to_string();
        let lock = fs::read_to_string(Path::new(&root).join("Cargo.lock")).unwrap_or_default();
        Self {
            processor: process::processor().unwrap_or_else(unknown),
            cores: process::cores(),
            memory: process::memory_kib().map_or_else(unknown, |kib| format!("{kib} kB")),
            kernel: line("/proc/sys/kernel/osrelease"),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            transparent_huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
            page_looks_ms: away::looks_ms(),
            rustc: answer("rustc", &["--version"]),
            commit: answer("git", &["-C", &root, "describe", "--always", "--dirty"]),
            started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            debug_assertions: cfg!(debug_assertions),
            crates: versions(&lock),
        }
    }
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn answer(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success());
    output.map_or_else(unknown, |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Of a Cargo.lock: the versions of the crates that are measured.
fn versions(lock: &str) -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Package {
        name: String,
        version: String,
    }
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Package>,
    }
    let packages = toml::from_str(lock).map_or(Vec::new(), |Lock { package }| package);
    let measured = packages.into_iter().filter(|package| CRATES.contains(&package.name.as_str()));
    measured.map(|Package { name, version }| (name, version)).collect()
}
