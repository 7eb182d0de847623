//! A cgroup for one run, of version 2 or 1.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

const ROOT: &str = "/sys/fs/cgroup";

/// A group, which goes when this does.
#[derive(Debug)]
pub(super) struct Cgroup {
    folder: PathBuf,
    is_second_version: bool,
}

impl Cgroup {
    /// Makes a group of a controller: `cpu` or `cpuset`.
    pub(super) fn new(controller: &str) -> Result<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let root = Path::new(ROOT);
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let is_second_version = controllers.split_whitespace().any(|one| one == controller);
        let name = format!("tourbillon-{}-{}", process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let parent = if is_second_version { root.to_owned() } else { root.join(controller) };
        if is_second_version {
            let path = root.join("cgroup.subtree_control");
            fs::write(&path, format!("+{controller}")).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let folder = parent.join(name);
        fs::create_dir(&folder).with_context(|| format!("cannot make the cgroup {}", folder.display()))?;
        Ok(Self { folder, is_second_version })
    }

    /// Gives the group so many ms of CPU time in each 100 ms.
    pub(super) fn set_quota(&self, ms: u32) -> Result<()> {
        let quota = ms * 1_000;
        if self.is_second_version {
            return self.set("cpu.max", &format!("{quota} 100000"));
        }
        self.set("cpu.cfs_period_us", "100000")?;
        self.set("cpu.cfs_quota_us", &quota.to_string())
    }

    /// Gives the group these cores, such as `0-1`.
    pub(super) fn set_cores(&self, cores: &str) -> Result<()> {
        if !self.is_second_version {
            self.set("cpuset.mems", "0")?;
        }
        self.set("cpuset.cpus", cores)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.folder.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {value} to {}", path.display()))
    }

    /// Returns a command that runs a program in the group.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        // The shell becomes a member, and then the program.
        command.args(["-c", r#"echo $$ > "$0" && exec "$@""#]).arg(self.folder.join("cgroup.procs")).arg(program);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its process has ended; if it has not, the group stays, empty of limits that matter to
        // others.
        let _ = fs::remove_dir(&self.folder);
    }
}
