//! Uses sqlx, diesel and durable timeouts in one program, each with a file of its own.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use tourbillon::Timer;
use tourbillon_durable::{DurableTimer, Outcome};

type Answer = Result<(), Box<dyn Error>>;

fn diesel(directory: &Path) -> Answer {
    let mut connection = SqliteConnection::establish(&directory.join("diesel.db").display().to_string())?;
    Ok(connection.batch_execute("CREATE TABLE orders (id INTEGER)")?)
}

async fn sqlx(directory: &Path) -> Answer {
    let options = SqliteConnectOptions::new().filename(directory.join("sqlx.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await?;
    let two: i64 = sqlx::query_scalar("SELECT 1 + 1").fetch_one(&pool).await?;
    assert_eq!(two, 2);
    Ok(())
}

fn durable(directory: &Path) -> Answer {
    let (ran, runs) = std::sync::mpsc::channel();
    let timers = DurableTimer::open(directory.join("timeouts.db"))?
        .handler("close", move |due| {
            _ = ran.send(due.key().to_owned());
            Outcome::Done
        })
        .start(&Timer::new()?)?;
    timers.schedule("order:42", Duration::ZERO, "close", b"")?.wait()?;
    assert_eq!(runs.recv_timeout(Duration::from_secs(20))?, "order:42");
    timers.stop();
    Ok(())
}

fn main() -> Answer {
    let directory = tempfile::tempdir()?;
    diesel(directory.path())?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(sqlx(directory.path()))?;
    durable(directory.path())?;
    println!("sqlx, diesel and tourbillon-durable share one SQLite");
    Ok(())
}
