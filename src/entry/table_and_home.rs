//! Where an entry is at home, the shard that it was scheduled on; and the word that has this home
//! beside the table of the task.

use std::marker::PhantomData;
use std::num::NonZeroU16;
use std::task::Waker;

use super::linked::ADDRESS_BITS;
use super::task::Work;

#[cfg(not(loom))]
pub(super) use packed::TableAndHome;
#[cfg(loom)]
pub(super) use split::TableAndHome;

/// The number of a shard's remote, which is there for `'a`. The shard layer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Home<'a>(NonZeroU16, PhantomData<&'a ()>);

impl<'a> Home<'a> {
    /// # Safety
    /// This is the number of a `Remote` which is there for `'a`, and a part of its engine.
    #[inline]
    pub(crate) unsafe fn new(number: NonZeroU16) -> Self {
        Self(number, PhantomData)
    }

    #[inline]
    pub(crate) fn number(self) -> NonZeroU16 {
        self.0
    }
}

/// Returns whether a table's address leaves room for a home. Each arena asks for one table. The
/// tables of closures are in the same part of the program, or in one that the system has loaded
/// beside it.
pub(crate) fn tables_fit() -> bool {
    std::ptr::from_ref(&Waker::TABLE).addr() >> ADDRESS_BITS == 0
}

#[cfg(not(loom))]
mod packed {
    use std::num::NonZeroU16;

    use crate::entry::linked::ADDRESS_BITS;
    use crate::entry::task::TaskVTable;
    use crate::sync::{AtomicPtr, Ordering};

    const HOME_BITS: u32 = usize::BITS - ADDRESS_BITS;
    const _: () = assert!(HOME_BITS == u16::BITS);

    /// The address of the table, shifted, and in the lowest bits the number of the home. All are
    /// zero if the entry was never armed.
    ///
    /// An atomic, because the two have owners of their own: a handle reads its home while the
    /// runner of a periodic timeout puts the task back. One thread at a time writes, the owner of
    /// the task, and it leaves the home as it is.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(in crate::entry) struct TableAndHome(AtomicPtr<TaskVTable>);

    impl TableAndHome {
        #[cfg(test)]
        pub(in crate::entry) fn none() -> Self {
            Self(AtomicPtr::new(std::ptr::null_mut()))
        }

        #[inline]
        pub(in crate::entry) fn table(&self) -> Option<&'static TaskVTable> {
            // Relaxed, here and below: the protocol of the entry orders it as it would a plain
            // field.
            let table = self.0.load(Ordering::Relaxed).map_addr(|word| word >> HOME_BITS);
            // SAFETY: it is null, or the address of a table. `set` has packed that without a
            // loss, because `tables_fit`.
            unsafe { table.as_ref() }
        }

        /// Returns the number of the home.
        #[inline]
        pub(in crate::entry) fn home(&self) -> Option<NonZeroU16> {
            #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the home")]
            NonZeroU16::new(self.0.load(Ordering::Relaxed).addr() as u16)
        }

        /// Sets the table, and the number of the home. Without one it leaves the home.
        #[inline]
        pub(in crate::entry) fn set(&self, table: &'static TaskVTable, home: Option<NonZeroU16>) {
            let home = home.or_else(|| self.home()).map_or(0, NonZeroU16::get);
            let pack = |address: usize| {
                debug_assert!(address >> ADDRESS_BITS == 0, "`tables_fit` has looked at another one");
                (address << HOME_BITS) | usize::from(home)
            };
            self.0.store(std::ptr::from_ref(table).cast_mut().map_addr(pack), Ordering::Relaxed);
        }
    }
}

/// The models check that the owner of each is alone with it.
#[cfg(loom)]
mod split {
    use std::num::NonZeroU16;

    use crate::entry::task::TaskVTable;
    use crate::sync::ProtocolCell;

    #[derive(Debug)]
    pub(in crate::entry) struct TableAndHome {
        table: ProtocolCell<Option<&'static TaskVTable>>,
        home: ProtocolCell<Option<NonZeroU16>>,
    }

    impl TableAndHome {
        pub(in crate::entry) fn none() -> Self {
            Self { table: ProtocolCell::new(None), home: ProtocolCell::new(None) }
        }

        pub(in crate::entry) fn table(&self) -> Option<&'static TaskVTable> {
            self.table.get()
        }

        pub(in crate::entry) fn home(&self) -> Option<NonZeroU16> {
            self.home.get()
        }

        pub(in crate::entry) fn set(&self, table: &'static TaskVTable, home: Option<NonZeroU16>) {
            if home.is_some() {
                self.home.set(home);
            }
            self.table.set(Some(table));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_a_home_of_any_number_come_back_as_they_went_in() {
        let word = TableAndHome::none();
        assert!(word.table().is_none() && word.home().is_none());
        let table = &Waker::TABLE;
        for number in [NonZeroU16::MIN, NonZeroU16::MAX] {
            word.set(table, Some(number));
            word.set(table, None);
            assert!(word.table().is_some_and(|found| std::ptr::eq(found, table)));
            assert_eq!(word.home(), Some(number), "a new table leaves it");
        }
        assert!(tables_fit());
    }
}
