//! The scenes, and how each is set up.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;

use super::cgroup::Cgroup;
use crate::compare::child;
use crate::compare::job::Job;
use crate::compare::line::Line;
use crate::compare::systems::names::Name;

/// How long a run may take: half a core makes it slow.
const PATIENCE: Duration = Duration::from_secs(120);
/// When a core is taken away: all timeouts are pending by then, and the first are due.
const TAKEN_AFTER: Duration = Duration::from_millis(1_500);

/// What is around the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scene {
    Alone,
    Twice,
    OneCore,
    HalfACore,
    CoresTaken,
    BusyNice,
    BusyFifo,
}

impl Scene {
    /// As on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it is the same all the time, so that a rate can be told of it.
    pub(super) fn lasts(self) -> bool {
        self != Self::CoresTaken
    }

    /// Measures a case in this scene. Two processes have two results.
    pub(super) fn measure(self, program: &Path, system: Name, job: &Job, repetition: usize) -> Result<Vec<Line>> {
        let case = |mut command: Command| {
            command.args(["case", "--system", system.id()]);
            child::measure(command, job, PATIENCE)
        };
        let alone = || Command::new(program);
        let one = |line: Line| vec![line];
        match self {
            Self::Alone => case(alone()).map(one),
            Self::Twice => thread::scope(|scope| {
                let other = scope.spawn(|| case(alone()));
                let line = case(alone())?;
                Ok(vec![line, other.join().map_err(|_| anyhow!("a thread of this program failed"))??])
            }),
            Self::OneCore => {
                let mut command = Command::new("taskset");
                command.args(["-c", "0"]).arg(program);
                case(command).map(one)
            }
            Self::HalfACore => {
                let group = Cgroup::new("cpu")?;
                group.set_quota(50)?;
                case(group.command(program)).map(one)
            }
            Self::CoresTaken => {
                let group = Cgroup::new("cpuset")?;
                group.set_cores("0-1")?;
                // By turns the one and the other, as the worker may be pinned to either.
                let left = if repetition.is_multiple_of(2) { "0" } else { "1" };
                thread::scope(|scope| {
                    let taking = scope.spawn(|| {
                        thread::sleep(TAKEN_AFTER);
                        group.set_cores(left)
                    });
                    let line = case(group.command(program))?;
                    taking.join().map_err(|_| anyhow!("a thread of this program failed"))??;
                    Ok(vec![line])
                })
            }
            Self::BusyNice => {
                let _busy = Busy::start(&["nice", "-n", "-20"], Some("-20"))?;
                case(alone()).map(one)
            }
            Self::BusyFifo => {
                let _busy = Busy::start(&["chrt", "--fifo", "50"], None)?;
                case(alone()).map(one)
            }
        }
    }
}

/// A process that keeps core 0 busy until this is dropped.
struct Busy(Child);

impl Busy {
    /// `nice` is the value that it is to have, if it is one of `nice`'s, which goes on without.
    fn start(priority: &[&str], nice: Option<&str>) -> Result<Self> {
        // It must not outlive this program, however that ends: nothing else might get the core.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "taskset", "-c", "0"]).args(priority).args([
            "sh",
            "-c",
            "while :; do :; done",
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot run setpriv")?;
        thread::sleep(Duration::from_millis(200));
        // A program that was not allowed to raise its priority has ended by now.
        match child.try_wait().context("cannot look at a process")? {
            Some(status) => Err(anyhow!("a busy process can't have this priority: {status}")),
            None => {
                let busy = Self(child);
                ensure!(nice.is_none_or(|nice| busy.nice().as_deref() == Some(nice)), "it can't have this nice value");
                Ok(busy)
            }
        }
    }
}

impl Busy {
    fn nice(&self) -> Option<String> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).ok()?;
        // "id (name) state ..."; the name may have spaces in it.
        stat.rsplit_once(") ")?.1.split(' ').nth(16).map(str::to_owned)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
