//! The programs that measure: this one, and those that scripts/peers makes for the timers of other
//! languages. They take the options of a case, and print the same line.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cases::Work;
use super::job::Job;
use super::systems::names::Java;

const MAIN: &str = "TimerCase";
/// Netty as Debian has it. The other timers of Java need it, too, as their program knows it.
const NETTY: &str = "/usr/share/java/netty-common.jar";
/// Files that scripts/peers adds with --newer, in its folder.
const NEWER_NETTY: &str = "netty-common-4.2.jar";
const NEWER_JAVA: &str = "jdk-25/bin/java";
const NEWER_PROGRAMS: [&str; 1] = ["go-timers"];

/// A program that is ready to run.
#[derive(Debug)]
pub(crate) enum Program {
    /// This one, or another build of it.
    Build(PathBuf),
    Java {
        java: PathBuf,
        class_path: String,
        timer: &'static str,
    },
    Native(PathBuf),
}

/// Where scripts/peers has put them.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(path: Option<&Path>) -> Self {
        Self(path.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers"), Path::to_owned))
    }

    /// Returns the Java program with one of its timers, or why it can't be run.
    pub(crate) fn java(&self, of: Java) -> Result<Program, String> {
        let classes = self.0.display();
        if !self.0.join(format!("{MAIN}.class")).is_file() {
            return Err(format!("no {MAIN}.class in {classes}; run scripts/peers"));
        }
        let jar = if of.newer_netty { self.0.join(NEWER_NETTY) } else { PathBuf::from(NETTY) };
        let java = if of.newer_java { self.0.join(NEWER_JAVA) } else { PathBuf::from("java") };
        let how = how_to_get(of.newer_netty || of.newer_java);
        if !jar.is_file() {
            return Err(format!("no {}; {how}", jar.display()));
        }
        match Command::new(&java).arg("-version").output() {
            Ok(output) if output.status.success() => {
                let class_path = format!("{classes}:{}", jar.display());
                Ok(Program::Java { java, class_path, timer: of.timer })
            }
            _ => Err(format!("no {}; {how}", java.display())),
        }
    }

    /// Returns a program that needs nothing else, or why it can't be run.
    pub(crate) fn native(&self, name: &str) -> Result<Program, String> {
        let file = self.0.join(name);
        if file.is_file() {
            Ok(Program::Native(file))
        } else {
            Err(format!("no {}; {}", file.display(), how_to_get(NEWER_PROGRAMS.contains(&name))))
        }
    }
}

fn how_to_get(newer: bool) -> &'static str {
    if newer { "run scripts/peers --newer" } else { "run scripts/peers" }
}

impl Program {
    /// Returns what measures a case.
    pub(crate) fn command(&self, system: &str, job: &Job) -> Command {
        let mut command = match self {
            Self::Build(path) => {
                let one_core = matches!(job.case.work, Work::Client { one_core: true, .. });
                // From its start on: our engine looks at the cores when it is loaded.
                let mut command = Command::new(if one_core { Path::new("taskset") } else { path });
                if one_core {
                    command.args(["--cpu-list", "0"]).arg(path);
                }
                command.args(["case", "--system", system, "--case", job.case.id]);
                command.args(["--producers", &job.producers.to_string()]);
                command.args(["--scale", &job.scale.to_string(), "--pace", &job.pace.to_string()]);
                return command;
            }
            Self::Java { java, class_path, timer } => {
                let mut command = Command::new(java);
                command.args(memory(job)).args(["-cp", class_path, MAIN, "--timer", timer]);
                command.args(["--slots", slots(job.case.work)]);
                command
            }
            Self::Native(file) => Command::new(file),
        };
        command.args(["--system", system]).args(job.as_arguments());
        command
    }
}

/// How many slots a wheel is to have. It is cheapest to a producer with 512, and expires a million
/// with the least CPU with 65,536.
fn slots(work: Work) -> &'static str {
    if matches!(work, Work::Schedule { .. } | Work::Ring | Work::Reset) { "512" } else { "65536" }
}

/// The parallel collector, whose barriers cost a producer least; and a heap that never has to grow
/// or to be collected in a race, of huge pages that were touched before. But where memory is
/// measured it grows as it is used, and in idleness all systems are there at once.
fn memory(job: &Job) -> Vec<String> {
    let is_large = job.timeouts() + job.beside() > 2_000_000;
    // In megabytes. To touch more than is needed takes seconds.
    let (heap, young) = if is_large { (8_192, 5_120) } else { (2_048, 1_536) };
    let mut options = vec![format!("-Xmx{heap}m"), "-XX:+UseParallelGC".to_owned()];
    if job.case.work == Work::Idle {
        return options;
    }
    options.extend([format!("-Xms{heap}m"), format!("-Xmn{young}m")]);
    let further = match job.case.work {
        // A thread's allocation buffer counts as used, and would be large in a large heap.
        Work::Memory => ["-XX:TLABSize=16k", "-XX:-ResizeTLAB"],
        _ => ["-XX:+UseTransparentHugePages", "-XX:+AlwaysPreTouch"],
    };
    options.extend(further.map(str::to_owned));
    options
}
