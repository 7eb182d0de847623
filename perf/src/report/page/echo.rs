//! The echo servers on runtimes of one thread.

use maud::{Markup, html};

use crate::compare::statistics::Spread;
use crate::report::data::Data;
use crate::report::echo::{EchoServer, servers};
use crate::report::numbers::{short, times};

const TEXT: &str = "Echo servers of one thread with an idle timeout, on runtimes that have a thread for each core: \
    with the runtime's own timers, with Tourbillon's, and with none. The timeout moves at every read, and closes the \
    connection when it fires. The client is on another core and sends as fast as it can. The runs of the servers took \
    turns. × says how many times the processor time of the server with Tourbillon's reset timeout it is. A timeout is \
    late by the time from its deadline until the connection's own task knows.";
/// The timers that the others are compared with.
const OURS: &str = "tourbillon";

/// The table. Nothing if there is no file with runs.
pub(super) fn table(data: &Data) -> Markup {
    let servers = servers(&data.beside.echo);
    let ours = |server: &EchoServer<'_>| {
        let is_ours = |other: &&EchoServer<'_>| other.runtime == server.runtime && other.timers == OURS;
        Some(servers.iter().find(is_ours)?.processor_ns()?.median)
    };
    html! {
        @if let Some(run) = data.beside.echo.first() {
            section #echo {
                h2 { "Echo servers on monoio, compio and glommio" } "\n"
                p { (TEXT) } "\n"
                details open {
                    summary {
                        (short(run.connections as f64)) " connections, idle for " (run.idle_ms) " ms at most "
                        small { "(commit " (run.commit) ")" }
                    }
                    div.scroll {
                        table {
                            tr {
                                th { "Runtime" } th { "Timers" } th.n { "Requests/s" } th.n { "CPU ns/request" }
                                th.n { "Late: p50, p99, most (ms)" } th.n { "Runs" }
                            } "\n"
                            @for server in &servers {
                                tr class=(if server.timers.starts_with(OURS) { "ours" } else { "other" }) {
                                    td { (server.runtime) }
                                    td { (server.timers) }
                                    td.n { (spread(server.requests_per_second())) }
                                    td.n {
                                        (spread(server.processor_ns()))
                                        @if let (Some(ours), Some(it)) = (ours(server), server.processor_ns()) {
                                            @if server.timers != OURS { " " b { "×" (times(it.median / ours)) } }
                                        }
                                    }
                                    td.n {
                                        @match server.late_ms() {
                                            Some([p50, p99, most]) => {
                                                (short(p50)) ", " (short(p99)) ", " (short(most))
                                            }
                                            None => "–",
                                        }
                                    }
                                    td.n { (server.runs.len()) }
                                } "\n"
                            }
                        }
                    }
                } "\n"
            }
        }
    }
}

fn spread(spread: Option<Spread>) -> Markup {
    let round = |value: f64| short(value.round());
    html! {
        @if let Some(Spread { median, min, max }) = spread {
            (round(median)) " " small { "(" (round(min)) " – " (round(max)) ")" }
        }
    }
}
