//! Which core a worker is pinned to: only ever one of those that the process was given.

use std::hash::{BuildHasher, RandomState};
use std::process;
use std::sync::OnceLock;
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
    /// least one is left without; otherwise none is pinned. Engines of one process start at different cores, and each process starts
    /// at a core that it draws, so that the processes of a host don't meet at one.
    ///
    /// On Linux a worker that does not get its core gives it up, for good: one that has waited for it for 20 ms at a time, because a thread of
    /// a real-time policy keeps it busy, for example. From then on it may run on all of the process's cores, `pinned_to` is none, and an
    /// event of the feature `tracing` tells of it. On a machine that merely has a lot to do that is rare, and does no harm. The first to
    /// find out are these. The times were measured on two cores, with a busy `SCHED_FIFO` thread on the worker's.
    ///
    /// - The worker, when it runs again. Until then what is due is late for as long as the other thread keeps the core, up to 0.95 s:
    ///   Linux leaves a twentieth of each second to others, unless it is told not to.
    /// - A thread that schedules, when 1,024 timeouts wait for the worker, and at each 1,024 more. What was due was up to 0.09 s late at 40,000
    ///   schedules a second, and up to 0.57 s at 2,000.
    /// - [`Timer::health`](crate::Timer::health), or two calls of it 20 ms apart if the worker has been called already.
    ///
    /// Nobody finds out about an engine with a [`Clock`](crate::Clock) of the user's.
    #[default]
    Auto,
    /// The operating system decides, and may move workers about.
    None,
    /// Worker i is pinned to core `cores[i % cores.len()]`. Each must be one of the process's cores. A worker stays at the core that it was
    /// given, whether it gets to run there or not.
    Cores(Vec<usize>),
}

/// How many workers with automatic pinning came before, so that engines don't all sit on one core.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// What this process has drawn. A forked child has the keys of its parent and a number of its own. In a container a process often has the
/// number 1, as others have in theirs, and keys of its own.
fn drawn() -> u64 {
    static KEYS: OnceLock<RandomState> = OnceLock::new();
    KEYS.get_or_init(RandomState::new).hash_one(process::id())
}

/// The places, below `cores`, of the cores for so many workers, of which others came `before`. In turn from where this process starts,
/// so that those of one process are spread evenly.
fn places(drawn: u64, before: usize, shards: usize, cores: usize) -> impl Iterator<Item = usize> {
    let start = usize::try_from(drawn % cores as u64).unwrap_or(0);
    (0..shards).map(move |shard| (start + before % cores + shard) % cores)
}

impl Pinning {
    /// A core for each of `shards` workers, as far as there is one. `allowed` is what [`allowed_cores`] said.
    pub(crate) fn plan(&self, shards: usize, allowed: &[usize]) -> Vec<Option<usize>> {
        match self {
            Pinning::None => vec![None; shards],
            Pinning::Cores(cores) => (0..shards).map(|shard| cores.get(shard % cores.len().max(1)).copied()).collect(),
            Pinning::Auto if shards < allowed.len() => {
                let before = NEXT.fetch_add(shards, Ordering::Relaxed);
                places(drawn(), before, shards, allowed.len()).map(|place| Some(allowed[place])).collect()
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
    fn engines_of_a_process_share_no_core_while_there_is_a_free_one_whatever_was_drawn() {
        for drawn in [0, 1, 5, u64::MAX] {
            for before in [0, 3, usize::MAX - 8] {
                let engines = (0..4).flat_map(|engine| places(drawn, before + 2 * engine, 2, 8));
                assert_eq!(
                    engines.collect::<std::collections::BTreeSet<_>>().len(),
                    8,
                    "drawn {drawn}, {before} before"
                );
            }
        }
        let first = |drawn| places(drawn, 0, 1, 8).next();
        assert_eq!((0..8).map(first).collect::<std::collections::BTreeSet<_>>().len(), 8, "each core is drawn");
    }

    #[test]
    fn given_cores_are_used_in_turn() {
        let pinning = Pinning::Cores(vec![2, 4]);
        assert_eq!(pinning.plan(3, &[]), [Some(2), Some(4), Some(2)]);
    }
}
