//! Opens a store by its location: the path of a file, or the URL of a server.

use std::path::Path;
#[cfg(feature = "postgres")]
use std::time::Duration;

use crate::builder::Builder;
use crate::error::OpenError;
use crate::store::desk::Desk;
use crate::timers::DurableTimer;

impl DurableTimer {
    /// Opens a store, makes or migrates its tables, and returns the options.
    ///
    /// `location` is the path of an SQLite file, which is made if it is not there, or the URL of a
    /// PostgreSQL database: `postgres://user:password@host:port/database`. The connection to
    /// PostgreSQL is not encrypted; see [`connect`](Self::connect) for one that is. It may lead
    /// through PgBouncer, in transaction mode as well. Blocks.
    ///
    /// A file belongs to one process, which locks it, by whatever name it is opened. The lock ends
    /// with that process. Any number of processes share a database. A role that may read and write
    /// the rows, and use the sequence, is enough once the tables are there.
    ///
    /// # Errors
    ///
    /// An SQLite file must have one name: a hard link to it is refused at the next open, since
    /// SQLite keeps its log beside one of the names. While another program has the file locked,
    /// this waits for at most 10 s.
    ///
    /// [`OpenError::InUse`] if the file belongs to somebody, [`OpenError::NewerSchema`] if a later
    /// version of this crate has written it, and [`OpenError::Store`] for all that the store says.
    pub fn open(location: impl AsRef<Path>) -> Result<Builder, OpenError> {
        match locate(location.as_ref())? {
            Location::File(path) => open_sqlite(path),
            Location::Server(url) => open_postgres(url),
        }
    }

    /// Opens a PostgreSQL database by a function that connects to it: with TLS, for example. With
    /// the feature `postgres`.
    ///
    /// It is called now, and again whenever the connection was lost. Let it set timeouts for the
    /// connect, for what TCP has sent (`tcp_user_timeout`) and for silence (`keepalives`), as
    /// `open` does: so the loss of a server that goes without a word is noticed sooner.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[cfg(feature = "postgres")]
    pub fn connect(
        connect: impl FnMut() -> Result<postgres::Client, postgres::Error> + Send + 'static,
    ) -> Result<Builder, OpenError> {
        let store = crate::store::postgres::PostgresStore::open("PostgreSQL", Box::new(connect))?;
        Ok(Builder::new(Box::new(store)))
    }
}

/// Opens a store that is there, for an operator.
pub(crate) fn desk(location: &Path) -> Result<Box<dyn Desk>, OpenError> {
    match locate(location)? {
        Location::File(path) => sqlite_desk(path),
        Location::Server(url) => postgres_desk(url),
    }
}

/// Where a store is.
enum Location<'a> {
    File(&'a Path),
    Server(&'a str),
}

fn locate(path: &Path) -> Result<Location<'_>, OpenError> {
    // A path that is no text is a path.
    let Some(location) = path.to_str() else { return Ok(Location::File(path)) };
    if location.starts_with("postgres://") || location.starts_with("postgresql://") {
        return Ok(Location::Server(location));
    }
    // Not a path, and with a password in it perhaps.
    if location.contains("://") {
        return Err(OpenError::Store {
            location: without_password(location),
            reason: "a URL begins with postgres:// or postgresql://, and all else is the path of a file".to_owned(),
        });
    }
    if location.is_empty() || location.starts_with(':') || location.starts_with("file:") {
        return Err(OpenError::Store {
            location: format!("{location:?}"),
            reason: "it is no path of a file: SQLite would keep it in memory, or unlocked".to_owned(),
        });
    }
    if is_connection_string(location) {
        return Err(OpenError::Store {
            location: "a text with `host=`, `user=` or the like".to_owned(),
            reason: "it is no path of a file: for PostgreSQL write postgres://user:password@host:port/database"
                .to_owned(),
        });
    }
    Ok(Location::File(path))
}

#[cfg(feature = "sqlite")]
fn open_sqlite(path: &Path) -> Result<Builder, OpenError> {
    let store = crate::store::sqlite::SqliteStore::open(path)?;
    Ok(Builder::new(Box::new(store)))
}

#[cfg(feature = "sqlite")]
fn sqlite_desk(path: &Path) -> Result<Box<dyn Desk>, OpenError> {
    Ok(Box::new(crate::store::sqlite::SqliteDesk::open(path)?))
}

#[cfg(not(feature = "sqlite"))]
fn open_sqlite(path: &Path) -> Result<Builder, OpenError> {
    Err(OpenError::NoSuchStore { location: path.display().to_string(), feature: "sqlite" })
}

#[cfg(not(feature = "sqlite"))]
fn sqlite_desk(path: &Path) -> Result<Box<dyn Desk>, OpenError> {
    Err(OpenError::NoSuchStore { location: path.display().to_string(), feature: "sqlite" })
}

