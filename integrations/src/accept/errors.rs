//! How a server handles an `accept` that fails. Neither a client that has gone nor a shortage that
//! passes may end the server.
//!
//! `perf` uses this file, too.

use std::io::{self, ErrorKind};
use std::time::Duration;

/// How long a server waits for descriptors or memory before it tries again.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// The next step after an error of `accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The error concerns one connection, which is gone. Accept the next one.
    Skip,
    /// The process has run out of descriptors or memory. The connection waits in the listener's
    /// queue: try again after a [`PAUSE`].
    Wait,
    /// The listener itself is broken. No later try would succeed.
    Fail,
}

/// Errors that `ErrorKind` has no name for. Linux reports through `accept` the network errors of
/// the new connection.
#[cfg(target_os = "linux")]
const OF_ONE_CONNECTION: &[i32] = &[libc::EPROTO, libc::ENOPROTOOPT, libc::EHOSTDOWN, libc::ENONET, libc::EOPNOTSUPP];
#[cfg(not(target_os = "linux"))]
const OF_ONE_CONNECTION: &[i32] = &[];

#[cfg(any(target_os = "linux", target_os = "macos"))]
const SHORTAGES: &[i32] = &[libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
/// Windows' `WSAEMFILE` and `WSAENOBUFS`.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
const SHORTAGES: &[i32] = &[10_024, 10_055];

/// Returns what to do after this error of `accept`. A non-blocking server handles `WouldBlock`
/// itself.
pub(crate) fn after(error: &io::Error) -> Next {
    let is_in = |codes: &[i32]| error.raw_os_error().is_some_and(|code| codes.contains(&code));
    match error.kind() {
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::TimedOut | ErrorKind::Interrupted => {
            Next::Skip
        }
        ErrorKind::NetworkDown | ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Next::Skip,
        // A filter forbids it. Linux may leave the connection in the queue then, and a server that
        // tried again at once would try for ever.
        ErrorKind::PermissionDenied => Next::Wait,
        _ if is_in(OF_ONE_CONNECTION) => Next::Skip,
        _ if is_in(SHORTAGES) => Next::Wait,
        _ => Next::Fail,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn after_code(code: i32) -> Next {
        after(&io::Error::from_raw_os_error(code))
    }

    #[test]
    fn an_error_of_one_connection_is_skipped() {
        for code in [libc::ECONNABORTED, libc::ECONNRESET, libc::EPROTO, libc::EINTR] {
            assert_eq!(after_code(code), Next::Skip, "{}", io::Error::from_raw_os_error(code));
        }
        // Those that accept(2) lists for TCP/IP.
        for code in [libc::ENETDOWN, libc::ENOPROTOOPT, libc::EHOSTDOWN, libc::ENONET, libc::EHOSTUNREACH] {
            assert_eq!(after_code(code), Next::Skip, "{}", io::Error::from_raw_os_error(code));
        }
        for code in [libc::EOPNOTSUPP, libc::ENETUNREACH, libc::ETIMEDOUT] {
            assert_eq!(after_code(code), Next::Skip, "{}", io::Error::from_raw_os_error(code));
        }
    }

    #[test]
    fn a_shortage_and_a_filter_are_waited_for() {
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EPERM, libc::EACCES] {
            assert_eq!(after_code(code), Next::Wait, "{}", io::Error::from_raw_os_error(code));
        }
    }

    #[test]
    fn a_broken_listener_is_an_error() {
        for code in [libc::EBADF, libc::EINVAL, libc::ENOTSOCK, libc::EFAULT] {
            assert_eq!(after_code(code), Next::Fail, "{}", io::Error::from_raw_os_error(code));
        }
    }
}
