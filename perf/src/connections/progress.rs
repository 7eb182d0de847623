//! What is shown while the run is on: a bar on a terminal, a plain line now and then elsewhere.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tourbillon::Timer;

use super::lane::Lane;
use super::population::Throughput;
use super::recorder::Recorder;
use crate::number::{grouped, grouped_len};

/// How often the bar moves.
const REDRAW: Duration = Duration::from_millis(200);

/// How often a plain line is written where there is no terminal for a bar.
const PLAIN: Duration = Duration::from_secs(5);

/// Says what is being done before the run's clock starts; the line goes away with the
/// returned value. Without a terminal nothing is shown.
pub(crate) fn stage(what: String) -> Stage {
    Stage(stderr().is_terminal().then(|| {
        let spinner = ProgressBar::new_spinner().with_message(what);
        spinner.enable_steady_tick(REDRAW);
        spinner
    }))
}

/// See [`stage`].
#[derive(Debug)]
pub(crate) struct Stage(Option<ProgressBar>);

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(spinner) = &self.0 {
            spinner.finish_and_clear();
        }
    }
}

/// Totals at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    scheduled: u64,
    reset: u64,
    cancelled: u64,
    fired: u64,
    answers: u64,
    silent: u64,
    reaped: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Progress {
    timer: Timer,
    lanes: Vec<Arc<Lane>>,
    throughput: Arc<Throughput>,
    recorder: Arc<Recorder>,
    bar: Option<ProgressBar>,
    begin: Instant,
    last: (Instant, Totals),
}

impl Progress {
    pub(crate) fn new(
        timer: Timer,
        lanes: Vec<Arc<Lane>>,
        throughput: Arc<Throughput>,
        recorder: Arc<Recorder>,
        begin: Instant,
        run: Duration,
    ) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let length = u64::try_from(run.as_millis()).unwrap_or(u64::MAX);
            let style = ProgressStyle::with_template("{elapsed:>4} {bar:16.cyan} {prefix}\n     {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(length).with_style(style)
        });
        let mut this = Self { timer, lanes, throughput, recorder, bar, begin, last: (begin, Totals::default()) };
        this.last = (Instant::now(), this.totals());
        this
    }

    /// How long to wait before the next [`Self::show`].
    pub(crate) fn pause(&self) -> Duration {
        REDRAW
    }

    /// Moves the bar, or writes a line when it is time for one.
    pub(crate) fn show(&mut self, waiting_for_reaps: bool) {
        let now = Instant::now();
        if self.bar.is_none() && now - self.last.0 < PLAIN {
            return;
        }
        let totals = self.totals();
        let state = self.state(totals, waiting_for_reaps);
        let rates = self.rates(now, totals);
        match &self.bar {
            Some(bar) => {
                let elapsed = (now - self.begin).as_millis();
                bar.set_position(u64::try_from(elapsed).unwrap_or(u64::MAX));
                bar.set_prefix(state);
                bar.set_message(rates);
                // The rates are those of the last second or so: short enough to see a stall.
                if now - self.last.0 < Duration::from_secs(1) {
                    return;
                }
            }
            None => eprintln!("{:>4.0} s  {state}; {rates}", (now - self.begin).as_secs_f64()),
        }
        self.last = (now, totals);
    }

    /// Takes the bar away: the tables come next.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn state(&self, totals: Totals, waiting_for_reaps: bool) -> String {
        format!(
            "{} pending, {} clients silent, {} reaped{}",
            grouped_len(self.timer.pending()),
            grouped(totals.silent),
            grouped(totals.reaped),
            if waiting_for_reaps { "; waiting" } else { "" }
        )
    }

    fn rates(&self, now: Instant, totals: Totals) -> String {
        let (then, before) = self.last;
        let seconds = (now - then).as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| {
            let rate = now.saturating_sub(before) as f64 / seconds;
            match rate {
                r if r < 9_950.0 => format!("{r:.0}"),
                r if r < 999_500.0 => format!("{:.0}k", r / 1e3),
                r => format!("{:.1}M", r / 1e6),
            }
        };
        format!(
            "a second: {} new, {} reset, {} cancelled, {} fired, {} answers",
            rate(totals.scheduled, before.scheduled),
            rate(totals.reset, before.reset),
            rate(totals.cancelled, before.cancelled),
            rate(totals.fired, before.fired),
            rate(totals.answers, before.answers),
        )
    }

    fn totals(&self) -> Totals {
        let sum =
            |gauge: fn(&Lane) -> &AtomicU64| self.lanes.iter().map(|lane| gauge(lane).load(Ordering::Relaxed)).sum();
        Totals {
            scheduled: self.throughput.scheduled.load(Ordering::Relaxed),
            reset: self.throughput.reset.load(Ordering::Relaxed),
            cancelled: self.throughput.cancelled.load(Ordering::Relaxed),
            fired: self.recorder.fired_so_far(),
            answers: sum(|lane| &lane.gauges.answers),
            silent: sum(|lane| &lane.gauges.silent),
            reaped: sum(|lane| &lane.gauges.reaped),
        }
    }
}
