//! Progress of work that has several steps.

/// A step of a validation or of a fit, for a display of the progress.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The trace is being read.
    Reading {
        /// Bytes read so far.
        bytes: u64,
        /// Requests read so far.
        requests: usize,
    },
    /// The trace has been read, and is being replayed or judged.
    Replaying {
        /// Requests of the trace.
        requests: usize,
        /// The work on them: `replayed freely`.
        what: &'static str,
    },
}

/// A function that learns of a step, and returns whether to go on.
pub type Steps<'a> = &'a mut dyn FnMut(Step) -> bool;
