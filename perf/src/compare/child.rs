//! One run of one case, in a process of its own.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::job::Job;
use super::line::Line;

/// How often the process is looked at: seldom, as it needs the cores.
const LOOK: Duration = Duration::from_millis(25);

/// Runs `command`, which has been told the job, and reads its line.
pub(crate) fn measure(mut command: Command, job: &Job, patience: Duration) -> Result<Line> {
    command.env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().display().to_string();
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let (output, errors) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = match wait(&mut child, patience)? {
        Some(status) => status,
        None => {
            child.kill().context("cannot end the process")?;
            child.wait().context("cannot end the process")?;
            bail!("it took longer than {} s", patience.as_secs());
        }
    };
    let text = |reader: thread::JoinHandle<String>| reader.join().map_err(|_| anyhow!("cannot read what it prints"));
    let (output, errors) = (text(output)?, text(errors)?);
    if !status.success() {
        bail!("{}", reason(&errors));
    }
    Line::read(&output, job.case)
}

/// What a program says when it fails: its error, or its panic or exception, or the last that it
/// says.
fn reason(errors: &str) -> &str {
    let error = errors.lines().find_map(|line| line.strip_prefix("error: "));
    let after_panic = || errors.lines().skip_while(|line| !line.contains("panicked at")).nth(1);
    let exception = || errors.lines().find(|line| line.contains("Exception") || line.contains("Error"));
    let last = || errors.lines().rfind(|line| !line.trim().is_empty());
    error.or_else(after_panic).or_else(exception).or_else(last).unwrap_or("it did not say why")
}

/// Reads to the end, on a thread of its own, so that the process is never held up.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What has been read until it fails is there.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, patience: Duration) -> Result<Option<std::process::ExitStatus>> {
    let limit = Instant::now() + patience;
    while Instant::now() < limit {
        if let Some(status) = child.try_wait().context("cannot look at the process")? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::cases::find;

    fn job() -> Job {
        Job::new(find("w2").expect("a case"), 2, 0.5, 1.0)
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
    fn what_fails_says_why_and_what_hangs_is_ended() {
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
