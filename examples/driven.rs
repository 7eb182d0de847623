//! The event loop of a thread-per-core server on mio, which turns its timer itself: no worker
//! thread, no executor. The loop reads the time once a round, and counts all of that round's
//! timeouts from it. Other threads may still schedule. A deadline that is earlier than the loop's
//! next wake-up wakes the loop.
//!
//! ```toml
//! [dependencies]
//! mio = { version = "1", features = ["net", "os-poll"] }
//! tourbillon = { path = "../tourbillon" }
//! ```

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token, Waker};
use tourbillon::Timer;

const IDLE: Duration = Duration::from_millis(50);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(64);
    let waker = Arc::new(Waker::new(poll.registry(), Token(0))?);
    let mut socket = UdpSocket::bind("127.0.0.1:0".parse()?)?;
    poll.registry().register(&mut socket, Token(1), Interest::READABLE)?;

    let (timer, mut driver) = Timer::builder().tick_duration(Duration::from_micros(100)).build_driven()?;
    let wake = Arc::clone(&waker);
    driver.on_earlier(move || _ = wake.wake());

    // A client that sends some packets, and then is silent.
    let address = socket.local_addr()?;
    let begun = timer.now();
    let silent = move || println!("no packet for {IDLE:?}, after {:.2?}", begun.elapsed());
    let idle = timer.schedule_at(begun + IDLE, silent)?;
    let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
    let packets = thread::spawn(move || {
        for _ in 0..5 {
            client.send_to(b"packet", address).expect("the server is there");
            thread::sleep(Duration::from_millis(10));
        }
    });

    // Another thread, which does not know how long the loop sleeps.
    let producer = timer.clone();
    let other = thread::spawn(move || {
        for n in 1..=3 {
            thread::sleep(Duration::from_millis(20));
            let asked = Instant::now();
            producer
                .schedule_detached(Duration::from_millis(5), move || {
                    println!("timeout {n} of 5 ms ran on the loop's thread after {:.2?}", asked.elapsed());
                })
                .expect("not shut down");
        }
    });

    let mut fired = 0;
    while fired < 4 {
        // Sleeps until the next deadline, and no longer.
        let limit = driver.next_wakeup().map(|at| at.saturating_duration_since(Instant::now()));
        poll.poll(&mut events, limit)?;
        // Once a round, however many packets there are.
        let now = timer.now();
        loop {
            match socket.recv(&mut [0; 64]) {
                // False if the packet came too late.
                Ok(_) => _ = idle.reset_at(now + IDLE),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        fired += driver.turn();
    }
    other.join().expect("the other thread does not panic");
    packets.join().expect("the client does not panic");
    assert_eq!(timer.shutdown()?.len(), 0, "all have run");
    Ok(())
}
