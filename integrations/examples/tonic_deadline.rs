//! A gRPC server and a client of tonic with deadlines on the engine: a call that takes too long
//! ends with DEADLINE_EXCEEDED.
//!
//! ```toml
//! [dependencies]
//! tokio = { version = "1.49", features = ["macros", "net", "rt-multi-thread"] }
//! tonic = "0.14"
//! tonic-health = "0.14" # or a service of yours
//! tourbillon = { path = "../tourbillon", features = ["tower"] }
//! ```
//!
//! tonic's own `Server::timeout`, `Endpoint::timeout` and the header `grpc-timeout`, which
//! `Request::set_timeout` writes, go by Tokio's timer, and end a call with CANCELLED. So neither
//! side sets them here. If a client sends the header, tonic's server obeys it beside this limit.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tourbillon::tower::TimeoutLayer;
use tourbillon::{Elapsed, Timer};

/// The server's limit for each call.
const SERVERS: Duration = Duration::from_millis(400);
/// The client's limit for a call that it is in a hurry for.
const CLIENTS: Duration = Duration::from_millis(100);

/// A service that takes its time for `slow`.
struct Checks(Timer);

#[tonic::async_trait]
impl Health for Checks {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if request.get_ref().service == "slow" {
            self.0.sleep(Duration::from_secs(5)).await;
        }
        Ok(Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() }))
    }

    type WatchStream = tonic::codegen::tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("nothing is watched here"))
    }
}

async fn serve(listener: TcpListener, timer: Timer) -> Result<(), tonic::transport::Error> {
    let late = || Status::deadline_exceeded("the server's limit").into_http();
    let limit = TimeoutLayer::with_response(timer.clone(), SERVERS, late);
    let server = Server::builder().layer(limit).add_service(HealthServer::new(Checks(timer)));
    server.serve_with_incoming(TcpIncoming::from(listener)).await
}

/// Calls the server. If there is no answer within `limit`, this is DEADLINE_EXCEEDED, too.
async fn check(client: &HealthClient<Channel>, service: &str, timer: &Timer, limit: Duration) -> Result<i32, Status> {
    let mut client = client.clone();
    let call = client.check(HealthCheckRequest { service: service.to_owned() });
    let answer = timer.timeout(limit, call).await;
    answer
        .unwrap_or_else(|_: Elapsed| Err(Status::deadline_exceeded("the client's limit")))
        .map(|it| it.get_ref().status)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let timer = Timer::new()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(serve(listener, timer.clone()));
    let client = HealthClient::new(Channel::from_shared(address)?.connect().await?);

    let minute = Duration::from_secs(60);
    assert_eq!(check(&client, "fast", &timer, minute).await?, i32::from(ServingStatus::Serving));
    println!("in time: SERVING");
    for (limit, whose, message) in [(minute, SERVERS, "the server's limit"), (CLIENTS, CLIENTS, "the client's limit")] {
        let begun = Instant::now();
        let status = check(&client, "slow", &timer, limit).await.expect_err("it takes five seconds");
        println!("too late: {}, {}, after {:.1?}", status.code(), status.message(), begun.elapsed());
        assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, message));
        assert!(begun.elapsed() >= whose);
    }
    Ok(())
}
