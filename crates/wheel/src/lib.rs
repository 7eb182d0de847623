//! A hierarchical timing wheel: the data structure alone, without a clock, a thread or a lock.
//!
//! ```text
//! insert, reinsert, remove   constant time, a few dozen instructions, no other item touched
//! expire                     due items, by deadline, first in first out within one; in parts
//! cascade                    items move to a finer level in parts, spread over the ticks before
//! next_wakeup                when to turn next, by a bitmap: an empty tick costs nothing
//! ```
//!
//! The caller tells the time in ticks, and the wheel answers which items are due ("sans-io"). It
//! never takes an item before its deadline. It has no `unsafe`, and needs `alloc` and not `std`.
//! Once it is made it allocates blocks of cells, and room to sort in, for late items, after a far
//! jump, and in a rescan. A shrink makes its lists anew.
//!
//! # How it works
//! With s = log2 of the number of slots, a slot of level l is 2^(s·l) ticks wide, and the slot of a
//! tick is `(tick >> s·l) & mask` (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels",
//! 1987; Netty, Kafka, the Linux kernel). With 512 slots, and ticks of 1 ms:
//!
//! | level | slot width | reaches | cascade starts before its slot begins |
//! |---|---|---|---|
//! | 0 | 1 ms | 1.0 s | - |
//! | 1 | 0.5 s | 8.7 min | 0.26 s |
//! | 2 | 4.4 min | 3.1 days | 2.2 min |
//! | 3 | 37 h | 4.4 years, then rounds | 19 h |
//!
//! **A slot is an unrolled list**: a chain of blocks of 14 cells, each with an item. An insert
//! writes the next cell of a slot's last block, a removal clears a cell, and neither looks at
//! another item. When a slot comes up, all 14 addresses of a block are known at once, so that cache
//! misses overlap, and the next block's items can be prefetched. (In an intrusive list each item
//! has to arrive before the address of the next one is known.) A block whose last item leaves is
//! free for any slot.
//!
//! **Twice the slots.** If there is more than one level, each has 2 × `slots`, and so reaches two
//! slots of the level above. This allows a cascade to be spread over many ticks. A slot of level l
//! is opened half its width *before* it begins, and then all its items already fit into level
//! l - 1. So they can be moved a few at a time, tick by tick, while the ticks before are expired on
//! time. With exactly one revolution of slots, a cascade could only be done all at once, in the
//! tick in which it is due.
//!
//! **First in, first out.** An item that a coarse level holds was inserted before all those of its
//! deadline that finer levels hold, because a deadline comes nearer as time goes on, and a nearer
//! one goes into no coarser level. So a slot has two lists: one for the items that cascades bring,
//! and one for those that were inserted into it directly. A level's cascade is over before the
//! first slot that it may bring something to is opened.
//!
//! **Rounds.** A deadline beyond the last level's reach goes into the last level too, and is put
//! back each time its slot comes up.
//!
//! # Example
//! ```
//! use tourbillon_wheel::{Items, Place, Take, Wheel};
//!
//! /// Connections, by their numbers.
//! struct Connections(Vec<Connection>);
//!
//! struct Connection {
//!     idle_at: u64,
//!     place: Option<Place>,
//! }
//!
//! impl Items for Connections {
//!     type Item = u32;
//!
//!     fn deadline(&self, item: u32) -> u64 {
//!         self.0[item as usize].idle_at
//!     }
//!
//!     fn placed(&mut self, item: u32, place: Place) {
//!         self.0[item as usize].place = Some(place);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let new = || Connection { idle_at: 30_000, place: None };
//! let mut open = Connections(vec![new(), new(), new()]);
//! let mut wheel = Wheel::new(512, 4)?;
//! for connection in 0..3 {
//!     wheel.insert(&mut open, connection)?;
//! }
//! open.0[0].idle_at = 60_000; // a packet came: nothing to tell the wheel
//! if let Some(place) = open.0[1].place {
//!     assert!(wheel.remove(place, 1)); // it was closed
//! }
//! let mut idle = Vec::new();
//! wheel.expire(&mut open, 30_000, &mut 100_000, |_, connection| {
//!     idle.push(connection);
//!     Take::Taken
//! });
//! wheel.cascade(&mut open, &mut 100_000);
//! assert_eq!(idle, [2]);
//! assert_eq!(wheel.earliest(&open), Some(60_000));
//! # Ok(())
//! # }
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod block;
mod event;
mod items;
mod level;
mod list;
mod occupancy;
#[cfg(test)]
mod tests;
mod turn;
mod wheel;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use block::{Block, Chunk, Memory};
pub use items::{Items, NEVER, OutOfMemory, Place, Take, WheelError};
pub use wheel::{ITEMS_A_BLOCK, MAX_TICK_BITS, Wheel};
