//! The systems that are compared, each behind the same few operations, and each used as its
//! documentation tells a demanding user to.

#[cfg(feature = "peers")]
pub(super) mod async_io;
#[cfg(feature = "peers")]
pub(super) mod bitwheel;
#[cfg(feature = "peers")]
pub(super) mod delay_queue;
#[cfg(feature = "peers")]
mod futures;
pub(super) mod heap;
#[cfg(feature = "peers")]
pub(super) mod hierarchical;
pub(super) mod local;
pub(super) mod names;
#[cfg(feature = "peers")]
pub(super) mod nexus;
#[cfg(feature = "peers")]
pub(super) mod nexus_queue;
pub(super) mod one_owner;
pub(super) mod patience;
#[cfg(feature = "peers")]
pub(super) mod pingora;
pub(super) mod plan;
pub(super) mod producer;
pub(super) mod round_clock;
#[cfg(feature = "peers")]
pub(super) mod servers;
#[cfg(all(feature = "peers", target_os = "linux"))]
pub(super) mod sessions;
pub(super) mod system;
#[cfg(feature = "peers")]
pub(super) mod tokio;
pub(super) mod tourbillon;
pub(super) mod tourbillon_futures;
pub(super) mod wheel;
