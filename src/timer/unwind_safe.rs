//! What may be used after a panic. The engine catches the panics of all user code that it calls,
//! and its own steps do not panic half-way.

use std::panic::{RefUnwindSafe, UnwindSafe};

use super::{Reusable, Shard, ShutdownFuture, Timeout, TimeoutGuard, Timer};

macro_rules! unwind_safe {
    ($($type:ty),* $(,)?) => {
        $(
            impl UnwindSafe for $type {}
            impl RefUnwindSafe for $type {}
        )*
    };
}

unwind_safe!(Timer, Timeout, TimeoutGuard, Reusable, Shard<'_>, ShutdownFuture);
