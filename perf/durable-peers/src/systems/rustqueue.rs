//! rustqueue as a library: jobs in a file of redb's, in this process.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_trait::async_trait;
use rustqueue::{
    JobOptions, QueueManager,
    config::RetentionConfig,
    engine::{
        queue::{BatchAckItem, BatchPushItem},
        scheduler::start_scheduler,
    },
    storage::RedbStorage,
};
use serde_json::Value;

use crate::peer::{Due, Peer, Seen, now};

const QUEUE: &str = "timeouts";

fn options(due: Due) -> Result<Option<JobOptions>> {
    // Rounded up to its milliseconds, so that no job is early.
    let delay_ms = u64::try_from((due - now()).max(0))?.div_ceil(1000);
    Ok(Some(JobOptions { delay_ms: Some(delay_ms), ..JobOptions::default() }))
}

/// The engine, which has calls for several jobs.
pub struct Queue {
    manager: Arc<QueueManager>,
}

impl Queue {
    /// Opens an instance on a new file.
    pub fn open(folder: &Path) -> Result<Self> {
        let file = folder.join(format!("rustqueue-{}.redb", fastrand::u64(..)));
        Ok(Self { manager: Arc::new(QueueManager::new(Arc::new(RedbStorage::new(&file)?))) })
    }
}

#[async_trait]
impl Peer for Queue {
    async fn schedule(&self, dues: &[Due]) -> Result<()> {
        let item = |&due: &Due| -> Result<BatchPushItem> {
            Ok(BatchPushItem { name: "timeout".to_owned(), data: Value::from(due), options: options(due)? })
        };
        let items = dues.iter().map(item).collect::<Result<_>>()?;
        self.manager.push_batch(QUEUE, items).await.context("rustqueue: push_batch")?;
        Ok(())
    }

    async fn work(&self, seen: Arc<Seen>) -> Result<()> {
        // The scheduler's other duties keep their defaults: a job is stalled after 30 s.
        start_scheduler(self.manager.clone(), 10, 30_000, RetentionConfig::default());
        let manager = self.manager.clone();
        tokio::spawn(async move {
            loop {
                if let Err(error) = turn(&manager, &seen).await {
                    eprintln!("rustqueue: the worker ended: {error:#}");
                    return;
                }
            }
        });
        Ok(())
    }
}

async fn turn(manager: &QueueManager, seen: &Seen) -> Result<()> {
    let jobs = manager.pull(QUEUE, 1000).await.context("rustqueue: pull")?;
    if jobs.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        return Ok(());
    }
    for job in &jobs {
        if let Some(due) = job.data.as_i64() {
            seen.ran(due, now());
        }
    }
    let acks = jobs.iter().map(|job| BatchAckItem { id: job.id, result: None }).collect();
    manager.ack_batch(acks).await.context("rustqueue: ack_batch")?;
    Ok(())
}
