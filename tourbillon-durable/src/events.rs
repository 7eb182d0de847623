//! What an operator should know. With the feature `tracing`.

#![cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "without `tracing` nobody is told"))]

use crate::store::{Failure, Token};

macro_rules! event {
    ($level:ident, $($rest:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "tourbillon_durable", $($rest)*);
    };
}

pub(crate) fn panicked(token: &Token) {
    event!(error, key = &*token.key, generation = token.generation, attempt = token.attempt, "a handler has panicked");
}

pub(crate) fn dead_letter(token: &Token) {
    event!(error, key = &*token.key, generation = token.generation, attempt = token.attempt, "a timeout was given up");
}

pub(crate) fn stale(token: &Token) {
    event!(
        warn,
        key = &*token.key,
        generation = token.generation,
        attempt = token.attempt,
        "a run has ended whose row is not its own any more"
    );
}

pub(crate) fn clock_jumped(micros: i64) {
    event!(warn, micros, "the wall clock has jumped");
}

pub(crate) fn store_failed(failure: &Failure) {
    match failure {
        Failure::Refused(reason) => {
            event!(error, reason, "the store has refused");
        }
        Failure::Lost(reason) => {
            event!(error, reason, "the connection to the store is lost");
        }
    }
}

pub(crate) fn reconnected() {
    event!(info, "connected to the store again");
}

pub(crate) fn stopped(failure: Option<Failure>) {
    match failure {
        None => {
            event!(debug, "stopped");
        }
        Some(failure) => store_failed(&failure),
    }
}
