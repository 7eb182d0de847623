//! An operator's program for the timeouts in a store, beside the processes that run them.

mod args;
mod commands;
mod show;
mod time;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use self::args::Args;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // A URL in the wrong place may hold a password. The help has one of its own.
        Err(error) if error.use_stderr() && !is_help(&error) && error.to_string().contains("://") => {
            eprintln!("error: a URL stands where none belongs: give the store by --store, or by {}", args::STORE);
            return ExitCode::from(2);
        }
        Err(error) => error.exit(),
    };
    let mut out = BufWriter::new(io::stdout().lock());
    match commands::run(args, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Print the answers from before the failure.
            _ = out.flush();
            eprintln!("error: {error}");
            ExitCode::from(if error.is::<commands::Nothing>() { 1 } else { 2 })
        }
    }
}

/// Whether it is the help, as no command was given.
fn is_help(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// Whether the reader has read enough, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
