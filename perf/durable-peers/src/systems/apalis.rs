//! apalis on PostgreSQL, by its crate `apalis-postgres`.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use anyhow::{Context as _, Result};
use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PgTask, PostgresStorage, queries::push_tasks};
use async_trait::async_trait;
use sqlx::postgres::PgPoolOptions;
use tokio::{
    runtime::Handle,
    select,
    sync::watch,
    task::spawn_blocking,
    time::{Interval, MissedTickBehavior},
};

use crate::peer::{Due, Peer, SECOND, Seen, now};

const QUEUE: &str = "timeouts";

pub struct Apalis {
    pool: PgPool,
    // The worker ends when this is dropped.
    running: watch::Sender<()>,
}

impl Apalis {
    pub async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(20).connect(url).await?;
        PostgresStorage::setup(&pool).await?;
        Ok(Apalis { pool, running: watch::Sender::new(()) })
    }
}

#[async_trait]
impl Peer for Apalis {
    async fn schedule(&self, dues: &[Due]) -> Result<()> {
        let tasks: Vec<PgTask> = dues
            .iter()
            .map(|due| {
                // Its times are whole seconds; rounded down, a task would run too early.
                let second = u64::try_from(due.div_euclid(SECOND) + i64::from(due % SECOND != 0))?;
                Ok(TaskBuilder::new(serde_json::to_vec(due)?).run_at_timestamp(second).build())
            })
            .collect::<Result<_>>()?;
        let mut connection = self.pool.acquire().await?;
        push_tasks(&mut *connection, QUEUE, tasks).await.context("apalis: push_tasks")
    }

    async fn work(&self, seen: Arc<Seen>) -> Result<()> {
        let config = Config::default().queue(QUEUE).batch_size(1000);
        let backend = PostgresStorage::<Due>::new(&self.pool).with_config(config).poll_with_strategy(Ticks(None));
        let worker = WorkerBuilder::new("worker").backend(backend).data(seen).parallelize(tokio::spawn).build(handle);
        run(self.running.subscribe(), move || worker.run());
        Ok(())
    }
}

const POLL: Duration = Duration::from_millis(10);

/// What `poll_with_interval` is for. That of 1.0.0 makes its next timer without polling it, so if
/// the timer expires while a fetch goes on that finds nothing, nobody wakes the worker before its
/// next heartbeat, after 30 s. This one polls its timer until it is pending.
struct Ticks(Option<Interval>);

impl PollStrategy for Ticks {
    fn poll_drive(&mut self, context: &mut Context<'_>, _: &PollSnapshot) -> Poll<Option<()>> {
        let interval = self.0.get_or_insert_with(|| {
            let mut interval = tokio::time::interval(POLL);
            interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
            interval
        });
        let mut ticked = Poll::Pending;
        while interval.poll_tick(context).is_ready() {
            ticked = Poll::Ready(Some(()));
        }
        ticked
    }
}

async fn handle(due: Due, seen: Data<Arc<Seen>>) -> Result<(), BoxDynError> {
    seen.ran(due, now());
    Ok(())
}

/// Runs a worker on a thread of its own, as the compiler can't see that its future is `Send`.
fn run<W, F, E>(mut running: watch::Receiver<()>, work: W)
where
    W: FnOnce() -> F + Send + 'static,
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    spawn_blocking(move || {
        Handle::current().block_on(async {
            select! {
                _ = running.changed() => {}
                ended = work() => match ended {
                    Ok(()) => eprintln!("apalis: the worker ended by itself"),
                    Err(error) if running.has_changed().is_ok() => eprintln!("apalis: the worker ended: {error}"),
                    // The runtime has ended under it.
                    Err(_) => {}
                },
            }
        });
    });
}
