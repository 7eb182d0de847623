//! A PgBouncer of a test's own, in front of its server.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use super::PATIENCE;
use super::postgres::{Server, not_checked};

/// Ends when it is dropped, also when its test fails.
pub(crate) struct Pooler {
    port: u16,
    running: Child,
}

impl Pooler {
    /// Starts a pool of `size` sessions, with `mode` transaction or session. Returns `None` if
    /// there is no PgBouncer on this machine, and says so.
    pub(crate) fn start(server: &Server, mode: &str, size: u32) -> Option<Self> {
        let Some(program) = program() else {
            not_checked("PgBouncer");
            return None;
        };
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(pooler) = Self::try_start(server, &program, mode, size) {
                return Some(pooler);
            }
        }
        panic!("PgBouncer does not start");
    }

    /// Returns `None` if another process took the port.
    fn try_start(server: &Server, program: &Path, mode: &str, size: u32) -> Option<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        let port = free.expect("a free port").port();
        let place = server.directory().join(format!("pooler-{port}"));
        let (users, ini) = (place.with_extension("users"), place.with_extension("ini"));
        let (to, file) = (server.port(), place.display());
        let settings = format!(
            "[databases]\npostgres = host=127.0.0.1 port={to}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {file}.users\n\
             pool_mode = {mode}\ndefault_pool_size = {size}\nserver_login_retry = 1\n\
             logfile = {file}.log\npidfile = {file}.pid\n"
        );
        fs::write(users, "\"postgres\" \"\"\n").expect("a file");
        fs::write(&ini, settings).expect("a file");
        let mut command = server.as_its_user(program);
        let running = command.arg(&ini).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut pooler = Self { port, running: running.expect("pgbouncer can be started") };
        while matches!(pooler.running.try_wait(), Ok(None)) {
            if pooler.connect().is_ok() {
                return Some(pooler);
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn connect(&self) -> Result<Client, postgres::Error> {
        Client::connect(&self.url(), NoTls)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}

/// Returns the program: in the path, or where Debian has it.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    directories.map(|directory| directory.join("pgbouncer")).find(|program| program.is_file())
}
