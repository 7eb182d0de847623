//! The proxy, started and ended.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// The proxy, until it is dropped.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) address: SocketAddr,
    log: Option<JoinHandle<Vec<String>>>,
}

impl Proxy {
    pub(crate) fn start(upstream: SocketAddr, limits: &[&str]) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let mut command = Command::new(env!("CARGO_BIN_EXE_tourbillon-pingora-proxy"));
        command.args(["--listen", &address.to_string(), "--upstream", &upstream.to_string()]).args(limits);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the proxy starts");
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let log = Some(thread::spawn(|| lines.map_while(Result::ok).collect()));
        let mut proxy = Self { child, address, log };
        let since = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            let ended = proxy.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "the proxy ended: {ended:?}");
            assert!(since.elapsed() < PATIENCE, "the proxy does not listen");
            thread::sleep(LOOK);
        }
        proxy
    }

    /// Ends it. Returns what it has logged.
    pub(crate) fn end(mut self) -> Vec<String> {
        self.kill();
        self.log.take().expect("it was not ended before").join().expect("the reader does not panic")
    }

    fn kill(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        self.child.wait().expect("it is our child");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns whether `line` of the proxy's log tells of a limit that was up.
pub(crate) fn is_a_timeout(line: &str, kind: &str) -> bool {
    line.starts_with("ERROR Fail to proxy: ") && line.contains(kind)
}