#[cfg(feature = "postgres")]
fn open_postgres(url: &str) -> Result<Builder, OpenError> {
    let store = crate::store::postgres::PostgresStore::open(&without_password(url), connects(url)?)?;
    Ok(Builder::new(Box::new(store)))
}

#[cfg(feature = "postgres")]
fn postgres_desk(url: &str) -> Result<Box<dyn Desk>, OpenError> {
    Ok(Box::new(crate::store::postgres::PostgresDesk::open(&without_password(url), connects(url)?)?))
}

/// Returns what connects to a server.
#[cfg(feature = "postgres")]
fn connects(url: &str) -> Result<crate::store::postgres::Connect, OpenError> {
    let mut config: postgres::Config = url.parse().map_err(|error: postgres::Error| OpenError::Store {
        location: without_password(url),
        reason: error.to_string(),
    })?;
    give_up_on_silence(&mut config);
    Ok(Box::new(move || config.connect(postgres::NoTls)))
}

#[cfg(not(feature = "postgres"))]
fn open_postgres(url: &str) -> Result<Builder, OpenError> {
    Err(OpenError::NoSuchStore { location: without_password(url), feature: "postgres" })
}

#[cfg(not(feature = "postgres"))]
fn postgres_desk(url: &str) -> Result<Box<dyn Desk>, OpenError> {
    Err(OpenError::NoSuchStore { location: without_password(url), feature: "postgres" })
}

/// Whether this is a connection string, which libpq takes beside a URL: `host=db user=app`.
fn is_connection_string(location: &str) -> bool {
    let names = ["host", "hostaddr", "port", "user", "password", "dbname", "sslmode"];
    let first = location.trim_start().split_once('=').map(|(name, _)| name.trim_end());
    first.is_some_and(|name| names.contains(&name))
}

/// A server whose machine has gone says nothing. Without this the system waits for it for a quarter
/// of an hour, or for ever; nothing would be written, and a stop would not end.
#[cfg(feature = "postgres")]
fn give_up_on_silence(config: &mut postgres::Config) {
    const SILENCE: Duration = Duration::from_secs(20);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(SILENCE / 4);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE);
    }
    if config.get_keepalives_idle() == postgres::Config::new().get_keepalives_idle() {
        config.keepalives_idle(SILENCE / 4).keepalives_interval(SILENCE / 4).keepalives_retries(3);
    }
}

/// Returns a URL that may stand in a log: without user, password and options. A password may hold
/// an `@` or a `?` that is not escaped. Then the host may be left out as well.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    let place = if options.contains('@') { "" } else { place.rsplit_once('@').map_or(place, |(_, place)| place) };
    format!("{scheme}://{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_in_an_error() {
        for url in [
            "postgres://app:secret@db:5432/app?password=secret",
            "postgres://app:se@cret@db:5432/app",
            "postgres://db:5432/app?user=app&password=secret",
        ] {
            assert_eq!(without_password(url), "postgres://db:5432/app");
        }
        for url in ["postgres://db/app?user=app&password=se@cret", "postgres://app:sec?ret@db:5432/app"] {
            assert_eq!(without_password(url), "postgres://");
        }
    }

    #[test]
    #[cfg(feature = "postgres")]
    fn a_silent_server_is_given_up_after_what_its_url_says_or_seconds() {
        let configured = |options: &str| {
            let mut config = format!("postgres://db/app{options}").parse().unwrap();
            give_up_on_silence(&mut config);
            config
        };
        let config = configured("");
        let seconds = Duration::from_secs;
        assert_eq!(
            (config.get_connect_timeout(), config.get_tcp_user_timeout()),
            (Some(&seconds(5)), Some(&seconds(20)))
        );
        assert_eq!((config.get_keepalives_idle(), config.get_keepalives_retries()), (seconds(5), Some(3)));
        let config = configured("?connect_timeout=7&tcp_user_timeout=8&keepalives_idle=9");
        assert_eq!(
            (config.get_connect_timeout(), config.get_tcp_user_timeout()),
            (Some(&seconds(7)), Some(&seconds(8)))
        );
        assert_eq!((config.get_keepalives_idle(), config.get_keepalives_retries()), (seconds(9), None));
    }

    #[test]
    fn a_location_that_is_no_path_of_a_file_is_refused_without_its_password() {
        for location in [
            "mysql://app:secret@db/app",
            "Postgres://app:secret@db/app",
            "host=db password=secret",
            "",
            ":memory:",
            "file:a?mode=memory",
        ] {
            let error = DurableTimer::open(location).expect_err("no file would be kept").to_string();
            assert!(!error.contains("secret") && error.contains("path of a file"), "{error}");
        }
    }
}
