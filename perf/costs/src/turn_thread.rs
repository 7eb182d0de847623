//! A thread that turns an engine when another thread says so.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tourbillon::Driver;

use super::meter::{Breakpoints, Mark, Meter};
use super::stepper::with_stack_above;

/// The number of the thread that turns.
pub(crate) const LANE: usize = 1;

#[derive(Debug)]
enum Order {
    /// Turn until there is nothing left to do.
    Settle,
    /// Turn once, and measure it under this label.
    Measure { label: usize },
}

/// What the thread runs.
#[derive(Debug)]
pub(crate) struct TurnThread {
    driver: Driver,
    orders: Receiver<Order>,
    fired: SyncSender<usize>,
}

/// Who says when.
#[derive(Debug)]
pub(crate) struct TurnHandle {
    orders: SyncSender<Order>,
    fired: Receiver<usize>,
}

pub(crate) fn new(driver: Driver) -> (TurnHandle, TurnThread) {
    let ((send_order, orders), (fired, receive_fired)) = (sync_channel(1), sync_channel(1));
    (TurnHandle { orders: send_order, fired: receive_fired }, TurnThread { driver, orders, fired })
}

impl TurnHandle {
    pub(crate) fn settle(&self) {
        self.ask(Order::Settle);
    }

    /// Returns how many timeouts fired.
    pub(crate) fn turn_measured(&self, label: usize) -> usize {
        self.ask(Order::Measure { label })
    }

    fn ask(&self, order: Order) -> usize {
        self.orders.send(order).expect("the other thread is there");
        self.fired.recv().expect("the other thread answers")
    }
}

impl TurnThread {
    /// Returns when the handle is gone.
    pub(crate) fn run(mut self) {
        with_stack_above(|| {
            while let Ok(order) = self.orders.recv() {
                let fired = self.carry_out(order);
                if self.fired.send(fired).is_err() {
                    break;
                }
            }
        });
    }

    fn carry_out(&mut self, order: Order) -> usize {
        match order {
            Order::Settle => {
                while self.driver.turn() > 0 {}
                0
            }
            Order::Measure { label } => {
                let mut meter = Breakpoints { mark: Mark::Step, lane: LANE, label };
                meter.measure(1, || self.driver.turn())
            }
        }
    }
}
