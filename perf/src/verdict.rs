//! What a job that ran to its end says.

/// Whether all checks of a job passed. The job has already printed why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
}

impl Verdict {
    pub(crate) fn passed_if(all_good: bool) -> Self {
        if all_good { Self::Passed } else { Self::Failed }
    }
}
