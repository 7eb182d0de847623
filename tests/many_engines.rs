//! More than 64 engines at a time are reported as too many, once. The count is the process's, so
//! this binary has one test.

#[path = "common/listener.rs"]
mod listener;

use tourbillon::{Builder, Timer};
use tracing::Level;

use listener::Listener;

fn engine(n: usize) -> Timer {
    // A driven engine counts as one with workers does, for as long as one of its timers lives.
    let builder: Builder = Timer::builder();
    if n.is_multiple_of(2) {
        builder.build().expect("the options make sense")
    } else {
        builder.build_driven().expect("the options make sense").0
    }
}

#[test]
fn more_than_64_engines_at_a_time_are_warned_of_once() {
    let listener = Listener::of_all();
    // Many engines one after the other are not many at a time; nor are the clones of one.
    (0..500).for_each(|n| drop(engine(n)));
    let mut engines: Vec<_> = (0..64).map(engine).collect();
    let clones = engines.clone();
    assert_eq!(listener.heard().len(), 0, "64 are not yet too many");
    // A clone keeps this one alive, so the next is the 65th.
    drop(engines.pop());
    engines.push(engine(0));
    assert_eq!((listener.heard().len(), clones.len()), (1, 64));
    let warning = listener.heard().remove(0);
    let text = warning.text;
    assert_eq!(warning.level, Level::WARN);
    assert!(text.contains("64") && text.contains("living=65") && text.contains("Timer::global"), "{text}");
    engines.extend((0..100).map(engine));
    assert_eq!(listener.heard().len(), 1, "once");
    drop((engines, clones));
    let again: Vec<_> = (0..100).map(engine).collect();
    assert_eq!((listener.heard().len(), again.len()), (1, 100), "and never again");
}
