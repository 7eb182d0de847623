//! A PostgreSQL server of our own: its files in a temporary directory, durable as it is by default.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, User, chown, geteuid},
};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

/// What differs from the defaults of PostgreSQL, or must not be changed by a package's defaults.
const SETTINGS: [&str; 6] = [
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "max_connections=200",
    "shared_buffers=256MB",
    "listen_addresses=127.0.0.1",
];

/// A running server. Dropped, it is stopped and its files are removed.
pub struct Server {
    process: Child,
    port: u16,
    pub version: String,
    // Removed after the server has stopped, as fields are dropped after `drop` has run.
    files: TempDir,
}

impl Server {
    /// Starts a server whose files are below `parent`. As root it runs as the user `postgres`, or
    /// `nobody`, since PostgreSQL refuses to run as root.
    pub fn start(parent: &Path) -> Result<Self> {
        let programs = programs()?;
        let files = tempfile::Builder::new()
            .prefix("durable-peers-")
            .tempdir_in(parent)
            .with_context(|| format!("no temporary directory in {}", parent.display()))?;
        let user = unprivileged_user()?;
        if let Some(user) = &user {
            chown(files.path(), Some(user.uid), Some(user.gid)).context("cannot hand the directory over")?;
        }
        let as_user = |program: &str| {
            let mut command = Command::new(programs.join(program));
            if let Some(user) = &user {
                command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
            }
            command.current_dir(files.path()).env_remove("PGDATA");
            command
        };
        let data = files.path().join("data");
        let made = as_user("initdb")
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--pgdata"])
            .arg(&data)
            .output()
            .context("cannot run initdb")?;
        ensure!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));

        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = fs::File::create(files.path().join("log"))?;
        let mut server = as_user("postgres");
        server.arg("-D").arg(&data).arg("-p").arg(port.to_string()).arg("-k").arg(files.path());
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        let process =
            server.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn().context("cannot run postgres")?;
        let mut server = Server { process, port, version: String::new(), files };
        server.version = server.wait_until_ready()?;
        Ok(server)
    }

    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The settings it runs with, for the report.
    pub fn settings() -> String {
        SETTINGS.join(", ")
    }

    /// A folder on the same disk, for a system that has files of its own.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    fn wait_until_ready(&mut self) -> Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let started = Instant::now();
        loop {
            let asked = runtime.block_on(async {
                let mut connection = PgConnection::connect(&self.url("postgres")).await?;
                let version: String = sqlx::query_scalar("show server_version").fetch_one(&mut connection).await?;
                connection.close().await?;
                Ok::<_, sqlx::Error>(version)
            });
            match asked {
                Ok(version) => return Ok(version),
                Err(error) if self.process.try_wait()?.is_some() || started.elapsed() > Duration::from_secs(30) => {
                    let log = fs::read_to_string(self.files.path().join("log")).unwrap_or_default();
                    bail!("the PostgreSQL server does not answer: {error}\n{log}");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Runs statements on a database, each in a transaction of its own.
    pub async fn execute(&self, database: &str, statements: &[&str]) -> Result<()> {
        let mut connection = PgConnection::connect(&self.url(database)).await?;
        for statement in statements {
            sqlx::query(AssertSqlSafe(*statement))
                .execute(&mut connection)
                .await
                .with_context(|| statement.to_string())?;
        }
        connection.close().await?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The fast shutdown: it ends the sessions, and waits for none.
        let process = i32::try_from(self.process.id()).expect("the kernel's process ids are positive `i32`");
        if kill(Pid::from_raw(process), Signal::SIGINT).is_ok() {
            let _ = self.process.wait();
        }
    }
}

/// The folder of the server's programs: Debian keeps them off the PATH.
fn programs() -> Result<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, folder)| folder.join("postgres").is_file())
        .collect();
    versions.sort();
    if let Some((_, newest)) = versions.pop() {
        return Ok(newest);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|folder| folder.join("initdb").is_file() && folder.join("postgres").is_file())
        .context("no PostgreSQL server in /usr/lib/postgresql/*/bin or on PATH; scripts/durable-peers installs one")
}

fn unprivileged_user() -> Result<Option<User>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        if let Some(user) = User::from_name(name)? {
            return Ok(Some(user));
        }
    }
    bail!("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

/// How long this disk takes to make 8 KiB durable: the median of 200, in microseconds. It bounds
/// what one connection can commit in a second.
pub fn sync_micros(folder: &Path) -> Result<u64> {
    let mut file = tempfile::tempfile_in(folder)?;
    let block = [7; 8192];
    let mut times = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(u64::try_from(started.elapsed().as_micros())?);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
