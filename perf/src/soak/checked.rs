//! What is known of one engine's timeouts, and where it is counted.

use std::sync::Arc;

use testkit::ledger::Ledger;

use super::tally::Tally;

/// One for each engine.
pub(crate) struct Checked {
    pub(crate) ledger: Ledger,
    pub(crate) tally: Arc<Tally>,
}
