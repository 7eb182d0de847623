//! An HTTP client that gives each request a limit: for the connection, the answer's header and its
//! body together.
//!
//! ```toml
//! [dependencies]
//! axum = "0.8" # the server
//! http-body-util = "0.1"
//! hyper-util = { version = "0.1.21", features = ["client-legacy", "http1", "tokio"] }
//! tokio = { version = "1.49", features = ["macros", "net", "rt-multi-thread"] }
//! tourbillon = { path = "../tourbillon", features = ["hyper"] }
//! ```
//!
//! The same line puts a limit on a request of reqwest, a query of a database, or any other future.

use std::error::Error;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use axum::{Router, routing::get};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tourbillon::{Elapsed, Timer};

const LIMIT: Duration = Duration::from_millis(300);

type Failure = Box<dyn Error + Send + Sync>;

/// A client whose requests have a limit. Clones share their connections.
#[derive(Clone)]
struct Api {
    client: Client<HttpConnector, Empty<Bytes>>,
    timer: Timer,
}

impl Api {
    fn new(timer: Timer) -> Self {
        // The engine also closes connections that are idle for a minute.
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(timer.clone())
            .pool_idle_timeout(Duration::from_secs(60))
            .build_http();
        Self { client, timer }
    }

    /// Returns the answer's status and body. One that comes too late is an [`Elapsed`] in the box.
    /// Then the request is dropped, and hyper closes its connection.
    async fn get(&self, uri: &str) -> Result<(StatusCode, Bytes), Failure> {
        let uri: Uri = uri.parse()?;
        let request = async {
            let answer = self.client.get(uri).await?;
            let status = answer.status();
            Ok((status, answer.into_body().collect().await?.to_bytes()))
        };
        self.timer.timeout(LIMIT, request).await?
    }
}

/// A server for the client. Returns where it listens.
async fn serve(timer: Timer) -> std::io::Result<String> {
    let slow = async move || {
        timer.sleep(Duration::from_secs(5)).await;
        "late"
    };
    let app = Router::new().route("/fast", get(async || "here you are")).route("/slow", get(slow));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(format!("http://{address}"))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let timer = Timer::new()?;
    let server = serve(timer.clone()).await?;
    let api = Api::new(timer);

    let (status, body) = api.get(&format!("{server}/fast")).await?;
    println!("in time: {status}, {body:?}");
    assert_eq!((status, &*body), (StatusCode::OK, &b"here you are"[..]));

    // An answer in time is an answer, whatever its status.
    let (status, _) = api.get(&format!("{server}/nowhere")).await?;
    assert_eq!(status, StatusCode::NOT_FOUND);

    let begun = Instant::now();
    let error = api.get(&format!("{server}/slow")).await.expect_err("it takes five seconds");
    println!("too late: {error}, after {:.1?}", begun.elapsed());
    assert!(error.is::<Elapsed>() && begun.elapsed() >= LIMIT);

    let (status, _) = api.get(&format!("{server}/fast")).await?;
    assert_eq!(status, StatusCode::OK, "the client goes on");
    Ok(())
}
