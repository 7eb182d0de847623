//! Whether cancelled timeouts are collected as fast as they are cancelled, however many are live:
//! the engine's memory over time.

mod churn;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use tourbillon::Timer;

use crate::number::{self, grouped, grouped_len};
use crate::process::CpuTime;
use crate::verdict::Verdict;
pub(crate) use churn::Churn;

/// Options of the garbage table.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct GarbageArgs {
    /// Seconds for each row
    #[arg(long, value_name = "N", default_value = "10", value_parser = number::parse_positive)]
    seconds: usize,

    /// Expiry limits of the engines, one row for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100000,100,10", value_parser = number::parse_positive)]
    limits: Vec<usize>,

    /// How long a schedule may wait for the worker, in milliseconds; with 0 the engine takes memory
    /// instead
    #[arg(long, value_name = "MS", default_value = "20", value_parser = number::parse_count)]
    max_wait: usize,

    /// Reset each timeout to an earlier deadline before it is cancelled
    #[arg(long)]
    resets: bool,
}

const AFTER_HELP: &str = "\
Two threads with 50,000 live timeouts each, and four with 100,000, cancel the oldest for each new
one, as fast as they can. The table shows for how many timeouts the engine has memory, half way
through a row's time, in the end, and at most, and how fast it goes. A row fails if that is not
bounded.";

const ROWS: [(usize, usize); 2] = [(2, 50_000), (4, 100_000)];
const LOOK: Duration = Duration::from_millis(20);

/// Runs all rows, and prints the table.
pub(crate) fn run(args: &GarbageArgs) -> Result<Verdict> {
    let mut table = Table::new();
    table.set_header([
        "threads x live",
        "expiry limit",
        "memory for, half way",
        "in the end",
        "at most",
        "bound",
        "M/s",
        "CPU ns each",
        "longest schedule",
        "waits",
    ]);
    let mut all_good = true;
    let length = Duration::from_secs(args.seconds as u64);
    for (producers, live) in ROWS {
        let churn = Churn { producers, live, resets: args.resets };
        for &limit in &args.limits {
            let max_wait = Duration::from_millis(args.max_wait as u64);
            let timer = Timer::builder().expiry_limit(limit).max_wait(max_wait).build()?;
            let (begun, cpu) = (Instant::now(), CpuTime::now());
            let is_over = AtomicBool::new(false);
            let mut seen = Seen::default();
            let outcome = churn.run(&timer, &is_over, || seen = Seen::watch(&timer, length, &is_over));
            let (took, cpu) = (begun.elapsed(), CpuTime::now().since(cpu).total_s());
            let bound = churn.bound();
            all_good &= outcome.lost == 0 && (seen.most <= bound || max_wait.is_zero());
            table.add_row([
                format!("{} x {}", churn.producers, grouped_len(churn.live)),
                grouped_len(limit),
                grouped_len(seen.half_way),
                grouped_len(seen.last),
                grouped_len(seen.most),
                grouped_len(bound),
                format!("{:.2}", outcome.steps as f64 / took.as_secs_f64() / 1e6),
                format!("{:.0}", cpu * 1e9 / outcome.steps.max(1) as f64),
                format!("{:.1?}", outcome.longest),
                grouped(timer.stats().waits),
            ]);
            eprintln!("garbage: {} x {}, limit {limit}: done", churn.producers, churn.live);
        }
    }
    println!("{table}");
    Ok(Verdict::passed_if(all_good))
}

/// For how many timeouts the engine had memory.
#[derive(Debug, Default)]
struct Seen {
    half_way: usize,
    last: usize,
    most: usize,
}

impl Seen {
    fn watch(timer: &Timer, length: Duration, is_over: &AtomicBool) -> Self {
        let (begin, mut this) = (Instant::now(), Self::default());
        while begin.elapsed() < length {
            thread::sleep(LOOK);
            this.last = timer.stats().capacity;
            this.most = this.most.max(this.last);
            if begin.elapsed() < length / 2 {
                this.half_way = this.last;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        this
    }
}
