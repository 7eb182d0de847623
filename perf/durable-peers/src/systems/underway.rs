//! underway, which runs tasks as steps on PostgreSQL.

use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use jiff::{Span, ToSpan};
use sqlx_0_8::{PgPool, Postgres, Transaction, postgres::PgPoolOptions};
use underway::{Queue, Task, Worker, task::Result as TaskResult};

use crate::peer::{Due, Peer, SECOND, Seen, now, only_one};

pub struct Underway {
    pool: PgPool,
    queue: Arc<Queue<Timeout>>,
    fast: bool,
}

#[derive(Default)]
struct Timeout {
    delay: Span,
    seen: Arc<Seen>,
}

impl Task for Timeout {
    type Input = Due;
    type Output = ();

    async fn execute(&self, _: Transaction<'_, Postgres>, due: Due) -> TaskResult<()> {
        self.seen.ran(due, now());
        Ok(())
    }

    fn delay(&self) -> Span {
        self.delay
    }
}

impl Underway {
    pub async fn open(url: &str, fast: bool) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(20).connect(url).await?;
        underway::run_migrations(&pool).await.context("underway: run_migrations")?;
        let queue =
            Queue::builder().name("timeouts").pool(pool.clone()).build().await.context("underway: the queue")?;
        Ok(Underway { pool, queue: Arc::new(queue), fast })
    }
}

#[async_trait]
impl Peer for Underway {
    // `enqueue_multi` gives all its tasks one delay.
    fn has_batch(&self) -> bool {
        false
    }

    async fn schedule(&self, dues: &[Due]) -> Result<()> {
        let due = only_one(dues)?;
        let delay = Span::new().microseconds((due - now()).max(0));
        self.queue
            .enqueue_after(&self.pool, &Timeout::default(), &due, delay)
            .await
            .context("underway: enqueue_after")?;
        Ok(())
    }

    async fn work(&self, seen: Arc<Seen>) -> Result<()> {
        let mut worker = Worker::new(self.queue.clone(), Timeout { seen, ..Timeout::default() });
        let fast = self.fast;
        if fast {
            worker.set_concurrency_limit(8);
        }
        tokio::spawn(async move {
            let ended = if fast { worker.run_every(10.milliseconds()).await } else { worker.run().await };
            if let Err(error) = ended {
                eprintln!("underway: the worker ended: {error}");
            }
        });
        Ok(())
    }

    async fn fill(&self, pending: usize) -> Result<()> {
        let task = Timeout { delay: 25.hours(), ..Timeout::default() };
        let due = now() + 25 * 3600 * SECOND;
        self.queue.enqueue_multi(&self.pool, &task, &vec![due; pending]).await.context("underway: enqueue_multi")?;
        Ok(())
    }
}
