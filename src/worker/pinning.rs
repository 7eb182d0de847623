//! Chooses the core for each worker, out of those that the process was given.

use std::hash::{BuildHasher, RandomState};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Which cores the workers are pinned to. `ShardStats::pinned_to`, in [`Stats`](crate::Stats),
/// reports the result.
///
/// Workers and threads of the default pool use the cores that the process was given, by its cpuset
/// or by `taskset`. It does not matter what a thread of the program, `main` included, has pinned
/// itself to. On Linux these are the cores that the main thread had when the program was loaded (or
/// the library that the engine is in), and those that it has now, as a cpuset may grow. If the
/// cpuset has shrunk since, the system refuses a core that is gone, and that worker is not pinned.
///
/// `taskset --all-tasks` on a running process moves its threads, and those that its workers start
/// later. It does not move a worker that starts later.
///
/// ```
/// use tourbillon::{Pinning, Timer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let timer = Timer::builder().shards(1).pinning(Pinning::Cores(vec![0])).build()?;
/// # drop(timer);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pinning {
    /// Each worker gets a core of its own, if the process has more cores than the engine has
    /// workers, so that at least one core is left without a worker. Otherwise no worker is pinned.
    /// Engines of one process start at different cores. Each process starts at a random core, so
    /// that the processes of a host don't all use the same one.
    ///
    /// A worker is pinned once, when it starts, and stays there. If a thread of a real-time policy,
    /// or of a far higher priority (nice -20), keeps its core busy, timeouts are late for as long.
    /// Use [`None`](Self::None) beside such threads.
    #[default]
    Auto,
    /// No worker is pinned. The operating system decides where workers run, and may move them.
    None,
    /// Worker i is pinned to core `cores[i % cores.len()]`. Each must be one of the process's
    /// cores.
    Cores(Vec<usize>),
}

/// How many workers with automatic pinning came before, so that engines don't all use the same
/// core.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// A random number for this process. A forked child has its parent's keys, but another process
/// number. In a container the process number is often 1, but the keys differ from those in other
/// containers.
fn drawn() -> u64 {
    static KEYS: OnceLock<RandomState> = OnceLock::new();
    KEYS.get_or_init(RandomState::new).hash_one(process::id())
}

/// Returns the places, below `cores`, of the cores for `shards` workers. `before` is how many
/// workers came before. The cores are used in turn from where this process starts, so that the
/// workers of a process are spread evenly.
fn places(drawn: u64, before: usize, shards: usize, cores: usize) -> impl Iterator<Item = usize> {
    let start = usize::try_from(drawn % cores as u64).unwrap_or(0);
    (0..shards).map(move |shard| (start + before % cores + shard) % cores)
}

impl Pinning {
    /// Returns a core for each of `shards` workers, as far as there is one. `allowed` is the result
    /// of [`allowed_cores`](crate::sys::cores::allowed_cores).
    pub(crate) fn plan(&self, shards: usize, allowed: &[usize]) -> Vec<Option<usize>> {
        match self {
            Pinning::Cores(cores) => (0..shards).map(|shard| cores.get(shard % cores.len().max(1)).copied()).collect(),
            Pinning::Auto if shards < allowed.len() => {
                let before = NEXT.fetch_add(shards, Ordering::Relaxed);
                places(drawn(), before, shards, allowed.len()).map(|place| Some(allowed[place])).collect()
            }
            Pinning::None | Pinning::Auto => vec![None; shards],
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
    fn engines_of_a_process_share_no_core_while_one_is_free() {
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
