//! For tests with a stopped clock: a thread that does not go by it.

use std::thread;
use std::time::Duration;

/// Waits for a thread that knows nothing of the clock, as a server's other side may be.
pub(crate) async fn wait_for_a_thread() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        tell.send(())
    });
    told.await.expect("it tells");
    other.join().expect("no panic").expect("it is asked");
}
