//! The report as tables for people.

use std::fmt;

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::counters::Line;
use super::report::{Cost, Report};
use crate::duration::show_nanos;
use crate::number::{grouped, grouped_f64, grouped_len};

impl Report {
    /// Prints all tables, and the verdict last.
    pub(crate) fn print(&self) {
        self.print_connections();
        self.print_operations();
        self.print_lateness();
        print_cost(&self.cost);
        self.print_counters();
        if self.connections.late_themselves > 0 {
            println!(
                "Note: this machine was too busy. {} active clients spoke later than the idle timeout by their own record, \
                 and were rightly reaped; lateness says more about the machine than about the engine.",
                grouped(self.connections.late_themselves)
            );
        }
        if self.passed {
            println!("All checks hold: none early, none lost, none twice, and the counters reconcile.");
        } else {
            println!("FAILED:");
            for failure in &self.failures {
                println!("  {failure}");
            }
        }
    }

    fn print_connections(&self) {
        let mut table = table(["connections", "count", "must be"]);
        let seen = &self.connections;
        for (what, count) in [
            ("requests", seen.requests),
            ("  answered within their deadline", seen.answered),
            ("  answered when it had passed", seen.deadline_passed),
            ("clients that went silent", seen.went_silent),
            ("connections reaped", seen.reaped),
            ("  kept: a message lay unread when the timeout fired", seen.rescued),
            ("  kept: a request was being worked on", seen.kept_at_work),
            ("  active, but spoke too late themselves (busy machine)", seen.late_themselves),
        ] {
            table.add_row([text(what), number(grouped(count)), number("")]);
        }
        for check in &self.reaping {
            let must_be = format!("{}{}", grouped(check.must_be), mark(check.holds));
            table.add_row([text(check.what), number(grouped(check.count)), number(must_be)]);
        }
        println!("{table}");
    }

    fn print_operations(&self) {
        let mut table = table(["operations", "count", "per second", "ns per op", "median loop"]);
        for operation in &self.operations {
            let rate = operation.per_second.map_or(String::new(), grouped_f64);
            let nanos = |ns: Option<f64>| number(ns.map_or(String::new(), |ns| format!("{ns:.1}")));
            table.add_row([
                text(operation.name),
                number(grouped(operation.operations)),
                number(rate),
                nanos(operation.ns_per_op),
                nanos(operation.ns_per_op_median_loop),
            ]);
        }
        println!("{table}");
        println!(
            "ns per op: as the caller saw it. The clock is read before and after loops of up to 1,000 operations of a kind, on \
             timeouts\nchosen at random; the mean is over all, and half of them were in loops faster than the median. Where \
             the timeouts do not fit\nthe caches, most of it is the way to memory. Those of connections stand alone between \
             system calls and are only counted.\n"
        );
    }

    fn print_lateness(&self) {
        let mut table = table(["lateness (run time - deadline)", "fired", "p50", "p99", "p99.9", "max"]);
        for lateness in &self.lateness {
            let values = [lateness.p50_ns, lateness.p99_ns, lateness.p999_ns, lateness.max_ns];
            let shown = values.map(|ns| match lateness.fired {
                0 => number("-"),
                _ => number(show_nanos(ns)),
            });
            let mut row = vec![text(lateness.of), number(grouped(lateness.fired))];
            row.extend(shown);
            table.add_row(row);
        }
        println!("{table}");
    }

    fn print_counters(&self) {
        let mut table = table(["counters", "this program", "engine's stats()", ""]);
        for line in &self.counters {
            table.add_row([
                text(line.what),
                number(&line.program),
                number(&line.engine),
                text(mark(line.holds).trim()),
            ]);
        }
        println!("{table}");
    }
}

fn print_cost(cost: &Cost) {
    let mut table = table(["cost", ""]);
    let mut row = |what: &str, value: String| {
        table.add_row([text(what), number(value)]);
    };
    row(
        "CPU, whole process (sockets, clients and load too)",
        format!(
            "{:.2} s (user {:.2}, system {:.2}) in {:.1} s, {:.0}% of all cores",
            cost.cpu.total_s(),
            cost.cpu.user_s,
            cost.cpu.system_s,
            cost.load_s,
            cost.cpu_share_of_machine * 100.0
        ),
    );
    if let Some(by) = cost.cpu_by_thread {
        for (what, seconds) in [
            ("  the engine: workers and pool, tasks included", by.engine_s),
            ("  TCP server", by.server_s),
            ("  clients", by.clients_s),
            ("  producers", by.producers_s),
        ] {
            let share = seconds / cost.cpu.total_s().max(1e-9) * 100.0;
            row(what, format!("{seconds:.2} s, {share:.0}% of it"));
        }
    }
    row(
        "resident bytes per pending timeout (handles excluded)",
        cost.resident_bytes_per_pending.map_or("unknown here".to_owned(), |bytes| {
            format!("{bytes:.1} with {} pending", grouped_len(cost.built_pending))
        }),
    );
    row("pending at the end of the load", grouped_len(cost.pending_at_end_of_load));
    row(
        "worker wake-ups",
        format!("{}, {:.0} a second", grouped(cost.worker_wakeups), cost.worker_wakeups as f64 / cost.load_s.max(1e-9)),
    );
    let cores: Vec<String> = cost.shards_pinned_to.iter().flatten().map(usize::to_string).collect();
    row(
        "shards",
        match (cost.shards_pinned_to.len(), cores.len()) {
            (shards, 0) => format!("{shards}, not pinned"),
            (shards, pinned) if shards == pinned => format!("{shards}, pinned to core {}", cores.join(", ")),
            (shards, pinned) => format!("{shards}, of them {pinned} pinned to core {}", cores.join(", ")),
        },
    );
    println!("{table}");
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "counters: {}", self.what.trim())?;
        let counts = [("this program counts", &self.program), ("the engine", &self.engine)];
        for (at, (who, count)) in counts.into_iter().filter(|(_, count)| !count.is_empty()).enumerate() {
            write!(f, "{} {who} {count}", if at == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(header);
    table
}

fn text(content: &str) -> Cell {
    Cell::new(content)
}

fn number(content: impl ToString) -> Cell {
    Cell::new(content).set_alignment(CellAlignment::Right)
}

fn mark(holds: bool) -> &'static str {
    if holds { " ok" } else { " WRONG" }
}
