//! The limits of an HTTP/2 connection that has a tunnel, only pings, or uploads on and on.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use http_body_util::Full;
use http_body_util::channel::Channel;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Method, StatusCode};
use hyper_util::server::conn::auto;
use tokio::task::JoinHandle;

use tourbillon_hyper::Limits;

use super::limits::{IDLE, ended, steps, with_limits};
use super::*;

/// A client's connection, which can be made to take nothing any more.
struct Client {
    requests: SendRequest<Empty<Bytes>>,
    takes_nothing: Arc<AtomicBool>,
}

/// Says hello to all requests but CONNECT: such a tunnel sends `sent` bytes, and then what it gets.
async fn hello_or_tunnel(sent: usize, mut request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() == Method::CONNECT {
        tokio::spawn(async move {
            let upgraded = hyper::upgrade::on(&mut request).await.expect("it is a tunnel");
            let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
            write.write_all(&vec![b'a'; sent]).await?;
            tokio::io::copy(&mut read, &mut write).await
        });
    }
    Ok(Response::new(Full::default()))
}

/// Serves one connection with HTTP/2.
async fn served(limits: &Limits, sent: usize) -> (Client, JoinHandle<bool>) {
    let (client, stream) = connection().await;
    let (io, service) = limits.apply(stream, service_fn(move |request| hello_or_tunnel(sent, request)));
    let served = tokio::spawn(async move {
        auto::Builder::new(TokioExecutor::new()).serve_connection_with_upgrades(io, service).await.is_ok()
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    // So that it is the socket that is full, and not what the client allows.
    builder.initial_connection_window_size(1 << 30).initial_stream_window_size(1 << 30);
    let (requests, connection) = builder.handshake(TokioIo::new(client)).await.expect("it speaks HTTP/2");
    let takes_nothing = Arc::<AtomicBool>::default();
    let stops = Arc::clone(&takes_nothing);
    tokio::spawn(async move {
        let mut connection = std::pin::pin!(connection);
        std::future::poll_fn(|context| {
            if stops.load(Ordering::SeqCst) { Poll::Pending } else { connection.as_mut().poll(context) }
        })
        .await
    });
    (Client { requests, takes_nothing }, served)
}

impl Client {
    async fn ask(&self, request: Request<Empty<Bytes>>) -> Response<Incoming> {
        let answer = self.requests.clone().send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK);
        answer
    }

    async fn tunnel(&self) -> TokioIo<hyper::upgrade::Upgraded> {
        let mut connect = Request::new(Empty::new());
        *connect.method_mut() = Method::CONNECT;
        *connect.uri_mut() = "a:1".parse().expect("an authority");
        TokioIo::new(hyper::upgrade::on(self.ask(connect).await).await.expect("it is a tunnel"))
    }
}

#[test]
fn an_http_2_connection_with_a_tunnel_is_never_idle() {
    with_limits(|_timer, clock, limits| async move {
        let (client, served) = served(&limits, 0).await;
        let mut tunnel = client.tunnel().await;
        for _ in 0..3 {
            client.ask(Request::new(Empty::new())).await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            clock.advance(3 * IDLE);
            tunnel.write_all(b"echo").await.expect("it is left alone");
            let mut echo = [0; 4];
            tunnel.read_exact(&mut echo).await.expect("it is left alone");
            assert_eq!(&echo, b"echo");
        }
        assert_eq!((ended(&limits), served.is_finished()), ((0, 0, 0), false));
    });
}

#[test]
fn an_http_2_client_that_takes_nothing_is_closed_though_it_has_a_tunnel() {
    with_limits(|timer, clock, limits| async move {
        // More than the buffers of two sockets hold.
        let (client, served) = served(&limits, 64 << 20).await;
        let mut tunnel = client.tunnel().await;
        tunnel.read_exact(&mut [0; 1 << 10]).await.expect("it is left alone");
        let before = steps(&timer);
        client.takes_nothing.store(true, Ordering::SeqCst);
        until("the server can't write on", || steps(&timer) > before).await;
        until("the server closes it", || {
            clock.advance(IDLE);
            served.is_finished()
        })
        .await;
        assert!(!served.await.expect("no panic"), "it ends with an error");
        assert_eq!(ended(&limits), (0, 1, 0));
    });
}

#[test]
fn an_http_2_connection_that_only_pings_is_idle() {
    with_limits(|_timer, clock, limits| async move {
        let (client, stream) = connection().await;
        let (io, service) = limits.apply(stream, service_fn(hello));
        let served =
            tokio::spawn(async move { auto::Builder::new(TokioExecutor::new()).serve_connection(io, service).await });
        let pings = Timer::builder().clock(clock.clone()).build().expect("the options make sense");
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(pings.clone()).keep_alive_interval(IDLE / 4).keep_alive_while_idle(true);
        let (mut requests, connection) = builder.handshake(TokioIo::new(client)).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        let answer = requests.send_request(Request::new(Empty::<Bytes>::new())).await.expect("an answer");
        answer.collect().await.expect("its body");
        let answered = pings.stats().fired;
        for _ in 0..3 {
            let before = steps(&pings);
            clock.advance(IDLE / 4);
            // The client waits for the answer, and then for the time of its next ping.
            until("a ping is answered", || steps(&pings) == before + 2).await;
        }
        until("the server closes it", || {
            clock.advance(IDLE / 1000);
            served.is_finished()
        })
        .await;
        assert!(pings.stats().fired > answered + 2, "it has pinged meanwhile");
        assert_eq!(ended(&limits), (0, 1, 0));
    });
}

#[test]
fn an_upload_that_outlasts_its_answer_is_left_alone_with_http_2() {
    with_limits(|_timer, clock, limits| async move {
        let (client, stream) = connection().await;
        let (told, mut taken) = unbounded_channel();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let told = told.clone();
            tokio::spawn(async move {
                while let Some(Ok(frame)) = request.frame().await {
                    told.send(frame.into_data().expect("data").len()).expect("the test asks");
                }
            });
            std::future::ready(Ok::<_, Infallible>(Response::new(String::new())))
        });
        let (io, service) = limits.apply(stream, service);
        tokio::spawn(async move { auto::Builder::new(TokioExecutor::new()).serve_connection(io, service).await });
        let (mut requests, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(client)).await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        let (mut upload, body) = Channel::<Bytes>::new(1);
        let answer = requests.send_request(Request::post("http://a/").body(body).expect("it makes sense"));
        assert_eq!(answer.await.expect("an answer").status(), StatusCode::OK);
        // As much as the server's window is, so that it has to open it.
        const LEN: usize = 1 << 20;
        for _ in 0..5 {
            upload.send_data(vec![b'a'; LEN].into()).await.expect("it is left alone");
            let mut rest = LEN;
            while rest > 0 {
                rest -= taken.recv().await.expect("it is left alone");
            }
            for _ in 0..300 {
                tokio::task::yield_now().await;
            }
            clock.advance(IDLE - MS);
        }
        assert_eq!(ended(&limits), (0, 0, 0));
    });
}
