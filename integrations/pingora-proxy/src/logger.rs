//! Pingora's warnings and errors, on stderr. Each is a line, which a test can count.

use log::{LevelFilter, Log, Metadata, Record};

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let text = record.args().to_string().replace('\n', " ");
        eprintln!("{} {text}", record.level());
    }

    fn flush(&self) {}
}

pub(crate) fn start() {
    static STDERR: Stderr = Stderr;
    // Nobody else in this process sets one.
    if log::set_logger(&STDERR).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
