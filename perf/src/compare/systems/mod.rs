//! The systems that are compared, each behind the same few operations, and each used as its
//! documentation tells a demanding user to.

pub(super) mod heap;
pub(super) mod local;
pub(super) mod names;
mod one_owner;
#[cfg(feature = "peers")]
pub(super) mod peers;
#[cfg(all(feature = "peers", target_os = "linux"))]
pub(super) mod sessions;
pub(super) mod system;
pub(super) mod tourbillon;
pub(super) mod wheel;
