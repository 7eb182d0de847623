//! A process of a test: this program again, which can be stopped, continued and killed.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::again;

use super::PATIENCE;

/// Is killed when it is dropped, also when its test fails.
pub(crate) struct Process {
    child: Child,
    answers: Receiver<String>,
}

impl Process {
    /// Runs a test of this program again, in a process with this environment variable.
    pub(crate) fn start(test: &str, variable: &str, value: &str) -> Self {
        let mut command = again::test(test);
        command.args(["--test-threads", "1"]).env(variable, value);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("room for a process");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, answers) = channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some(answer) = line.strip_prefix("> ") {
                    let _ = send.send(answer.to_owned());
                }
            }
        });
        Self { child, answers }
    }

    /// Tells it something.
    pub(crate) fn tell(&mut self, what: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{what}").expect("the process reads");
    }

    /// Tells it something, if it has not ended.
    pub(crate) fn tell_if_alive(&mut self, what: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        // It may end meanwhile.
        drop(writeln!(input, "{what}"));
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for what it says next.
    pub(crate) fn hear(&mut self) -> String {
        self.hear_within(PATIENCE).unwrap_or_else(|| panic!("process {} says nothing", self.child.id()))
    }

    /// Like [`hear`](Self::hear), but returns `None` if it says nothing in this time.
    pub(crate) fn hear_within(&mut self, patience: Duration) -> Option<String> {
        self.answers.recv_timeout(patience).ok()
    }

    /// Tells it something, and waits for what it says next.
    pub(crate) fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.hear()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a process's id"));
        kill(pid, signal).expect("it is this process's child, and not waited for");
    }

    /// Kills it by SIGKILL, and waits for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it has not been waited for");
        self.child.wait().expect("it is this process's child");
    }

    /// Waits for its end, which must be a success.
    pub(crate) fn join(mut self) {
        let status = self.child.wait().expect("it is this process's child");
        assert!(status.success(), "process {}: {status}", self.child.id());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
