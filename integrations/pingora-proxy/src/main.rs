//! A proxy that is all Pingora's, with a limit on all that it waits for.
//!
//! It names no timer. `pingora-timeout`, which Pingora's crates count by, is the original, or
//! Tourbillon's with one line of `[patch.crates-io]`. `scripts/pingora` builds both and compares
//! them.

mod logger;
mod options;

use async_trait::async_trait;
use clap::Parser;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

use options::Options;

struct Proxy {
    /// Where every request goes, with the limits for it.
    peer: HttpPeer,
    options: Options,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ();

    fn new_ctx(&self) -> Self::CTX {}

    async fn request_filter(&self, session: &mut Session, _: &mut Self::CTX) -> pingora_core::Result<bool> {
        let client = session.as_downstream_mut();
        // Unless the client has asked to close it.
        if client.get_keepalive().is_some() {
            client.set_keepalive(Some(self.options.keep_alive_s()));
        }
        client.set_read_timeout(self.options.read());
        client.set_write_timeout(self.options.write());
        Ok(false)
    }

    async fn upstream_peer(&self, _: &mut Session, _: &mut Self::CTX) -> pingora_core::Result<Box<HttpPeer>> {
        Ok(Box::new(self.peer.clone()))
    }
}

fn main() {
    let options = Options::parse();
    logger::start();
    // A connection of a client needs two.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        log::warn!("the limit of open files stays: {error}");
    }
    let mut server = Server::new_with_opt_and_conf(None, configuration(&options));
    server.bootstrap();
    let listen = options.listen.to_string();
    let mut service = http_proxy_service(&server.configuration, Proxy { peer: peer(&options), options });
    service.add_tcp(&listen);
    server.add_service(service);
    server.run_forever();
}

fn configuration(options: &Options) -> ServerConf {
    let mut conf = ServerConf { threads: options.threads, ..ServerConf::default() };
    // So that no connection to the upstream is closed for want of room.
    conf.upstream_keepalive_pool_size = 16_384;
    if options.tokio {
        conf.fast_timeout_to_tokio_threshold_seconds = Some(0);
    }
    conf
}

fn peer(options: &Options) -> HttpPeer {
    let mut peer = HttpPeer::new(options.upstream, false, String::new());
    let limits = &mut peer.options;
    limits.connection_timeout = options.connect();
    limits.total_connection_timeout = options.connect();
    limits.read_timeout = options.read();
    limits.write_timeout = options.write();
    limits.idle_timeout = options.idle();
    peer
}
