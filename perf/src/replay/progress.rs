//! How far a replay on the real clock is: a bar on a terminal, a plain line now and then elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::count::Counts;
use crate::number::{grouped, grouped_len};

const REDRAW: Duration = Duration::from_millis(100);
const PLAIN: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct Progress {
    requests: usize,
    bar: Option<ProgressBar>,
    begin: Instant,
    last: Instant,
}

impl Progress {
    pub(crate) fn new(requests: usize) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{elapsed:>4} {bar:24.cyan} {msg}, {eta} left")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(requests as u64).with_style(style)
        });
        let now = Instant::now();
        Self { requests, bar, begin: now, last: now }
    }

    /// Shows the counts, if it is time to.
    pub(crate) fn show(&mut self, counts: Counts) {
        let pause = if self.bar.is_some() { REDRAW } else { PLAIN };
        if self.last.elapsed() < pause {
            return;
        }
        self.last = Instant::now();
        let text = format!(
            "{} of {} requests, {} opened, {} reset",
            grouped(counts.requests),
            grouped_len(self.requests),
            grouped(counts.opened),
            grouped(counts.reset)
        );
        match &self.bar {
            Some(bar) => {
                bar.set_position(counts.requests);
                bar.set_message(text);
            }
            None => eprintln!("{:>4.0} s  {text}", self.begin.elapsed().as_secs_f64()),
        }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
