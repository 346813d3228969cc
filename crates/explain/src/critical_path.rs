//! The critical path of a recording: what the elapsed time was spent on, without remainder.
//!
//! It is followed backward from the end of the program. While its thread computes, or waits for storage, the time is
//! that thread's own. Where it was woken by another recorded thread, as by a lock, a pipe or the end of a process, the
//! path goes on with the thread that woke it, which was the later one; at the start of a thread it goes on with its
//! parent. So times of threads that others did not wait for are not on it, and those of parallel threads are not summed.

use sakiyomi_model::Nanos;

use crate::recording::{Method, RecordedThread, Recording, Span, ThreadIndex, ThreadState, Wait};

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread; `None` if no recorded thread explains this time.
    pub thread: Option<ThreadIndex>,
    /// Start.
    pub begun: Nanos,
    /// End.
    pub ended: Nanos,
    /// The activity; `None` if it is not known.
    pub state: Option<ThreadState>,
}

/// Returns the critical path in order of time. Its steps cover the time from 0 to the end of the recording.
#[must_use]
pub fn critical_path(recording: &Recording) -> Vec<Step> {
    let mut path = Path { recording, steps: Vec::new(), at: recording.elapsed_ns };
    let mut thread = ThreadIndex(0);
    // Time between the last event of the program and the end.
    let end = recording.threads.first().map_or(Nanos::ZERO, RecordedThread::ended);
    path.back_to(end, None, None);
    while !path.at.is_zero() {
        let Some(current) = recording.threads.get(thread.0) else { break };
        match span_before(current, path.at) {
            Some(span) => match path.waker_of(span) {
                Some(waker) => thread = waker,
                None => match path.active_instead_of(thread, span) {
                    Some((active, begun)) => {
                        path.back_to(begun, Some(thread), Some(span.state));
                        thread = active;
                    }
                    None => path.back_to(span.begun_ns, Some(thread), Some(span.state)),
                },
            },
            None => match current.parent.filter(|_| current.begun_ns >= path.at) {
                Some(parent) => thread = parent,
                // Events are missing.
                None => break,
            },
        }
    }
    path.back_to(Nanos::ZERO, None, None);
    path.steps.reverse();
    path.steps
}

struct Path<'a> {
    recording: &'a Recording,
    /// Latest first.
    steps: Vec<Step>,
    /// The path is known from here to the end.
    at: Nanos,
}

impl Path<'_> {
    fn back_to(&mut self, begun: Nanos, thread: Option<ThreadIndex>, state: Option<ThreadState>) {
        if begun < self.at {
            self.steps.push(Step { thread, begun, ended: self.at, state });
            self.at = begun;
        }
    }

    /// Returns the thread on which a wait depends that ends at the current position; `None` if it explains itself.
    fn waker_of(&self, span: &Span) -> Option<ThreadIndex> {
        let ThreadState::Waiting { wait, woken_by } = span.state else { return None };
        let waker = woken_by.filter(|_| wait.is_for_others() && span.ended_ns == self.at)?;
        let thread = self.recording.threads.get(waker.0)?;
        // It must have been active at this moment: a waker that itself waits would lead round in a circle.
        let own = span_before(thread, self.at)?;
        let is_active = !matches!(own.state, ThreadState::Waiting { wait, .. } if wait.is_for_others());
        is_active.then_some(waker)
    }
}

impl Path<'_> {
    /// Returns the thread that was active last during a wait for others, and when it was, where samples do not show
    /// which thread woke which.
    fn active_instead_of(&self, waiter: ThreadIndex, span: &Span) -> Option<(ThreadIndex, Nanos)> {
        let is_for_others = matches!(span.state, ThreadState::Waiting { wait, .. } if wait.is_for_others());
        if self.recording.method == Method::Traced || !is_for_others {
            return None;
        }
        let threads = self.recording.threads.iter().enumerate().filter(|(index, _)| *index != waiter.0);
        let active = threads.filter_map(|(index, thread)| {
            let until = last_active(thread, self.at)?.min(self.at);
            (until > span.begun_ns).then_some((ThreadIndex(index), until))
        });
        active.max_by_key(|&(_, until)| until)
    }
}

/// Returns the end of the last span before `at` in which a thread did not wait for others.
fn last_active(thread: &RecordedThread, at: Nanos) -> Option<Nanos> {
    let index = thread.spans.partition_point(|span| span.begun_ns < at);
    let is_active =
        |span: &&Span| !matches!(span.state, ThreadState::Waiting { wait, .. } if wait.is_for_others());
    thread.spans[..index].iter().rev().find(is_active).map(|span| span.ended_ns)
}

/// Returns the span of a thread that contains the time just before `at`.
fn span_before(thread: &RecordedThread, at: Nanos) -> Option<&Span> {
    let index = thread.spans.partition_point(|span| span.begun_ns < at);
    thread.spans[..index].last().filter(|span| span.ended_ns >= at)
}

impl Wait {
    /// Returns whether another thread or program can end it, rather than storage or a clock.
    #[must_use]
    pub fn is_for_others(self) -> bool {
        matches!(self, Wait::Others | Wait::Socket | Wait::Unknown)
    }

    /// Returns whether storage ends it.
    #[must_use]
    pub fn is_for_storage(self) -> bool {
        matches!(
            self,
            Wait::Read { .. }
                | Wait::Mapping { .. }
                | Wait::Metadata
                | Wait::Sync { .. }
                | Wait::Write { .. }
                | Wait::WriteBack
                | Wait::AsynchronousIo
        )
    }
}
