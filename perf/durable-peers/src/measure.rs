//! The two measurements.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Result;
use clap::ValueEnum;
use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout_at};

use crate::peer::{Due, Peer, Ran, SECOND, Seen, Window, now};

/// What else goes on while timeouts fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As many are scheduled a second as fall due. A system whose inserts wake its workers profits.
    Steady,
    /// Nothing: all were scheduled before.
    Quiet,
}

/// One load of timeouts.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub mode: Mode,
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

/// How late the timeouts of one load ran, in microseconds.
#[derive(Clone, Debug)]
pub struct Lateness {
    pub expected: u64,
    /// How many were durable only after they were due, as the system schedules too slowly.
    pub late_schedules: u64,
    pub ran: Ran,
}

impl Load {
    fn window(&self) -> Window {
        let lead = Due::try_from(self.lead).expect("a lead is some seconds");
        Window { start: now() + lead * SECOND, rate: self.rate, count: self.rate * self.seconds }
    }

    /// How many there are to schedule: in the steady mode some more, which are due after the
    /// window, so that the scheduling goes on until its end.
    fn total(&self) -> u64 {
        match self.mode {
            Mode::Steady => self.rate * (self.seconds + self.lead),
            Mode::Quiet => self.rate * self.seconds,
        }
    }
}

/// Runs a load. The workers of `peer` run already, and report to `seen`.
pub async fn lateness(peer: &dyn Peer, seen: &Seen, load: Load) -> Result<Lateness> {
    let window = load.window();
    seen.watch(window);
    let length = Duration::from_secs(load.lead + load.seconds);
    let end = Instant::now() + length + load.grace;
    let late_schedules = AtomicU64::new(0);
    // Whoever schedules too slowly is stopped at the end.
    if let Ok(scheduled) = timeout_at(end, schedule(peer, window, load, &late_schedules)).await {
        scheduled?;
    }
    while seen.count() < window.count && Instant::now() < end {
        sleep(Duration::from_millis(20)).await;
    }
    Ok(Lateness { expected: window.count, late_schedules: late_schedules.into_inner(), ran: seen.result() })
}

async fn schedule(peer: &dyn Peer, window: Window, load: Load, late: &AtomicU64) -> Result<()> {
    // What falls due within 50 ms is one call, if the system has one for several.
    let chunk = if peer.has_batch() { (load.rate / 20).clamp(1, 1000) } else { 1 };
    let next = AtomicU64::new(0);
    let (next, total) = (&next, load.total());
    let lead = Due::try_from(load.lead)? * SECOND;
    try_join_all((0..load.producers).map(|_| async move {
        loop {
            let first = next.fetch_add(chunk, Relaxed);
            if first >= total {
                return anyhow::Ok(());
            }
            let dues: Vec<Due> = (first..total.min(first + chunk)).map(|index| window.due(index)).collect();
            if load.mode == Mode::Steady {
                let wait = u64::try_from(dues[0] - lead - now()).unwrap_or(0);
                sleep(Duration::from_micros(wait)).await;
            }
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
#[derive(Clone, Copy, Debug)]
pub struct Schedules {
    pub one_by_one: f64,
    /// In calls of 1,000, if the system has a call for several.
    pub in_batches: Option<f64>,
}

pub async fn schedules(peer: &dyn Peer, producers: usize, time: Duration) -> Result<Schedules> {
    let rate = async |batch| -> Result<f64> {
        let started = Instant::now();
        let count = peer.produce(producers, time, batch).await?;
        Ok(count as f64 / started.elapsed().as_secs_f64())
    };
    let one_by_one = rate(1).await?;
    let in_batches = if peer.has_batch() { Some(rate(1000).await?) } else { None };
    Ok(Schedules { one_by_one, in_batches })
}

/// Starts the workers, and runs the loads one after the other.
pub async fn latenesses(peer: &dyn Peer, loads: &[Load]) -> Result<Vec<Lateness>> {
    let seen = Arc::new(Seen::default());
    peer.work(seen.clone()).await?;
    let mut results = Vec::new();
    for (index, &load) in loads.iter().enumerate() {
        if index > 0 {
            // What was due after the window of the load before is not to be in the way.
            sleep(Duration::from_secs(load.lead + 1)).await;
        }
        results.push(lateness(peer, &seen, load).await?);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    /// Runs each timeout 3 ms after it is due.
    #[derive(Default)]
    struct Exact {
        seen: std::sync::OnceLock<Arc<Seen>>,
        loses: u64,
    }

    #[async_trait]
    impl Peer for Exact {
        fn has_batch(&self) -> bool {
            true
        }

        async fn schedule(&self, dues: &[Due]) -> Result<()> {
            let Some(seen) = self.seen.get() else { return Ok(()) };
            dues.iter().skip(usize::try_from(self.loses)?).for_each(|&due| seen.ran(due, due + 3000));
            Ok(())
        }

        async fn work(&self, seen: Arc<Seen>) -> Result<()> {
            self.seen.get_or_init(|| seen);
            Ok(())
        }
    }

    const LOAD: Load =
        Load { mode: Mode::Steady, rate: 1000, seconds: 1, lead: 1, producers: 2, grace: Duration::from_millis(50) };

    #[tokio::test]
    async fn a_load_expects_its_rate_for_its_seconds() {
        for mode in [Mode::Steady, Mode::Quiet] {
            let results = latenesses(&Exact::default(), &[Load { mode, ..LOAD }]).await.unwrap();
            let Lateness { expected, late_schedules, ran } = &results[0];
            assert_eq!((*expected, *late_schedules, ran.ran), (1000, 0, 1000));
            assert!((2990..=3010).contains(&ran.p50), "{ran:?}");
        }
    }

    #[tokio::test]
    async fn what_never_ran_is_missing_from_the_result() {
        let peer = Exact { loses: 10, ..Exact::default() };
        let results = latenesses(&peer, &[LOAD]).await.unwrap();
        // Ten of each of the 20 calls within the window.
        assert_eq!(results[0].ran.ran, 800);
    }
}
