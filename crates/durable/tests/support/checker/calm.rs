//! When a process can't have lost its lease: it did not stand still, nor did the server.

use std::collections::HashMap;
use std::time::Duration;

use crate::support::history::Micros;

/// The times at which each process has got a commit through at least every [`Calm::GAP`].
pub(crate) struct Calm {
    spans: HashMap<u32, Vec<(Micros, Micros)>>,
    lease: Micros,
}

impl Calm {
    /// A quarter of the shortest lease. Processes beat five times as often.
    const GAP: Micros = 500_000;

    pub(crate) fn new(beats: &HashMap<u32, Vec<Micros>>, lease: Duration) -> Self {
        let spans = beats.iter().map(|(process, beats)| (*process, spans(beats))).collect();
        Self { spans, lease: i64::try_from(lease.as_micros()).expect("a short lease") }
    }

    /// Whether the process was sure to hold its lease from a claim until `to`. The lease may have
    /// been renewed for the last time a whole lease before the claim.
    pub(crate) fn held_its_lease(&self, process: u32, claimed_at: Micros, to: Micros) -> bool {
        let from = claimed_at - self.lease;
        let Some(spans) = self.spans.get(&process) else { return false };
        spans.iter().any(|&(begin, end)| begin <= from && to <= end)
    }

    /// Whether it also held its lease for long enough afterwards to store how the run ended.
    pub(crate) fn stored_its_end(&self, process: u32, claimed_at: Micros, ended: Micros) -> bool {
        self.held_its_lease(process, claimed_at, ended + self.lease)
    }
}

fn spans(beats: &[Micros]) -> Vec<(Micros, Micros)> {
    let mut sorted = beats.to_vec();
    sorted.sort_unstable();
    let calm = sorted.chunk_by(|one, next| next - one <= Calm::GAP);
    calm.map(|beats| (beats[0], beats[beats.len() - 1])).collect()
}
