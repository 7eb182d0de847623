//! An order and its timeout in one transaction: neither is there without the other. Give it the
//! URL of a PostgreSQL database, or nothing for an SQLite file.
//!
//! ```text
//! cargo run -p tourbillon-durable --all-features --example order_service [postgres://…]
//! ```

use std::sync::mpsc;
use std::time::Duration;

use anyhow::Context;
use postgres::NoTls;
use rusqlite::TransactionBehavior;
use tourbillon::Timer;
use tourbillon_durable::{DurableTimer, Outcome, transaction};

const ORDERS: &str = "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)";
const TIME_TO_PAY: Duration = Duration::from_secs(1);

fn main() -> anyhow::Result<()> {
    let url = std::env::args().nth(1);
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("shop.db");
    let store = url.as_deref().or(file.to_str()).context("a path in UTF-8")?;
    let (close, closed) = mpsc::channel();
    let timers = DurableTimer::open(store)?
        .handler("close_order", move |due| {
            // UPDATE orders SET state = 'closed' WHERE id = … AND state = 'unpaid'
            _ = close.send(due.key().to_owned());
            Outcome::Done
        })
        .start(&Timer::new()?)?;
    let expected = if let Some(url) = url {
        order_by_postgres(&url)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(order_by_tokio_postgres(&url))?;
        2
    } else {
        order_by_rusqlite(store)?;
        1
    };
    for _ in 0..expected {
        println!("{} was not paid in time", closed.recv_timeout(Duration::from_secs(60))?);
    }
    timers.stop();
    anyhow::ensure!(closed.try_recv().is_err(), "an order that was paid, or never made, was closed");
    Ok(())
}

fn order_by_rusqlite(path: &str) -> anyhow::Result<()> {
    use transaction::sqlite as timeouts;

    let mut client = rusqlite::Connection::open(path)?;
    client.execute_batch(ORDERS)?;
    for id in [1, 2, 3] {
        let transaction = client.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("INSERT INTO orders VALUES (?1, 'unpaid')", [id])?;
        timeouts::schedule(&transaction, &format!("order:{id}"), TIME_TO_PAY, "close_order", b"")?;
        // The third one is dropped, and is rolled back.
        if id < 3 {
            transaction.commit()?;
        }
    }
    let transaction = client.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if timeouts::cancel(&transaction, "order:2")? {
        transaction.execute("UPDATE orders SET state = 'paid' WHERE id = 2", [])?;
        transaction.commit()?;
    }
    Ok(())
}

fn order_by_postgres(url: &str) -> anyhow::Result<()> {
    use transaction::postgres as timeouts;

    let mut client = postgres::Client::connect(url, NoTls)?;
    client.batch_execute(ORDERS)?;
    let mut transaction = client.transaction()?;
    transaction.execute("INSERT INTO orders VALUES (1, 'unpaid') ON CONFLICT DO NOTHING", &[])?;
    timeouts::schedule(&mut transaction, "order:1", TIME_TO_PAY, "close_order", b"")?;
    transaction.commit()?;
    Ok(())
}

async fn order_by_tokio_postgres(url: &str) -> anyhow::Result<()> {
    use transaction::tokio_postgres as timeouts;

    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    for id in [2, 3] {
        let transaction = client.transaction().await?;
        transaction.execute("INSERT INTO orders VALUES ($1, 'unpaid') ON CONFLICT DO NOTHING", &[&id]).await?;
        timeouts::schedule(&transaction, &format!("order:{id}"), TIME_TO_PAY, "close_order", b"").await?;
        transaction.commit().await?;
    }
    let transaction = client.transaction().await?;
    if timeouts::cancel(&transaction, "order:3").await? {
        transaction.execute("UPDATE orders SET state = 'paid' WHERE id = 3", &[]).await?;
        transaction.commit().await?;
    }
    Ok(())
}
