//! A QUIC connection on loopback that goes idle, with Tokio's tasks and sockets and none of its
//! timers. Tourbillon measures when to send again, and when to give up.
//!
//! ```toml
//! [dependencies]
//! quinn = { version = "0.11", features = ["runtime-tokio", "rustls-ring"] }
//! rcgen = { version = "0.14", default-features = false, features = ["crypto", "ring"] }
//! tokio = { version = "1.49", features = ["rt"] }
//! tourbillon = { path = "../tourbillon", features = ["quinn"] }
//! ```

use std::convert::Infallible;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{
    ClientConfig, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig, TokioRuntime,
    TransportConfig,
};
use tourbillon::Timer;
use tourbillon::quinn::Runtime;

const IDLE: Duration = Duration::from_millis(500);

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Returns a server's configuration with a certificate of its own, and a client's that trusts it.
pub(crate) fn configs() -> Result<(ServerConfig, ClientConfig), Failure> {
    let itself = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = itself.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(itself.signing_key.serialize_der());
    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::try_from(IDLE)?));
    server.transport_config(Arc::new(transport));
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    Ok((server, ClientConfig::with_root_certificates(Arc::new(roots))?))
}

/// Serves all clients. An error of one does not affect the others.
pub(crate) async fn echo(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async {
            let Err(end) = serve(incoming).await;
            println!("the server's end: {end}");
        });
    }
}

/// Sends back what comes on each stream, until the connection ends.
async fn serve(incoming: Incoming) -> Result<Infallible, Failure> {
    let connection = incoming.await?;
    loop {
        let (mut answer, mut question) = connection.accept_bi().await?;
        answer.write_all(&question.read_to_end(1024).await?).await?;
        answer.finish()?;
    }
}

async fn run() -> Result<(), Failure> {
    let timer = Timer::new()?;
    let runtime = Arc::new(Runtime::new(timer.clone(), Arc::new(TokioRuntime)));
    let endpoint =
        |config| Endpoint::new(EndpointConfig::default(), config, UdpSocket::bind("127.0.0.1:0")?, runtime.clone());
    let (of_server, of_client) = configs()?;
    let server = endpoint(Some(of_server))?;
    let address = server.local_addr()?;
    tokio::spawn(echo(server));

    let mut client = endpoint(None)?;
    client.set_default_client_config(of_client);
    let connection = client.connect(address, "localhost")?.await?;
    let (mut question, mut answer) = connection.open_bi().await?;
    question.write_all(b"is anybody there?").await?;
    question.finish()?;
    let echoed = answer.read_to_end(1024).await?;
    println!("echoed: {}", String::from_utf8_lossy(&echoed));
    assert_eq!(echoed, b"is anybody there?");

    let quiet = Instant::now();
    let reason = connection.closed().await;
    println!("then it goes idle: {reason} after {:.2?}", quiet.elapsed());
    assert_eq!(reason, ConnectionError::TimedOut);
    let stats = timer.stats();
    println!("timers armed: {}, fired: {}", stats.scheduled, stats.fired);
    Ok(())
}

fn main() -> Result<(), Failure> {
    // Neither `enable_time` nor `enable_all`.
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(run())
}
