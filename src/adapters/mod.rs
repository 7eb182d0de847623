//! Adapters to other crates. Each file is behind the feature of its name. The engine does not
//! depend on any of them.

#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "quinn")]
pub mod quinn;
#[cfg(feature = "rayon")]
mod rayon;
#[cfg(feature = "stream")]
mod stream;
#[cfg(feature = "tokio")]
mod tokio;
#[cfg(feature = "tower")]
pub mod tower;
