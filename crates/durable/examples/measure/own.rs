//! Measures how late timeouts of the user's transactions are, beside timeouts of other calls.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use hdrhistogram::Histogram;
use tourbillon::Timer;
use tourbillon_durable::{Due, DurableTimer, Outcome, transaction};

use super::{HOUR, Options, PAYLOAD, Place, fill, micros, wait_for};

/// The delays of the timeouts, in seconds.
pub(super) const DELAYS: [u64; 4] = [0, 1, 5, 60];

/// The first histogram of each pair is that of the transactions.
type Lateness = Vec<[Histogram<u64>; 2]>;

enum Client {
    Sqlite(rusqlite::Connection),
    #[cfg(feature = "postgres")]
    Postgres(::postgres::Client),
}

impl Client {
    fn open(url: &str) -> anyhow::Result<Self> {
        #[cfg(feature = "postgres")]
        if url.starts_with("postgres") {
            return Ok(Self::Postgres(::postgres::Client::connect(url, ::postgres::NoTls)?));
        }
        Ok(Self::Sqlite(rusqlite::Connection::open(url)?))
    }

    fn schedule(&mut self, key: &str, delay: Duration) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(client) => {
                let own = client.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
                transaction::sqlite::schedule(&own, key, delay, "handler", PAYLOAD)?;
                own.commit()?;
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(client) => {
                let mut own = client.transaction()?;
                transaction::postgres::schedule(&mut own, key, delay, "handler", PAYLOAD)?;
                own.commit()?;
            }
        }
        Ok(())
    }
}

/// Schedules so many of each kind a second, for so many seconds.
pub(super) fn own(options: &Options, place: &Place, rate: u64, seconds: u64) -> anyhow::Result<Lateness> {
    let new = || Histogram::<u64>::new(3);
    let lateness = DELAYS.iter().map(|_| Ok([new()?, new()?])).collect::<anyhow::Result<Lateness>>()?;
    let lateness = Arc::new(Mutex::new(lateness));
    let record = Arc::clone(&lateness);
    let timers = place
        .open()?
        .handler("handler", move |due: Due| {
            let late = SystemTime::now().duration_since(due.due()).expect("it is never early");
            let mut parts = due.key().split(':').map(|part| part.parse::<usize>().expect("a key of these"));
            let (delay, kind) = (parts.next().expect("a delay"), parts.next().expect("a kind"));
            record.lock().unwrap()[delay][kind].record(micros(late)).expect("it grows");
            Outcome::Done
        })
        .start(&Timer::new()?)?;
    fill(&timers, options.pending, 100 * HOUR);
    thread::sleep(Duration::from_secs(3));
    let mut client = Client::open(&place.url)?;
    let (start, count) = (Instant::now(), rate * seconds);
    for number in 0..count {
        thread::sleep(
            (Duration::from_secs(1) / u32::try_from(rate)? * u32::try_from(number)?).saturating_sub(start.elapsed()),
        );
        schedule_each(&timers, &mut client, number)?;
    }
    wait_for(|| timers.stats().completed >= count * DELAYS.len() as u64 * 2);
    timers.stop();
    let lateness = lateness.lock().unwrap().clone();
    Ok(lateness)
}

fn schedule_each(timers: &DurableTimer, client: &mut Client, number: u64) -> anyhow::Result<()> {
    for (at, &delay) in DELAYS.iter().enumerate() {
        let delay = Duration::from_secs(delay);
        client.schedule(&format!("{at}:0:{number}"), delay)?;
        timers.schedule(&format!("{at}:1:{number}"), delay, "handler", PAYLOAD)?.wait()?;
    }
    Ok(())
}
