//! More than 64 engines at a time are said to be too many, once. The count is the process's, so this binary has one test.

use std::fmt;
use std::sync::{Arc, Mutex};

use tourbillon::{Builder, Timer};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Keeps the events of the engine.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<(Level, String)>>>);

/// Writes all fields of an event.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{field}={value:?};");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tourbillon")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().expect("no panic").push((*event.metadata().level(), fields.0));
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

impl Listener {
    fn heard(&self) -> Vec<(Level, String)> {
        self.0.lock().expect("no panic").clone()
    }
}

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
    let listener = Listener::default();
    tracing::subscriber::set_global_default(listener.clone()).expect("the first");
    // Many one after the other are not many at a time; nor are the clones of one.
    (0..500).for_each(|n| drop(engine(n)));
    let mut engines: Vec<_> = (0..64).map(engine).collect();
    let clones = engines.clone();
    assert_eq!(listener.heard().len(), 0, "64 are not yet too many");
    // A clone keeps this one alive, so the next is the 65th.
    drop(engines.pop());
    engines.push(engine(0));
    assert_eq!((listener.heard().len(), clones.len()), (1, 64));
    let (level, text) = listener.heard().remove(0);
    assert_eq!(level, Level::WARN);
    assert!(text.contains("64") && text.contains("living=65") && text.contains("Timer::global"), "{text}");
    engines.extend((0..100).map(engine));
    assert_eq!(listener.heard().len(), 1, "once");
    drop((engines, clones));
    let again: Vec<_> = (0..100).map(engine).collect();
    assert_eq!((listener.heard().len(), again.len()), (1, 100), "and never again");
}
