//! `graphile_worker`, Graphile Worker rewritten in Rust.

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_trait::async_trait;
use chrono::DateTime;
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::peer::{Due, Peer, Seen, now};

pub struct Graphile {
    pool: PgPool,
    utils: WorkerUtils,
}

#[derive(Deserialize, Serialize)]
struct Timeout {
    due: Due,
}

#[derive(Clone)]
struct Reports(Arc<Seen>);

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reports")
    }
}

impl TaskHandler for Timeout {
    const IDENTIFIER: &'static str = "timeout";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        let Some(Reports(seen)) = context.get_ext::<Reports>() else { return Err("no one to report to") };
        seen.ran(self.due, now());
        Ok(())
    }
}

fn options(pool: &PgPool) -> WorkerOptions {
    WorkerOptions::default().pg_pool(pool.clone()).listen_os_shutdown_signals(false).define_job::<Timeout>()
}

impl Graphile {
    pub async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(20).connect(url).await?;
        // `init` migrates, so that the utilities find the tables.
        let utils = options(&pool).init().await.context("graphile_worker: init")?.create_utils();
        Ok(Graphile { pool, utils })
    }
}

#[async_trait]
impl Peer for Graphile {
    async fn schedule(&self, dues: &[Due]) -> Result<()> {
        let spec = |due: Due| -> Result<JobSpec> {
            Ok(JobSpec::builder().run_at(DateTime::from_timestamp_micros(due).context("no such time")?).build())
        };
        if let &[due] = dues {
            self.utils.add_job(Timeout { due }, spec(due)?).await.context("graphile_worker: add_job")?;
            return Ok(());
        }
        let jobs: Vec<RawJobSpec> = dues
            .iter()
            .map(|&due| {
                let payload = serde_json::to_value(Timeout { due })?;
                Ok(RawJobSpec { identifier: Timeout::IDENTIFIER.to_owned(), payload, spec: spec(due)? })
            })
            .collect::<Result<_>>()?;
        self.utils.add_raw_jobs(&jobs).await.context("graphile_worker: add_raw_jobs")?;
        Ok(())
    }

    async fn work(&self, seen: Arc<Seen>) -> Result<()> {
        let options = options(&self.pool)
            .add_extension(Reports(seen))
            .local_queue(LocalQueueConfig::default().with_size(500))
            .poll_interval(Duration::from_millis(10))
            .concurrency(8)
            .complete_job_batch_delay(Duration::from_millis(5));
        let worker = options.init().await.context("graphile_worker: init")?;
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("graphile_worker: the worker ended: {error}");
            }
        });
        Ok(())
    }
}
