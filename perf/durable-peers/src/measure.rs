//! The two measurements.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Result;
use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};

use crate::peer::{Due, Lateness, Peer, SECOND, Seen, Window, now};

/// One load of timeouts. Meanwhile as many are scheduled a second as fall due.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Timeouts a second.
    pub rate: u64,
    pub seconds: u64,
    /// How long before it is due a timeout is scheduled, in seconds.
    pub lead: u64,
    /// How many schedule at once.
    pub producers: usize,
    /// How long after the last was due the others are waited for.
    pub grace: Duration,
}

/// Starts the workers, and runs a load.
pub async fn lateness(peer: &dyn Peer, load: Load) -> Result<Lateness> {
    let lead = Due::try_from(load.lead)? * SECOND;
    let window = Window { start: now() + lead, rate: load.rate, count: load.rate * load.seconds };
    let seen = Arc::new(Seen::new(window));
    peer.work(seen.clone()).await?;
    let end = Instant::now() + Duration::from_secs(load.lead + load.seconds) + load.grace;
    let late = AtomicU64::new(0);
    // Whoever schedules too slowly is stopped at the end.
    if let Ok(scheduled) = timeout_at(end, schedule(peer, window, load, &late)).await {
        scheduled?;
    }
    while seen.result().ran < window.count && Instant::now() < end {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(Lateness { expected: window.count, scheduled_late: late.into_inner(), ..seen.result() })
}

async fn schedule(peer: &dyn Peer, window: Window, load: Load, late: &AtomicU64) -> Result<()> {
    // What falls due within 50 ms is one call.
    let chunk = (load.rate / 20).clamp(1, 1000);
    let next = AtomicU64::new(0);
    // Some more, which are due after the window, so that the scheduling goes on until its end.
    let (next, total) = (&next, load.rate * (load.seconds + load.lead));
    let lead = Due::try_from(load.lead)? * SECOND;
    try_join_all((0..load.producers).map(|_| async move {
        loop {
            let first = next.fetch_add(chunk, Relaxed);
            if first >= total {
                return anyhow::Ok(());
            }
            let dues: Vec<Due> = (first..total.min(first + chunk)).map(|index| window.due(index)).collect();
            let wait = u64::try_from(dues[0] - lead - now()).unwrap_or(0);
            sleep(Duration::from_micros(wait)).await;
            peer.schedule(&dues).await?;
            let durable = now();
            let in_window = dues.iter().zip(first..).filter(|&(_, index)| index < window.count);
            late.fetch_add(in_window.filter(|&(&due, _)| due < durable).count() as u64, Relaxed);
        }
    }))
    .await?;
    Ok(())
}

/// How many timeouts a second become durable.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Schedules {
    pub one_by_one: f64,
    /// In calls of 1,000.
    pub in_batches: Option<f64>,
}

pub async fn schedules(peer: &dyn Peer, producers: usize, time: Duration) -> Result<Schedules> {
    let rate = async |batch| -> Result<f64> {
        let started = Instant::now();
        let count = peer.produce(producers, time, batch).await?;
        Ok(count as f64 / started.elapsed().as_secs_f64())
    };
    Ok(Schedules { one_by_one: rate(1).await?, in_batches: Some(rate(1000).await?) })
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    /// Runs each timeout 3 ms after it is due, but for some of each call, which it loses.
    #[derive(Default)]
    struct Exact {
        seen: std::sync::OnceLock<Arc<Seen>>,
        loses: usize,
    }

    #[async_trait]
    impl Peer for Exact {
        async fn schedule(&self, dues: &[Due]) -> Result<()> {
            let Some(seen) = self.seen.get() else { return Ok(()) };
            dues.iter().skip(self.loses).for_each(|&due| seen.ran(due, due + 3000));
            Ok(())
        }

        async fn work(&self, seen: Arc<Seen>) -> Result<()> {
            self.seen.get_or_init(|| seen);
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_load_expects_its_rate_for_its_seconds_and_misses_what_never_ran() {
        let load = Load { rate: 1000, seconds: 1, lead: 1, producers: 2, grace: Duration::from_millis(50) };
        for (loses, ran) in [(0, 1000), (10, 800)] {
            let found = lateness(&Exact { loses, ..Exact::default() }, load).await.unwrap();
            assert_eq!((found.expected, found.scheduled_late, found.ran), (1000, 0, ran));
            assert!((2.99..=3.01).contains(&found.p50_ms), "{found:?}");
        }
    }
}
