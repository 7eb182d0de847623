//! rustqueue as a library: jobs in a file of redb's, in this process.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use async_trait::async_trait;
use rustqueue::{
    JobOptions, QueueManager, RustQueue,
    config::RetentionConfig,
    engine::{
        queue::{BatchAckItem, BatchPushItem},
        scheduler::start_scheduler,
    },
    storage::RedbStorage,
};
use serde_json::Value;

use crate::peer::{Due, Peer, Seen, now, only_one};

const QUEUE: &str = "timeouts";

/// Opens an instance on a new file. With the defaults there is no call for several jobs, so what is
/// to be pending is there already: `Managed` wrote it.
pub async fn open(folder: &Path, fast: bool, pending: usize) -> Result<Arc<dyn Peer>> {
    let file = folder.join(format!("rustqueue-{}.redb", fastrand::u64(..)));
    let managed = Managed { manager: Arc::new(QueueManager::new(Arc::new(RedbStorage::new(&file)?))) };
    if fast {
        return Ok(Arc::new(managed));
    }
    managed.fill(pending).await?;
    drop(managed);
    Ok(Arc::new(Plain(RustQueue::redb(&file)?.build()?)))
}

fn options(due: Due) -> Result<Option<JobOptions>> {
    // Rounded up to its milliseconds, so that no job is early.
    let delay_ms = u64::try_from((due - now()).max(0))?.div_ceil(1000);
    Ok(Some(JobOptions { delay_ms: Some(delay_ms), ..JobOptions::default() }))
}

/// The interface its documentation shows.
struct Plain(RustQueue);

#[async_trait]
impl Peer for Plain {
    fn has_batch(&self) -> bool {
        false
    }

    async fn schedule(&self, dues: &[Due]) -> Result<()> {
        let due = only_one(dues)?;
        self.0.push(QUEUE, "timeout", due.into(), options(due)?).await.context("rustqueue: push")?;
        Ok(())
    }

    async fn work(&self, seen: Arc<Seen>) -> Result<()> {
        let queue = self.0.clone();
        tokio::spawn(async move {
            let handler = |job: rustqueue::Job| {
                if let Some(due) = job.data.as_i64() {
                    seen.ran(due, now());
                }
                async { Ok::<(), String>(()) }
            };
            // Until the runtime ends.
            if let Err(error) = queue.run_worker_with_shutdown(QUEUE, handler, std::future::pending()).await {
                eprintln!("rustqueue: the worker ended: {error}");
            }
        });
        Ok(())
    }

    async fn fill(&self, _: usize) -> Result<()> {
        Ok(())
    }
}

/// The engine below, which has calls for several jobs.
struct Managed {
    manager: Arc<QueueManager>,
}

#[async_trait]
impl Peer for Managed {
    fn has_batch(&self) -> bool {
        true
    }

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
