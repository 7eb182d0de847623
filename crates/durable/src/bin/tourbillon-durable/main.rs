//! What an operator asks of the timeouts in a store, beside the processes that run them.

mod args;
mod commands;
mod show;
mod time;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Parser;

use self::args::Args;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // A URL in the wrong place may hold a password.
        Err(error) if error.use_stderr() && names_a_url() => {
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
            // What was done before it failed.
            _ = out.flush();
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the command line has a URL. The text of an error may have one of its own.
fn names_a_url() -> bool {
    std::env::args_os().any(|argument| argument.to_string_lossy().contains("://"))
}

/// Whether the reader has read enough, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
