use std::fs::File;
use std::iter;
use std::net::TcpStream as Client;
use std::sync::atomic::Ordering;
use std::thread;

use mio::Waker;
use rlimit::Resource;
use testkit::again;

use super::super::lane::Control;
use super::super::recorder::Recorder;
use super::*;
use crate::duration::Epoch;

/// In a process of its own, as all threads of one share its descriptors.
#[test]
fn a_server_goes_on_when_descriptors_run_out() {
    const CHILD: &str = "TOURBILLON_PERF_ACCEPT_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return serve_with_little_room();
    }
    let test = "connections::server::tests::a_server_goes_on_when_descriptors_run_out";
    let child = again::test(test).env(CHILD, "1").output().expect("room for a process");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

/// With descriptors for half of the clients, and then for all.
fn serve_with_little_room() {
    let poll = Poll::new().expect("a poller");
    let waker = Waker::new(poll.registry(), WAKER).expect("a waker");
    let (listeners, addresses) = listen(1).expect("a port");
    let control = Arc::new(Control::default());
    let lane = Lane::new(10, waker, Epoch::start(), Arc::new(Recorder::new()), Arc::clone(&control));
    let lane = Arc::new(lane);
    let second = Duration::from_secs(1);
    let pace = ServerPace { idle_timeout: 60 * second, request_timeout: second, longest_work: second };
    let timer = Timer::new().expect("the defaults");
    let server = Server::new(poll, listeners, timer, Arc::clone(&lane), pace, 1).expect("a server");
    let clients: Vec<_> = (0..10).map(|_| Client::connect(addresses[0]).expect("it listens")).collect();

    Resource::NOFILE.set(100, 100).expect("it becomes less");
    let mut taken: Vec<_> = iter::from_fn(|| File::open("/dev/null").ok()).collect();
    taken.truncate(taken.len() - 5);
    let server = thread::spawn(|| server.run());
    let begun = Instant::now();
    let wait_for_accepted = |count| {
        while lane.gauges.accepted.load(Ordering::Relaxed) < count {
            assert!(!server.is_finished(), "the server has ended");
            assert!(begun.elapsed() < 30 * second, "{count} are not accepted");
            thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for_accepted(5);
    // Time for the server to look at the next one, for which there is no descriptor.
    thread::sleep(Duration::from_millis(200));
    drop(taken);
    wait_for_accepted(10);

    control.finish();
    lane.wake();
    drop(clients);
    let outcome = server.join().expect("no panic").expect("no error");
    assert_eq!((outcome.accepted, outcome.left_open), (10, 0));
}
