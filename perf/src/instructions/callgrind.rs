//! A server under callgrind.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::valgrind;

/// How long a server may take until it listens: it is slow here.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// Starts the server that `command` makes for an address, has `drive` send to it, and ends it.
/// Returns how many instructions the process has executed.
pub(super) fn instructions(
    command: impl Fn(&str) -> Command,
    drive: impl FnOnce(SocketAddr) -> Result<()>,
) -> Result<u64> {
    let address = free_address()?;
    let mut server = valgrind::callgrind("valgrind", &[], &command(&address.to_string()));
    server.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = server.spawn().context("cannot run valgrind: apt-get install valgrind, or the like")?;
    let driven = match wait_until_it_listens(address, || child.try_wait().is_ok_and(|status| status.is_none())) {
        Ok(()) => drive(address),
        Err(error) => Err(error),
    };
    // It may have ended by itself, and then says why below.
    let _ = kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT);
    // Valgrind 3.19 holds a signal back while a server waits in `io_uring_enter`. The echo servers
    // of integrations/local end at such a message. Others have ended.
    let _ = TcpStream::connect(address).and_then(|mut stream| stream.write_all(&[b'Q'; 64]));
    let output = child.wait_with_output().context("cannot end the server")?;
    driven.with_context(|| format!("the server said: {}", String::from_utf8_lossy(&output.stderr)))?;
    valgrind::collected(&output.stderr)
}

/// One that nobody listens on now.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port is free")?;
    listener.local_addr().context("a listener has an address")
}

fn wait_until_it_listens(address: SocketAddr, mut is_there: impl FnMut() -> bool) -> Result<()> {
    let since = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(is_there(), "it ended before it listened");
        ensure!(since.elapsed() < PATIENCE, "it does not listen");
        thread::sleep(LOOK);
    }
    Ok(())
}
