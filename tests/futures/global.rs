//! The free functions: the global engine's futures.

use std::time::{Duration, Instant};

use pollster::block_on;

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_global_futures_are_never_early() {
    block_on(async {
        let begun = Instant::now();
        tourbillon::sleep(2 * MS).await;
        assert!(begun.elapsed() >= 2 * MS);
        let deadline = Instant::now() + 2 * MS;
        tourbillon::sleep_until(deadline).await;
        assert!(Instant::now() >= deadline);
        let mut interval = tourbillon::interval(MS);
        let first = interval.tick().await;
        assert_eq!(interval.tick().await, first + MS);
        assert!(Instant::now() >= first + MS);
    });
}

#[test]
fn the_global_limits_end_what_takes_too_long_and_nothing_else() {
    block_on(async {
        let far = Duration::from_secs(3_600);
        assert_eq!(tourbillon::timeout(far, async { 1 }).await, Ok(1));
        assert_eq!(tourbillon::timeout_at(Instant::now() + far, async { 2 }).await, Ok(2));
        let (begun, never) = (Instant::now(), std::future::pending::<()>);
        assert!(tourbillon::timeout(MS, never()).await.is_err());
        assert!(begun.elapsed() >= MS);
        let deadline = Instant::now() + MS;
        assert!(tourbillon::timeout_at(deadline, never()).await.is_err());
        assert!(Instant::now() >= deadline);
    });
}
