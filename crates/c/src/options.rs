//! The options of an engine.

use std::ffi::{CStr, c_char};
use std::time::Duration;

use tourbillon::{Builder, Inline, Pinning, ThreadPool, WaitStrategy};

use crate::entry::borrow;
use crate::status::Status;

/// Callbacks run on the worker, and not on a pool of threads. They must not block.
pub const TOURBILLON_INLINE: u32 = 1;
/// No worker is pinned to a core.
pub const TOURBILLON_UNPINNED: u32 = 4;
/// Workers never sleep. Each takes a whole core, and gives the least lateness.
pub const TOURBILLON_SPIN: u32 = 8;
/// No call waits for a worker that has fallen behind. The engine takes more memory instead.
pub const TOURBILLON_NO_WAIT: u32 = 16;

/// The options of an engine. Set `size`, and leave the rest zero for the defaults:
/// `tourbillon_options options = { .size = sizeof options };`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Options {
    /// `sizeof(tourbillon_options)`. A newer library takes the options of an older header.
    pub size: usize,
    /// The length of a tick, in nanoseconds, at least 1,000. Timeouts of one tick run together.
    /// Default: 1 ms.
    pub tick_ns: u64,
    /// How many shards there are, each with a wheel, and a worker thread unless the engine is
    /// driven. Default: one for every four cores; driven: one.
    pub shards: usize,
    /// How many threads run the callbacks. A driven engine runs them itself. Default: one for each
    /// core, and at least two.
    pub pool_threads: usize,
    /// How many ticks one wheel spans, rounded up to a power of two. Default: 512.
    pub ticks_per_wheel: usize,
    /// For how many timeouts to reserve memory, at 64 bytes each. Default: none; the engine takes
    /// memory when it needs it.
    pub capacity: usize,
    /// How many timeouts may be pending. Default: no bound. A bound costs a shared counter.
    pub max_pending: usize,
    /// How many timeouts a turn takes in at most, and how many it runs at most. Default: 100,000.
    pub turn_limit: usize,
    /// How long a call may wait for a worker that has fallen behind. Default: 20 ms. The flag
    /// `TOURBILLON_NO_WAIT` makes it none.
    pub max_wait_ns: u64,
    /// The threads' name. Linux shows 15 bytes. Default (null): "tourbillon".
    pub thread_name: *const c_char,
    /// Where a call that refuses an option writes what is wrong with it, ended by a zero byte. May
    /// be null.
    pub message: *mut c_char,
    /// How many bytes `message` has room for.
    pub message_size: usize,
    /// `TOURBILLON_INLINE` and the others, combined by `|`.
    pub flags: u32,
    /// For later; leave it zero.
    pub reserved: u32,
}

const KNOWN_FLAGS: u32 = TOURBILLON_INLINE | TOURBILLON_UNPINNED | TOURBILLON_SPIN | TOURBILLON_NO_WAIT;

impl Options {
    /// Returns a copy of the options that a caller points to, or the defaults for null.
    ///
    /// # Safety
    /// The pointer is null, or points to as many bytes as the `size` there says.
    pub(crate) unsafe fn read(options: *const Self) -> Result<Self, Status> {
        let mut read = Self::default();
        if options.is_null() {
            return Ok(read);
        }
        // SAFETY: the first field is the size, which the caller has set.
        let size = *unsafe { borrow(options.cast::<usize>()) }?;
        if size < size_of::<usize>() {
            return Err(Status::InvalidArgument);
        }
        // SAFETY: there are `size` bytes to read, and all are plain numbers and pointers. A field
        // that an older header does not know stays zero.
        unsafe {
            std::ptr::copy_nonoverlapping(options.cast::<u8>(), (&raw mut read).cast(), size.min(size_of::<Self>()))
        };
        Ok(read)
    }

    /// Returns the builder of an engine.
    ///
    /// # Safety
    /// The pointers are null, or point to a text and to room for one.
    pub(crate) unsafe fn builder(&self, is_driven: bool) -> Result<Builder, Status> {
        let unknown = self.flags & !KNOWN_FLAGS;
        if unknown != 0 || self.reserved != 0 {
            // SAFETY: the caller's contract.
            unsafe { self.tell(&format!("flags has bits that this version does not know: {unknown:#x}")) };
            return Err(Status::InvalidOption);
        }
        let has = |flag: u32| self.flags & flag != 0;
        let mut builder = tourbillon::Timer::builder();
        builder = set(builder, self.shards, Builder::shards);
        builder = set(builder, self.ticks_per_wheel, Builder::ticks_per_wheel);
        builder = set(builder, self.capacity, Builder::capacity);
        builder = set(builder, self.max_pending, Builder::max_pending_timeouts);
        builder = set(builder, self.turn_limit, |builder, limit| builder.transfer_limit(limit).expiry_limit(limit));
        builder = set(builder, self.tick_ns, |builder, ns| builder.tick_duration(Duration::from_nanos(ns)));
        builder = set(builder, self.max_wait_ns, |builder, ns| builder.max_wait(Duration::from_nanos(ns)));
        if has(TOURBILLON_NO_WAIT) {
            builder = builder.max_wait(Duration::ZERO);
        }
        if has(TOURBILLON_UNPINNED) {
            builder = builder.pinning(Pinning::None);
        }
        if has(TOURBILLON_SPIN) {
            builder = builder.wait(WaitStrategy::Spin);
        }
        if !self.thread_name.is_null() {
            // SAFETY: the caller's contract.
            builder = builder.thread_name(&unsafe { CStr::from_ptr(self.thread_name) }.to_string_lossy());
        }
        Ok(match () {
            () if is_driven => builder,
            () if has(TOURBILLON_INLINE) => builder.executor(Inline),
            () => set(builder, self.pool_threads, |builder, threads| builder.executor(ThreadPool::new(threads))),
        })
    }

    /// Returns the status for an engine that can't be built, and tells the caller why.
    ///
    /// # Safety
    /// As for [`tell`](Self::tell).
    pub(crate) unsafe fn refuse(&self, error: &tourbillon::BuildError) -> Status {
        // SAFETY: the caller's contract.
        unsafe { self.tell(&error.to_string()) };
        error.into()
    }

    /// Writes what is wrong to where the caller wants it, as far as there is room.
    ///
    /// # Safety
    /// `message` is null, or has room for `message_size` bytes.
    unsafe fn tell(&self, text: &str) {
        let Some(room) = self.message_size.checked_sub(1).filter(|_| !self.message.is_null()) else { return };
        let len = (0..=room.min(text.len())).rev().find(|&len| text.is_char_boundary(len)).unwrap_or(0);
        // SAFETY: `len` is at most the room before the last byte, and at most the text's length.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.message.cast(), len);
            self.message.add(len).write(0);
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            tick_ns: 0,
            shards: 0,
            pool_threads: 0,
            ticks_per_wheel: 0,
            capacity: 0,
            max_pending: 0,
            turn_limit: 0,
            max_wait_ns: 0,
            thread_name: std::ptr::null(),
            message: std::ptr::null_mut(),
            message_size: 0,
            flags: 0,
            reserved: 0,
        }
    }
}

/// Sets an option that is not zero.
fn set<T: Default + PartialEq>(builder: Builder, value: T, option: impl FnOnce(Builder, T) -> Builder) -> Builder {
    if value == T::default() { builder } else { option(builder, value) }
}
