//! The systems that are modelled, each behind the same few operations.

#[path = "../../../../src/compare/systems/delay_queue.rs"]
pub(crate) mod delay_queue;
#[path = "../../../../src/compare/systems/futures.rs"]
mod futures;
#[path = "../../../../src/compare/systems/heap.rs"]
pub(crate) mod heap;
pub(crate) mod locked_queue;
#[path = "../../../../src/compare/systems/one_owner.rs"]
pub(crate) mod one_owner;
#[path = "../../../../src/compare/systems/patience.rs"]
mod patience;
#[path = "../../../../src/compare/systems/plan.rs"]
pub(crate) mod plan;
#[path = "../../../../src/compare/systems/producer.rs"]
pub(crate) mod producer;
#[path = "../../../../src/compare/systems/round_clock.rs"]
mod round_clock;
#[path = "../../../../src/compare/systems/system.rs"]
pub(crate) mod system;
#[path = "../../../../src/compare/systems/tokio.rs"]
pub(crate) mod tokio;
#[path = "../../../../src/compare/systems/tourbillon.rs"]
pub(crate) mod tourbillon;
