//! A task that was refused, on its way back to the caller.

/// Hands out the task only by value. It has no method that gives a `&F`.
pub(super) struct GivenBack<F>(F);

// SAFETY: `&GivenBack<F>` gives no access to the `F`. The field is private to this module, and
// `into_inner`, the one method that reads it, takes `self`. So threads that share a `GivenBack`
// share no `F`.
unsafe impl<F> Sync for GivenBack<F> {}

impl<F> GivenBack<F> {
    pub(super) fn new(task: F) -> Self {
        Self(task)
    }

    pub(super) fn into_inner(self) -> F {
        self.0
    }
}
