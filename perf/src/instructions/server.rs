//! The server that is counted: this program as another process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::Result;
use clap::Args;

use crate::compare::{ServerTimers, serve};
use crate::verdict::Verdict;

/// Not for people.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    listen: SocketAddr,

    #[arg(long, value_enum)]
    timers: ServerTimers,

    /// hyper, instead of an echo
    #[arg(long)]
    http: bool,
}

pub(super) fn command(program: &Path, listen: &str, http: bool, timers: ServerTimers) -> Command {
    let mut command = Command::new(program);
    command.args(["server", listen, "--timers", &timers.to_string()]);
    if http {
        command.arg("--http");
    }
    command
}

/// Serves until a signal ends the process.
pub(crate) fn run(args: &ServerArgs) -> Result<Verdict> {
    let _serving = serve(args.timers, args.http, args.listen, Some(1))?;
    loop {
        thread::park();
    }
}
