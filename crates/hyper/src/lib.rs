//! Limits for the connections of a hyper server, measured by a [`Timer`](tourbillon::Timer):
//! [`Limits`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod connection;
mod deadline;
mod frames;
mod io;
mod limits;
mod service;

pub use io::LimitedIo;
pub use limits::{LimitStats, Limits};
pub use service::{LimitedBody, LimitedFuture, LimitedService};

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
