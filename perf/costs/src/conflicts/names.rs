//! What is in a line, told by the code that touches it.

use std::collections::BTreeSet;

use crate::places::Place;

/// A name, and how to know it: the file that the instruction itself stands in, or any file if that
/// is empty; and the file and a part of the name of a function that it was inlined into.
type Rule = (&'static str, &'static str, &'static str, &'static str);

const TIMEOUT: &str = "the timeout's own line";
const THREAD: &str = "the other thread's state: its entries and its counts";
const COUNTERS: &str = "the shard's counters";

/// The first that fits one of the places. What travels comes first, then what belongs to a thread
/// or to a shard, then what belongs to the engine.
const RULES: [Rule; 18] = [
    ("the inbox's head", "src/shard/inbox.rs", "src/shard/inbox.rs", ""),
    ("the cancelled queue's head", "src/shard/side_queue.rs", "src/shard/remote.rs", "push_cancelled"),
    ("the reset queue's head", "src/shard/side_queue.rs", "src/shard/remote.rs", "push_reset"),
    (TIMEOUT, "src/entry/state", "src/entry/state", ""),
    ("a node of the reset queue", "", "src/entry/queued.rs", "Node"),
    (THREAD, "src/count/counters.rs", "src/engine/shared.rs", "count"),
    (THREAD, "", "src/thread/", ""),
    (THREAD, "", "src/arena/entry_cache.rs", ""),
    (TIMEOUT, "", "src/entry/", ""),
    ("the shard's lateness", "", "src/count/lateness.rs", ""),
    ("what the thread is running", "", "src/count/watchdog.rs", "Running"),
    ("the shard's heartbeat", "", "src/count/watchdog.rs", "Heartbeat"),
    ("the wheel's bitmaps", "", "src/wheel/", ""),
    (COUNTERS, "src/count/counters.rs", "src/engine/", ""),
    (COUNTERS, "", "src/engine/turn.rs", "note"),
    ("the engine's owners", "", "src/engine/owners.rs", ""),
    ("the lock of threads that have ended", "", "src/engine/shared.rs", "sum"),
    ("the batches on their way", "", "src/engine/in_flight.rs", ""),
];

/// Returns the name of a line that these places write, and those read. A line that no rule knows is
/// called by the code.
pub(crate) fn name(writers: &[&Place], readers: &[&Place]) -> String {
    let known = |places: &[&Place]| RULES.iter().find(|rule| places.iter().any(|place| fits(rule, place)));
    match known(writers).or_else(|| known(readers)) {
        Some(rule) => rule.0.to_owned(),
        None => {
            let frames = writers.iter().chain(readers).flat_map(|place| &place.frames);
            let texts: BTreeSet<_> = frames.map(|(name, line)| format!("{name} {line}")).collect();
            texts.into_iter().collect::<Vec<_>>().join(" + ")
        }
    }
}

fn fits(&(_, at, within, function): &Rule, place: &Place) -> bool {
    // A line of 0 is shown as `?`: the compiler has put it together out of several.
    let is_known = |line: &str| line.starts_with("src/") && !line.ends_with(":?");
    let engines = || place.frames.iter().filter(|(_, line)| is_known(line));
    engines().next().is_some_and(|(_, line)| line.starts_with(at))
        && engines().any(|(name, line)| line.starts_with(within) && name.contains(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(frames: &[(&str, &str)]) -> Place {
        Place { frames: frames.iter().map(|&(name, line)| (name.to_owned(), line.to_owned())).collect() }
    }

    #[test]
    fn a_line_is_called_by_what_it_holds() {
        let head = place(&[
            ("core::fetch", "library/core/src/atomic.rs:1"),
            ("SideQueue<T>::push", "src/shard/side_queue.rs:46"),
            ("Remote::push_cancelled", "src/shard/remote.rs:9"),
        ]);
        let link = place(&[
            ("ShownPtr::set", "src/sync.rs:3"),
            ("Entry::set_next", "src/entry/mod.rs:7"),
            ("SideQueue<T>::push", "src/shard/side_queue.rs:45"),
            ("Remote::push_cancelled", "src/shard/remote.rs:9"),
        ]);
        assert_eq!(name(&[&head], &[]), "the cancelled queue's head");
        assert_eq!(name(&[&link], &[&head]), "the timeout's own line", "who writes it decides");
        assert_eq!(name(&[], &[&head]), "the cancelled queue's head");
        let unknown = place(&[("f", "src/new.rs:1")]);
        assert_eq!(name(&[&unknown], &[]), "f src/new.rs:1");
    }
}
