//! Which core a worker is pinned to: only ever one of those that the process was given.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Which cores the workers are pinned to. What came of it is in [`Stats`](crate::Stats): `ShardStats::pinned_to`.
///
/// Workers and threads of the default pool go by the cores that the process was given (by its cpuset, by `taskset`), and not by what a
/// thread of the program has pinned itself to, `main` included. On Linux these are the cores that the first thread had when the program was
/// loaded (or the library that the engine is in), and those that it has now, as a cpuset may grow. If the cpuset has become smaller since,
/// the system refuses a core that is gone, and that worker is not pinned. `taskset --all-tasks`, on a running process, moves its threads,
/// and those that its workers start later. It does not move a worker that starts later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// Each worker gets a core of its own out of the process's cores if there are more cores than workers, so that at
    /// least one is left without; otherwise none is pinned. Engines of one process start at different cores.
    #[default]
    Auto,
    /// The operating system decides, and may move workers about.
    None,
    /// Worker i is pinned to core `cores[i % cores.len()]`. Each must be one of the process's cores.
    Cores(Vec<usize>),
}

/// Where the next engine with automatic pinning starts to count, so that engines don't all sit on one core.
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Pinning {
    /// A core for each of `shards` workers, as far as there is one. `allowed` is what [`allowed_cores`] said.
    pub(crate) fn plan(&self, shards: usize, allowed: &[usize]) -> Vec<Option<usize>> {
        match self {
            Pinning::None => vec![None; shards],
            Pinning::Cores(cores) => (0..shards).map(|shard| cores.get(shard % cores.len().max(1)).copied()).collect(),
            Pinning::Auto if shards < allowed.len() => {
                // From the last core down: interrupts tend to be served by the first.
                let first = NEXT.fetch_add(shards, Ordering::Relaxed);
                let core = |shard| allowed[allowed.len() - 1 - (first + shard) % allowed.len()];
                (0..shards).map(|shard| Some(core(shard))).collect()
            }
            Pinning::Auto => vec![None; shards],
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn automatic_pinning_gives_each_worker_a_core_of_its_own_or_none() {
        let allowed = [1, 3, 5, 7];
        for shards in 1..4 {
            let plan: std::collections::BTreeSet<_> = Pinning::Auto.plan(shards, &allowed).into_iter().collect();
            assert_eq!(plan.len(), shards);
            assert!(plan.iter().all(|core| core.is_some_and(|core| allowed.contains(&core))));
        }
        for shards in 4..9 {
            assert_eq!(Pinning::Auto.plan(shards, &allowed), vec![None; shards]);
        }
    }

    #[test]
    fn given_cores_are_used_in_turn() {
        let pinning = Pinning::Cores(vec![2, 4]);
        assert_eq!(pinning.plan(3, &[]), [Some(2), Some(4), Some(2)]);
    }
}
