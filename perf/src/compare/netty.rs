//! Netty's HashedWheelTimer, by way of a small Java program: what it takes to start it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::job::Job;

const MAIN: &str = "NettyCase";

/// Where Debian keeps it, and what it needs.
const JARS: [&str; 1] = ["/usr/share/java/netty-common.jar"];

/// A program that is ready to run.
#[derive(Debug)]
pub(crate) struct Netty {
    classes: PathBuf,
}

impl Netty {
    /// Or why it can't be run.
    pub(crate) fn find(classes: Option<&Path>) -> Result<Self, String> {
        let classes = classes.map_or_else(default_classes, Path::to_owned);
        if !classes.join(format!("{MAIN}.class")).is_file() {
            return Err(format!("no {MAIN}.class in {}; run scripts/peers", classes.display()));
        }
        if let Some(jar) = JARS.iter().find(|jar| !Path::new(jar).is_file()) {
            return Err(format!("no {jar}; run scripts/peers"));
        }
        match Command::new("java").arg("-version").output() {
            Ok(output) if output.status.success() => Ok(Self { classes }),
            _ => Err("no java; run scripts/peers".to_owned()),
        }
    }

    /// What measures a case.
    pub(crate) fn command(&self, system: &str, slots: u32, job: &Job) -> Command {
        let path = JARS.iter().fold(self.classes.display().to_string(), |path, jar| format!("{path}:{jar}"));
        let mut command = Command::new("java");
        // The parallel collector, whose barriers cost a producer least; and a heap that never has
        // to grow or to be collected in a race.
        let is_large = job.case.id.ends_with("10m") || ["w4-crowded", "w4-storm"].contains(&job.case.id);
        let heap = if is_large { "8g" } else { "3g" };
        command.args([format!("-Xms{heap}"), format!("-Xmx{heap}"), "-XX:+UseParallelGC".to_owned()]);
        command.args(["-cp", &path, MAIN, "--system", system, "--slots", &slots.to_string()]);
        command
    }
}

fn default_classes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers")
}
