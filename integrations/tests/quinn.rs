//! The engine as quinn's timer: real connections on loopback. Their runtime has no timer: code that
//! asks Tokio for one panics.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{
    AsyncTimer, ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, Runtime as _,
    ServerConfig, TokioRuntime, TransportConfig,
};
use tourbillon::quinn::Runtime;
use tourbillon::{ManualClock, Timer};

use common::{HOUR, MS, driven, in_time};

const NS: Duration = Duration::from_nanos(1);

/// Runs the work on a runtime that has sockets and no timer.
fn without_tokios_timer(what: &str, work: impl Future<Output = ()> + Send + 'static) {
    in_time(what, || {
        tokio::runtime::Builder::new_current_thread().enable_io().build().expect("sockets").block_on(work)
    });
}

/// A server that keeps each connection until it ends, and a client that trusts it, both with the
/// timers of this engine.
struct Ends {
    server: Endpoint,
    client: Endpoint,
    address: SocketAddr,
}

impl Ends {
    fn new(timer: &Timer, idle: Duration) -> Self {
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(IdleTimeout::try_from(idle).expect("not too long")));
        let transport = Arc::new(transport);

        let itself = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate = itself.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(itself.signing_key.serialize_der());
        let mut of_server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into()).expect("they match");
        of_server.transport_config(Arc::clone(&transport));

        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("a certificate");
        let mut of_client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a root");
        of_client.transport_config(transport);

        let runtime = Arc::new(Runtime::new(timer.clone(), Arc::new(TokioRuntime)));
        let endpoint = |config| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            Endpoint::new(EndpointConfig::default(), config, socket, runtime.clone()).expect("a socket")
        };
        let (server, mut client) = (endpoint(Some(of_server)), endpoint(None));
        client.set_default_client_config(of_client);
        let address = server.local_addr().expect("it is bound");
        Self { server, client, address }
    }

    /// Returns the client's end of a connection, and the server's.
    async fn connect(&self) -> (Connection, Connection) {
        loop {
            let server = self.server.clone();
            let served = tokio::spawn(async move { server.accept().await.expect("it listens").await });
            let give_up = served.abort_handle();
            let connecting = self.client.connect(self.address, "localhost").expect("good arguments");
            match async { Ok((connecting.await?, served.await.expect("no panic")?)) }.await {
                Ok(both) => return both,
                // On a heavily loaded machine the handshake can time out as idle, too.
                Err(ConnectionError::TimedOut) => give_up.abort(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn an_idle_connection_times_out_and_not_early() {
    without_tokios_timer("a connection", async {
        let idle = 300 * MS;
        let timer = Timer::new().expect("defaults");
        let ends = Ends::new(&timer, idle);
        let asked = Instant::now();
        let (client, served) = ends.connect().await;
        assert_eq!(client.closed().await, ConnectionError::TimedOut);
        let took = asked.elapsed();
        assert!(took >= idle, "timed out after {took:?}");
        assert_eq!(served.closed().await, ConnectionError::TimedOut);
        let stats = timer.stats();
        assert!(stats.scheduled > 0 && stats.fired > 0, "it was this engine that counted: {stats:?}");
    });
}

#[test]
fn a_connections_time_is_the_engines() {
    without_tokios_timer("a connection", async {
        let idle = HOUR;
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
        let ends = Ends::new(&timer, idle);
        let (client, served) = ends.connect().await;
        let connected = clock.now();
        // An hour passes each time the test moves the clock.
        while client.close_reason().is_none() || served.close_reason().is_none() {
            clock.advance(idle / 60);
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            for end in [&client, &served] {
                let expected = (clock.now() - connected >= idle).then_some(ConnectionError::TimedOut);
                assert!(end.close_reason().is_none_or(|reason| Some(reason) == expected), "{end:?}");
            }
        }
    });
}

#[test]
fn a_reset_moves_a_timer_and_a_new_one_is_scheduled_when_it_is_polled() {
    let (timer, mut driver, clock) = driven();
    let tokio = tokio::runtime::Builder::new_current_thread().build().expect("nothing to it");
    let runtime = Runtime::new(timer.clone(), Arc::new(TokioRuntime));
    clock.advance(HOUR);
    assert_eq!(runtime.now(), clock.now());
    let mut context = Context::from_waker(Waker::noop());
    let mut sleep: Pin<Box<dyn AsyncTimer>> = runtime.new_timer(clock.now() + 5 * MS);
    assert_eq!(timer.stats().scheduled, 0);
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    sleep.as_mut().reset(clock.now() + 10 * MS);
    for early in [5 * MS, 5 * MS - NS] {
        clock.advance(early);
        driver.turn();
        assert!(sleep.as_mut().poll(&mut context).is_pending());
    }
    clock.advance(NS);
    driver.turn();
    assert!(sleep.as_mut().poll(&mut context).is_ready());
    assert_eq!(timer.stats().scheduled, 1, "the same, moved");
    sleep.as_mut().reset(clock.now() + MS);
    assert!(sleep.as_mut().poll(&mut context).is_pending(), "and again, once it was ready");

    // Tasks are the other runtime's.
    let _guard = tokio.enter();
    let (send, receive) = tokio::sync::oneshot::channel();
    runtime.spawn(Box::pin(async { send.send("ran").expect("it listens") }));
    assert_eq!(tokio.block_on(receive), Ok("ran"));
    assert!(format!("{runtime:?}").contains("others: TokioRuntime"));
}
