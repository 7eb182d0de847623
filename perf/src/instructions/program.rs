//! A server that is somebody else's program.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What stands for the address in a command.
const ADDRESS: &str = "{}";

/// What to call it in the table, and how to start it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) server: String,
    pub(super) timers: String,
    words: Vec<String>,
}

impl Program {
    /// Reads `SERVER:TIMERS=COMMAND`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (name, command) = text.split_once('=').context("no =COMMAND")?;
        let (server, timers) = name.split_once(':').context("no SERVER:TIMERS before the command")?;
        let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        ensure!(words.len() > 1, "no arguments in the command");
        ensure!(words.iter().any(|word| word.contains(ADDRESS)), "no {ADDRESS} for the address in the command");
        Ok(Self { server: server.to_owned(), timers: timers.to_owned(), words })
    }

    pub(super) fn command(&self, listen: &str) -> Command {
        let mut words = self.words.iter().map(|word| word.replace(ADDRESS, listen));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_takes_its_place_in_the_command() {
        let program = Program::parse("proxy:ours=target/proxy --listen {}  --threads 1").expect("it can be read");
        assert_eq!((program.server.as_str(), program.timers.as_str()), ("proxy", "ours"));
        let command = program.command("127.0.0.1:7");
        assert_eq!(command.get_program(), "target/proxy");
        assert!(command.get_args().eq(["--listen", "127.0.0.1:7", "--threads", "1"]));
    }

    #[test]
    fn a_command_that_cannot_be_told_the_address_is_refused() {
        for text in ["proxy:ours", "proxy=target/proxy {}", "proxy:ours={}", "proxy:ours=target/proxy --listen"] {
            assert!(Program::parse(text).is_err(), "{text}");
        }
    }
}
