//! The answer to an HTTP request that took too long.

use ::http::{Response, StatusCode};

use crate::Elapsed;

/// Makes the answer to a request that took too long, or whose timer was shut down.
pub(super) fn late_answer<Body: Default>(elapsed: Elapsed, status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::default());
    *answer.status_mut() = if elapsed.is_shutdown() { StatusCode::SERVICE_UNAVAILABLE } else { status };
    answer
}
