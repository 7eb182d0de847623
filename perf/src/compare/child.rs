//! One run of one case, in a process of its own, and its result: one line of JSON, the same from
//! every program that measures.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::cases::{Case, Work};
use super::job::Job;

/// Runs `command`, which has been told the job, and reads its line.
pub(crate) fn measure(mut command: Command, job: &Job, patience: Duration) -> Result<Line> {
    command.env("RUST_BACKTRACE", "0");
    if !matches!(job.case.work, Work::Memory | Work::Idle) {
        // Large pages for what the programs allocate, as the JVMs have them.
        command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().display().to_string();
    let child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let (send, ended) = channel();
    // A thread reads its output meanwhile, so that a full pipe never holds it up.
    thread::spawn(move || _ = send.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(patience) else {
        kill(pid, Signal::SIGKILL).context("cannot end the process")?;
        // Processes that it has started may hold its pipes still. Nobody waits for those.
        let _ = ended.recv_timeout(Duration::from_secs(1));
        bail!("it took longer than {} s", patience.as_secs());
    };
    let output = output.context("cannot read what it prints")?;
    if !output.status.success() {
        bail!("{}", reason(&String::from_utf8_lossy(&output.stderr)));
    }
    Line::read(&String::from_utf8_lossy(&output.stdout), job.case)
}

/// Returns the reason that a failed program gives: its error, or its panic or exception, or its
/// last line.
fn reason(errors: &str) -> &str {
    let error = errors.lines().find_map(|line| line.strip_prefix("error: "));
    let after_panic = || errors.lines().skip_while(|line| !line.contains("panicked at")).nth(1);
    let exception = || errors.lines().find(|line| line.contains("Exception") || line.contains("Error"));
    let last = || errors.lines().rfind(|line| !line.trim().is_empty());
    error.or_else(after_panic).or_else(exception).or_else(last).unwrap_or("it did not say why")
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) system: String,
    pub(crate) case: String,
    pub(crate) producers: usize,
    /// By the keys of the case's metrics.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// Other facts about the run: versions, settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// The figures of a run by the keys of the case's metrics, and other facts about it.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) values: Vec<(&'static str, f64)>,
    pub(crate) notes: Vec<String>,
}

impl Metrics {
    pub(crate) fn of<const N: usize>(values: [(&'static str, f64); N]) -> Self {
        Self { values: values.to_vec(), ..Self::default() }
    }
}

impl Line {
    pub(crate) fn new(system: &str, case: &Case, producers: usize, Metrics { values, notes }: Metrics) -> Self {
        let metrics = values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Self { system: system.to_owned(), case: case.id.to_owned(), producers, metrics, notes }
    }

    /// Which promise of a timer was broken, and how often, if one was.
    pub(crate) fn broken(&self) -> Option<String> {
        let count = |key| self.metrics.get(key).copied().filter(|&count| count > 0.0);
        ["early", "missing", "twice"].into_iter().find_map(|key| Some(format!("{} timeouts {key}", count(key)?)))
    }

    pub(crate) fn print(&self) -> Result<()> {
        println!("{}", serde_json::to_string(self).context("cannot turn the result into JSON")?);
        Ok(())
    }

    /// Finds the line in what a program printed: the last one that is an object. A peer may print
    /// things of its own.
    pub(crate) fn read(output: &str, case: &Case) -> Result<Self> {
        let text = output.lines().rfind(|line| line.starts_with('{')).context("it printed no result")?;
        let line: Self = serde_json::from_str(text).with_context(|| format!("it printed {text:?}"))?;
        ensure!(line.case == case.id, "it was to measure {}, and measured {}", case.id, line.case);
        let strange = |(key, value): (&String, &f64)| {
            (!value.is_finite() || case.work.metrics().iter().all(|metric| metric.key != key))
                .then(|| format!("{key}={value}"))
        };
        let strange: Vec<_> = line.metrics.iter().filter_map(strange).collect();
        ensure!(strange.is_empty(), "of {} it reported {}, which makes no sense", case.id, strange.join(", "));
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cases::find;

    fn job() -> Job {
        Job { case: find("w2").expect("a case"), producers: 2, scale: 0.5, pace: 1.0 }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]);
        command
    }

    #[test]
    fn a_line_is_read_among_chatter() {
        let script = r#"echo chatter; echo '{"system":"x","case":"w2","producers":2,"metrics":{"ns":12.5}}'"#;
        let line = measure(shell(script), &job(), Duration::from_secs(60)).expect("a line");
        assert_eq!(line.metrics["ns"], 12.5);
    }

    #[test]
    fn a_child_that_fails_says_why_and_one_that_hangs_is_ended() {
        let why =
            |script: &str, patience| format!("{:#}", measure(shell(script), &job(), patience).expect_err("no line"));
        assert_eq!(why("echo error: too small >&2; exit 1", Duration::from_secs(60)), "too small");
        let panic = "thread 'main' (7) panicked at a.rs:1:1:\\nall is lost\\nnote: run with more";
        assert_eq!(why(&format!("printf \"{panic}\" >&2; exit 101"), Duration::from_secs(60)), "all is lost");
        let thrown = "java.lang.OutOfMemoryError: heap\\n\\tat A.main(A.java:1)";
        let why_thrown = why(&format!("printf '{thrown}' >&2; exit 1"), Duration::from_secs(60));
        assert_eq!(why_thrown, "java.lang.OutOfMemoryError: heap");
        assert!(why("exec sleep 60", Duration::from_millis(100)).contains("longer than"));
    }
}
