//! A PostgreSQL server of a test's own, in a temporary directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use postgres::{Client, NoTls};
use tempfile::TempDir;

use super::PATIENCE;

/// With this environment variable a test fails if a program that it needs is not there.
const NEED: &str = "TOURBILLON_NEED_POSTGRES";

/// Ends when it is dropped, also when its test fails.
pub(crate) struct Server {
    binaries: PathBuf,
    /// PostgreSQL refuses to run as root.
    user: Option<User>,
    directory: TempDir,
    port: u16,
    /// Settings of the command line.
    settings: Vec<String>,
    running: Option<Child>,
    /// Whether it is stopped by SIGSTOP.
    hangs: bool,
}

impl Server {
    /// Starts a server. Returns `None` if there is no PostgreSQL on this machine, and says so.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("UTF8", &[])
    }

    /// Starts one whose databases have this encoding, with some settings.
    pub(crate) fn start_with(encoding: &str, settings: &[&str]) -> Option<Self> {
        let Some(binaries) = binaries() else {
            not_checked("PostgreSQL");
            return None;
        };
        let user = Uid::effective().is_root().then(unprivileged);
        let directory = tempfile::Builder::new().prefix("tourbillon-pg-").tempdir().expect("a temporary directory");
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut server = Self { binaries, user, directory, port: 0, settings, running: None, hangs: false };
        server.make_cluster(encoding);
        server.run();
        Some(server)
    }

    /// Returns what [`DurableTimer::open`](tourbillon_durable::DurableTimer::open) opens.
    pub(crate) fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The same for another role.
    pub(crate) fn url_of(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The same through the server's socket.
    pub(crate) fn socket_url(&self) -> String {
        format!("postgres://postgres@/postgres?host={}&port={}", self.directory.path().display(), self.port)
    }

    /// Stops the server at once, as a crash would, and starts it again.
    pub(crate) fn restart(&mut self) {
        self.stop();
        self.run();
    }

    /// Starts it again after a [`stop`](Self::stop).
    pub(crate) fn start_again(&mut self) {
        self.run();
    }

    /// Stops all of its processes by SIGSTOP. The system answers for it, and it does not.
    pub(crate) fn hang(&mut self) {
        self.hangs = true;
        self.signal_all(Signal::SIGSTOP);
    }

    /// Ends a [`hang`](Self::hang).
    pub(crate) fn go_on(&mut self) {
        self.hangs = false;
        self.signal_all(Signal::SIGCONT);
    }

    fn signal_all(&self, signal: Signal) {
        let server = self.running.as_ref().expect("it runs").id().to_string();
        let listed = Command::new("ps").args(["-axo", "pid=,ppid="]).output().expect("ps can be started").stdout;
        let listed = String::from_utf8(listed).expect("numbers");
        let sessions = listed.lines().filter_map(|line| {
            let (pid, parent) = line.trim().split_once(' ')?;
            (parent.trim() == server).then(|| pid.to_owned())
        });
        for pid in sessions.chain([server.clone()]) {
            // A session may have ended meanwhile.
            let _ = kill(Pid::from_raw(pid.parse().expect("a number")), signal);
        }
    }

    /// Runs a program as the user of the server.
    pub(crate) fn as_its_user(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.directory.path()).env("LC_ALL", "C");
        if let Some(user) = &self.user {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }

    /// Where it has its data and its socket.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs statements as an administrator.
    pub(crate) fn run_sql(&self, statements: &str) {
        let mut client = self.connect().expect("the server is up");
        client.batch_execute(statements).unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// Returns the only value of an administrator's query.
    pub(crate) fn number(&self, query: &str) -> i64 {
        let mut client = self.connect().expect("the server is up");
        client.query_one(query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
    }

    /// Waits until the sessions of a process have ended that was killed. The process named itself
    /// in its URL by `application_name`. A write that it had sent may be carried out until then.
    pub(crate) fn wait_for_the_end_of(&self, application: &str) {
        let begun = Instant::now();
        loop {
            let sessions = self.connect().and_then(|mut client| {
                // A session of a pool lives on without its client, idle.
                let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state <> 'idle'";
                client.query_one(count, &[&application]).map(|row| row.get::<_, i64>(0))
            });
            if matches!(sessions, Ok(0)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{application} has gone, and its sessions have not: {sessions:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn connect(&self) -> Result<Client, postgres::Error> {
        Client::connect(&self.url(), NoTls)
    }

    fn make_cluster(&self, encoding: &str) {
        if let Some(user) = &self.user {
            chown(self.directory.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may do so");
        }
        let mut initdb = self.command("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--no-locale", "--no-sync", "--encoding", encoding]);
        let output = initdb.arg("--pgdata").arg(self.data()).output().expect("initdb can be started");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts the server on the port that it had, or on a free one.
    fn run(&mut self) {
        let had_one = self.port != 0;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if !had_one {
                let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
                self.port = free.expect("a free port").port();
            }
            self.running = Some(self.spawn());
            if self.is_up(begun) {
                return;
            }
            // It has ended: another process took the port.
            thread::sleep(Duration::from_millis(100));
        }
        panic!("PostgreSQL does not start: {}", self.log());
    }

    fn spawn(&self) -> Child {
        let log = File::options().create(true).append(true).open(self.directory.path().join("log")).expect("a file");
        let mut server = self.command("postgres");
        server.arg("-D").arg(self.data()).args(["-p", &self.port.to_string(), "-c", "fsync=on", "-k"]);
        server.arg(self.directory.path()).args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]);
        server.args(self.settings.iter().flat_map(|setting| ["-c", setting]));
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("postgres can be started")
    }

    /// Waits until the server answers, at its own socket: another one may have taken the port.
    /// Returns false if it has ended.
    fn is_up(&mut self, begun: Instant) -> bool {
        while begun.elapsed() < PATIENCE {
            if Client::connect(&self.socket_url(), NoTls).is_ok() {
                return true;
            }
            let running = self.running.as_mut().expect("it was spawned");
            if running.try_wait().expect("it is this process's child").is_some() {
                return false;
            }
            thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Stops the server as `pg_ctl stop -m immediate` does.
    pub(crate) fn stop(&mut self) {
        if self.hangs {
            self.go_on();
        }
        let Some(mut running) = self.running.take() else { return };
        let pid = Pid::from_raw(i32::try_from(running.id()).expect("a process's id"));
        let _ = kill(pid, Signal::SIGQUIT);
        let begun = Instant::now();
        while matches!(running.try_wait(), Ok(None)) {
            if begun.elapsed() > PATIENCE {
                let _ = running.kill();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn command(&self, binary: &str) -> Command {
        self.as_its_user(self.binaries.join(binary))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Says that a test needs what is not on this machine. Fails where all must be checked.
pub(crate) fn not_checked(missing: &str) {
    assert!(std::env::var_os(NEED).is_none(), "no {missing} here, and {NEED} is set");
    // Not by a macro, whose output the test harness keeps for itself.
    writeln!(io::stderr(), "NOT CHECKED: no {missing} here").expect("standard error");
}

fn unprivileged() -> User {
    let named = |name| User::from_name(name).ok().flatten();
    named("postgres").or_else(|| named("nobody")).expect("a user for PostgreSQL, which refuses to run as root")
}

/// Returns the directory of PostgreSQL's programs: in the path, or where Debian has them.
fn binaries() -> Option<PathBuf> {
    let is_there = |directory: &Path| ["initdb", "postgres"].iter().all(|name| directory.join(name).is_file());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).find(|directory| is_there(directory));
    in_path.or_else(|| {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let number = |directory: &PathBuf| directory.file_name().and_then(OsStr::to_str)?.parse::<u32>().ok();
        let mut versions: Vec<_> = versions.filter(|version| is_there(&version.join("bin"))).collect();
        versions.sort_by_key(number);
        versions.pop().map(|version| version.join("bin"))
    })
}
