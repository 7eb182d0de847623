//! The examples' servers go on when descriptors run out, and when a client fails. A server that is
//! short of descriptors runs in a process of its own. The runtimes have no timer: code that asks
//! Tokio for one panics.

#![allow(dead_code, reason = "of each example, its server is used")]

#[path = "../examples/axum_timeout.rs"]
mod axum_timeout;
#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../examples/hyper_server.rs"]
mod hyper_server;
#[path = "../examples/prometheus.rs"]
mod prometheus;
#[path = "../examples/quic_idle.rs"]
mod quic_idle;
#[path = "../examples/server/main.rs"]
mod server;

use std::fmt::Debug;
use std::fs::File;
use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::iter;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;

use metrics_exporter_prometheus::PrometheusBuilder;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use quinn::{Endpoint, EndpointConfig, TokioRuntime};
use testkit::again;
use tokio::runtime::{Builder, Runtime};
use tourbillon::Timer;
use tourbillon::quinn::Runtime as QuicRuntime;
use tourbillon_integrations::Listener;

use common::{MS, PATIENCE, in_time};

/// Set in the child.
const CHILD: &str = "TOURBILLON_ACCEPT_CHILD";
const ADDRESS: &str = "serving on ";

/// The number of connections that a server has descriptors for.
const ROOM: usize = 10;

/// A server in a process of its own. Dropping this value ends the process.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process has ended already if the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    /// Runs this test once more in a process of its own, which calls `serve` here and does not
    /// return.
    fn start<E: Debug>(test: &str, serve: impl FnOnce(TcpListener) -> Result<(), E>) -> Self {
        if std::env::var_os(CHILD).is_some() {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            println!("\n{ADDRESS}{}", listener.local_addr().expect("it is bound"));
            panic!("the server has ended: {:?}", serve(listener));
        }
        let mut child = again::test(test);
        child.env(CHILD, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().expect("room for a process");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut lines = lines.map(|line| line.expect("it can be read"));
        let address = lines.find_map(|line| line.strip_prefix(ADDRESS)?.parse().ok()).expect("it says where");
        // A full pipe would stop the server.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).expect("it listens");
        client.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
        // In one piece: a server may answer, and close, after the first.
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        client.write_all(request.as_bytes()).expect("it fits into the socket");
        client
    }
}

fn assert_answered(client: &mut TcpStream, who: &str) {
    let mut answer = [0; 12];
    client.read_exact(&mut answer).unwrap_or_else(|error| panic!("{who} is not answered: {error}"));
    assert_eq!(answer, *b"HTTP/1.1 200", "{who}");
}

/// Takes all descriptors that this process may have, except those for this number of connections.
/// Dropping the files gives them back.
fn leave_room_for(connections: usize) -> Vec<File> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("it can be read");
    setrlimit(Resource::RLIMIT_NOFILE, 100, most).expect("it is less than the most");
    let mut taken: Vec<_> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
    taken.truncate(taken.len().checked_sub(connections).expect("a process has few of its own"));
    taken
}

/// Returns a runtime that has sockets and no timer.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_io().build().expect("sockets")
}

/// Serves with descriptors for [`ROOM`] connections.
fn with_little_room<F: Future<Output = R>, R>(
    listener: TcpListener,
    serve: impl FnOnce(tokio::net::TcpListener, Timer) -> F,
) -> R {
    let (runtime, timer) = (runtime(), Timer::new().expect("defaults"));
    runtime.block_on(async {
        listener.set_nonblocking(true).expect("it can be");
        let listener = tokio::net::TcpListener::from_std(listener).expect("it is a listener");
        let _taken = leave_room_for(ROOM);
        serve(listener, timer).await
    })
}

/// Three times as many clients come as there are descriptors for. Some leave, and the server serves
/// the others.
fn assert_goes_on(server: &Served, path: &str) {
    let mut clients: Vec<_> = (0..3 * ROOM).map(|_| server.ask(path)).collect();
    let mut waiting = clients.split_off(ROOM);
    for client in &mut clients {
        assert_answered(client, "the first");
    }
    // Time for the server to look at the next client, for which there is no descriptor.
    thread::sleep(200 * MS);
    drop(clients);
    for mut client in waiting.drain(..) {
        assert_answered(&mut client, "one of those that waited");
    }
    assert_answered(&mut server.ask(path), "one that comes later");
}

#[test]
fn a_hyper_server_goes_on_when_descriptors_run_out() {
    let server = Served::start("a_hyper_server_goes_on_when_descriptors_run_out", |listener| {
        with_little_room(listener, hyper_server::serve);
        Ok::<_, ()>(())
    });
    assert_goes_on(&server, "/");
}

#[test]
fn an_axum_server_goes_on_when_descriptors_run_out() {
    let server = Served::start("an_axum_server_goes_on_when_descriptors_run_out", |listener| {
        with_little_room(listener, |listener, timer| {
            let app = axum_timeout::app(&timer);
            axum::serve(Listener::new(listener, timer), app).into_future()
        })
    });
    assert_goes_on(&server, "/fast");
}

#[test]
fn the_server_with_a_page_goes_on_when_descriptors_run_out() {
    let server = Served::start("the_server_with_a_page_goes_on_when_descriptors_run_out", |listener| {
        with_little_room(listener, |listener, timer| server::listen(listener, server::App::new(timer)))
    });
    assert_goes_on(&server, "/work/1");
}

/// This server serves one client after the other, so no number of clients takes its descriptors.
/// Here something else takes them for a while.
#[test]
fn a_page_for_prometheus_is_served_again_when_there_are_descriptors() {
    let test = "a_page_for_prometheus_is_served_again_when_there_are_descriptors";
    let mut server = Served::start(test, |listener| {
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let taken = leave_room_for(0);
        thread::spawn(move || {
            // Until the other end of the pipe is closed.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            drop(taken);
        });
        prometheus::serve(&listener, &metrics);
        Ok::<_, ()>(())
    });
    let mut waiting = server.ask("/metrics");
    thread::sleep(200 * MS);
    drop(server.child.stdin.take());
    assert_answered(&mut waiting, "one that waited");
    // A client that has left before the server answers it.
    drop(server.ask("/metrics"));
    assert_answered(&mut server.ask("/metrics"), "one that comes later");
}

#[test]
fn a_quic_server_goes_on_after_a_client_that_does_not_trust_it() {
    let serve = async {
        let (of_server, trusts) = quic_idle::configs().expect("a certificate");
        let (_, mistrusts) = quic_idle::configs().expect("another certificate");
        let runtime = Arc::new(QuicRuntime::new(Timer::new().expect("defaults"), Arc::new(TokioRuntime)));
        let endpoint = |config| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            Endpoint::new(EndpointConfig::default(), config, socket, runtime.clone()).expect("a socket")
        };
        let (server, client) = (endpoint(Some(of_server)), endpoint(None));
        let address = server.local_addr().expect("it is bound");
        let served = tokio::spawn(quic_idle::echo(server));
        let fails = client.connect_with(mistrusts, address, "localhost").expect("good arguments");
        assert!(fails.await.is_err());
        let connection = client.connect_with(trusts, address, "localhost").expect("good arguments").await;
        let (mut question, mut answer) = connection.expect("it serves").open_bi().await.expect("it serves");
        question.write_all(b"hello").await.expect("it reads");
        question.finish().expect("once");
        assert_eq!(answer.read_to_end(10).await.expect("it answers"), b"hello");
        assert!(!served.is_finished());
    };
    in_time("a QUIC server", || {
        Builder::new_current_thread().enable_io().build().expect("sockets").block_on(serve);
    });
}
