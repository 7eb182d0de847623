//! `wrk`, Debian's HTTP load generator: started, and its report read.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::load::Load;

/// One thread for the load: the cores are the server's, too. A script has wrk print what can be
/// read.
const SCRIPT: &str = r#"
function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format("RESULT %d %d %f %f %f %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"#;

pub(super) fn run(address: SocketAddr, connections: usize, time: Duration) -> Result<Load> {
    // A name that no other run has, in this process or another: each run removes its own.
    let script = std::env::temp_dir().join(format!("tourbillon-wrk-{}-{}.lua", std::process::id(), address.port()));
    std::fs::write(&script, SCRIPT).context("cannot write wrk's script")?;
    let output = Command::new("wrk")
        .args(["--threads", "1", "--connections", &connections.to_string(), "--timeout", "30s"])
        .args(["--duration", &format!("{}s", time.as_secs().max(1)), "--script"])
        .arg(&script)
        .arg(format!("http://{address}/"))
        .output();
    // It has been read, or can't be.
    let _ = std::fs::remove_file(&script);
    let output = output.context("cannot run wrk: scripts/peers installs it")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk failed: {}", String::from_utf8_lossy(&output.stderr));
    read(&text).with_context(|| format!("wrk says what can't be read: {text}"))
}

/// Requests, microseconds, three percentiles in microseconds, and errors.
fn read(text: &str) -> Option<Load> {
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "))?;
    let numbers: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let &[requests, micros, p50, p99, p999, errors] = numbers.as_slice() else { return None };
    let (p50_ms, p99_ms, p999_ms) = (p50 / 1e3, p99 / 1e3, p999 / 1e3);
    Some(Load { requests, seconds: micros / 1e6, p50_ms, p99_ms, p999_ms, errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_read() {
        let load = read("Running 1s test\nRESULT 5000 2000000 100.5 2000.0 30000.0 3\n").expect("it is all there");
        assert_eq!((load.requests, load.seconds, load.errors), (5_000.0, 2.0, 3.0));
        assert_eq!((load.p50_ms, load.p99_ms, load.p999_ms), (0.1005, 2.0, 30.0));
        assert!(read("Running 1s test").is_none() && read("RESULT 1 2 3").is_none());
    }
}
