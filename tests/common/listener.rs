//! A subscriber that records events.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// An event, and the thread that reported it.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) level: Level,
    /// All fields.
    pub(crate) text: String,
    /// The name of the thread.
    pub(crate) by: String,
}

/// Records the events of the engine.
#[derive(Clone, Default)]
pub(crate) struct Listener(Arc<Mutex<Vec<Heard>>>);

/// Writes all fields of an event.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{field}={value:?};");
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tourbillon"
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let (level, by) = (*event.metadata().level(), thread::current().name().unwrap_or_default().to_owned());
        self.0.lock().expect("no panic under this lock").push(Heard { level, text: fields.0.clone(), by });
        assert!(!fields.0.contains("the listener panics"), "as a test wants it");
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

impl Listener {
    /// Records events of all threads of the process.
    pub(crate) fn of_all() -> Self {
        let listener = Self::default();
        tracing::subscriber::set_global_default(listener.clone()).expect("the first");
        listener
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.0.lock().expect("no panic under this lock").clone()
    }

    /// Returns the events of the threads whose names begin with `by`.
    pub(crate) fn heard_by(&self, by: &str) -> Vec<Heard> {
        self.heard().into_iter().filter(|heard| heard.by.starts_with(by)).collect()
    }
}
