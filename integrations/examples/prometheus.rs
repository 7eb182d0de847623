//! An engine that publishes its metrics, and a page for Prometheus. The example scrapes it once,
//! over a socket.
//!
//! ```toml
//! [dependencies]
//! metrics-exporter-prometheus = { version = "0.18", default-features = false }
//! tourbillon = { path = "../tourbillon", features = ["metrics"] }
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tourbillon::Timer;

/// Answers every request with all metrics. A production server has a better one, and so has the
/// exporter with its feature `http-listener`.
pub(crate) fn serve(listener: &TcpListener, metrics: &PrometheusHandle) {
    loop {
        let answered = listener.accept().and_then(|(connection, _peer)| answer(connection, &metrics.render()));
        if let Err(error) = answered {
            println!("a scrape has failed: {error}");
            // Descriptors may have run out.
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn answer(mut connection: TcpStream, page: &str) -> std::io::Result<()> {
    // A client that sends nothing would hold up all others.
    connection.set_read_timeout(Some(Duration::from_secs(1)))?;
    // The request fits into a packet, and its text does not matter.
    _ = connection.read(&mut [0; 1024])?;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
    write!(connection, "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len())
}

fn scrape(listener: &TcpListener) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(listener.local_addr()?)?;
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The sum over all shards.
fn fired(page: &str) -> u64 {
    let lines = page.lines().filter(|line| line.starts_with("tourbillon_fired_total{"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The recorder comes first: metrics are registered with the recorder that is installed.
    let metrics = PrometheusBuilder::new().install_recorder()?;
    let timer = Timer::builder().shards(2).build()?;
    let _periodic = tourbillon::metrics::publish_every(&timer, Duration::from_millis(50))?;

    for n in 0..10_000_u32 {
        let timeout = timer.shard_for(&n).schedule(Duration::from_millis(u64::from(n % 100)), || ())?;
        // False if the timeout has fired by now: then it is not put off.
        let _is_put_off = n % 10 == 0 && timeout.reset(Duration::from_secs(3600));
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = listener.try_clone()?;
    std::thread::spawn(move || serve(&server, &metrics));
    // All but a tenth fire within 0.1 s.
    let page = loop {
        std::thread::sleep(Duration::from_millis(100));
        let page = scrape(&listener)?;
        if fired(&page) >= 9_000 {
            break page;
        }
    };
    println!("{page}");
    Ok(())
}
