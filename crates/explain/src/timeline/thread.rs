//! The state of one thread while its events are processed.

use std::collections::HashMap;
use std::ops::Range;

use sakiyomi_model::Nanos;
use sakiyomi_os::system_call::{Call, CallKind};

use super::reason::{Target, wait_in};
use crate::recording::{
    AccessKind, FileAccess, FileIndex, Pattern, RecordedThread, Span, ThreadIndex, ThreadState, Wait,
};

/// A thread whose events are processed. Times are of the kernel's clock until [`Thread::recorded`].
#[derive(Debug)]
pub(super) struct Thread {
    id: u32,
    name: [u8; 16],
    begun: u64,
    parent: Option<ThreadIndex>,
    state: State,
    context: Context,
    spans: Vec<Span>,
    /// First span of the current call or fault.
    call_spans: usize,
    accesses: Vec<FileAccess>,
    /// Bytes added to the page cache in the current call, of the file.
    added: Option<(FileIndex, u64)>,
    /// End of the last read of each file.
    ends: HashMap<FileIndex, u64>,
    /// End of its last sleep.
    slept_until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running { since: u64 },
    Ready { since: u64 },
    Asleep { since: u64 },
    Ended,
}

/// The call or fault in which a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    None,
    Call { call: Call, is_throttled: bool, file: Option<(FileIndex, Pattern)> },
    Fault { file: FileIndex },
}

impl Thread {
    pub(super) fn new(id: u32, begun: u64, parent: Option<ThreadIndex>) -> Thread {
        Thread {
            id,
            name: [0; 16],
            begun,
            parent,
            state: State::Ready { since: begun },
            context: Context::None,
            spans: Vec::new(),
            call_spans: 0,
            accesses: Vec::new(),
            added: None,
            ends: HashMap::new(),
            slept_until: 0,
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn is_ended(&self) -> bool {
        self.state == State::Ended
    }

    pub(super) fn name(&mut self, name: &[u8; 16]) {
        self.name = *name;
    }

    /// Returns the number of its spans and accesses.
    pub(super) fn entries(&self) -> usize {
        self.spans.len() + self.accesses.len()
    }

    fn push(&mut self, begun: u64, ended: u64, state: ThreadState) {
        if ended <= begun {
            return;
        }
        let (begun_ns, ended_ns) = (Nanos(begun), Nanos(ended));
        if matches!(state, ThreadState::Waiting { .. }) {
            self.slept_until = ended;
        }
        // The waits of a call are decided together.
        let may_extend = self.spans.len() > self.call_spans || !matches!(state, ThreadState::Waiting { .. });
        match self.spans.last_mut() {
            Some(last) if may_extend && last.state == state && last.ended_ns == begun_ns => {
                last.ended_ns = ended_ns;
            }
            _ => self.spans.push(Span { begun_ns, ended_ns, state }),
        }
    }

    pub(super) fn leaves_core(&mut self, time: u64, is_asleep: bool) {
        match self.state {
            State::Running { since } => self.push(since, time, ThreadState::Computing),
            // It ran already at the begin, or events are missing.
            State::Ready { since } | State::Asleep { since } => {
                self.push(since, time, ThreadState::Computing);
            }
            State::Ended => return,
        }
        self.state = if is_asleep { State::Asleep { since: time } } else { State::Ready { since: time } };
    }

    /// Handles that it can go on, woken by a recorded thread, by an interrupt, or by another program.
    pub(super) fn is_woken(&mut self, time: u64, by: Option<ThreadIndex>, is_interrupt: bool) {
        if let State::Asleep { since } = self.state {
            let waits_for_lock =
                matches!(self.context, Context::Call { call, .. } if call.kind == CallKind::Lock);
            // Only its timer interrupts a wait for another thread.
            let wait = if is_interrupt && waits_for_lock { Wait::Timeout } else { Wait::Unknown };
            self.push(since, time, ThreadState::Waiting { wait, woken_by: by });
            self.state = State::Ready { since: time };
        }
    }

    pub(super) fn gets_core(&mut self, time: u64) {
        match self.state {
            State::Ready { since } => self.push(since, time, ThreadState::AwaitingCore),
            State::Asleep { since } => {
                self.push(since, time, ThreadState::Waiting { wait: Wait::Unknown, woken_by: None });
            }
            State::Running { .. } | State::Ended => return,
        }
        self.state = State::Running { since: time };
    }

    /// Returns the descriptor that a call closes.
    pub(super) fn closes(&self, call: &Call) -> Option<u32> {
        matches!(call.kind, CallKind::Close | CallKind::Duplicate).then_some(call.descriptor).flatten()
    }

    pub(super) fn calls(&mut self, time: u64, call: &Call) {
        self.end_running(time);
        self.context = Context::Call { call: *call, is_throttled: false, file: None };
        let kind = match call.kind {
            CallKind::Metadata | CallKind::List => AccessKind::Metadata,
            CallKind::Sync => AccessKind::Sync,
            CallKind::Write => AccessKind::Write,
            _ => return,
        };
        let offset = call.offset.unwrap_or(0);
        self.access(FileAccess {
            begun_ns: Nanos(time),
            ended_ns: Nanos(time),
            kind,
            file: None,
            offset,
            length: call.length,
            calls: 1,
            loaded_bytes: 0,
        });
    }

    /// Ends the span of a running thread here, so that the spans of a call begin with it.
    fn end_running(&mut self, time: u64) {
        if let State::Running { since } | State::Ready { since } = self.state {
            // Only a running thread makes calls: an event is missing if it was not known to run.
            self.push(since, time, ThreadState::Computing);
            self.state = State::Running { since: time };
        }
        self.call_spans = self.spans.len();
    }

    pub(super) fn faults(&mut self, time: u64, file: FileIndex, bytes: &Range<u64>) {
        self.end_running(time);
        self.context = Context::Fault { file };
        self.access(FileAccess {
            begun_ns: Nanos(time),
            ended_ns: Nanos(time),
            kind: AccessKind::Mapping,
            file: Some(file),
            offset: bytes.start,
            length: bytes.end - bytes.start,
            calls: 1,
            loaded_bytes: 0,
        });
    }

    /// Handles that pages for a read have been taken from the page cache, after waiting for them.
    pub(super) fn reads(&mut self, time: u64, file: FileIndex, bytes: &Range<u64>) {
        let end = self.ends.get(&file).copied();
        // A page may be read in several calls.
        let page = (bytes.end - bytes.start).min(4096);
        let continues = match end {
            None => bytes.start == 0,
            Some(end) => (bytes.start..=bytes.start + page).contains(&end),
        };
        let pattern = if continues { Pattern::Sequential } else { Pattern::Scattered };
        let loaded = self.added.take().filter(|(of, _)| *of == file).map_or(0, |(_, bytes)| bytes);
        let is_same_call = match &mut self.context {
            Context::Call { file: known, .. } => {
                known.replace((file, pattern)).is_some_and(|(of, _)| of == file)
            }
            // A program's file is read by `execve`, and mapped files by the kernel.
            _ => false,
        };
        let last = self.accesses.last_mut();
        if let Some(last) = last
            && last.kind == AccessKind::Read
            && last.file == Some(file)
            && (is_same_call || continues)
            && bytes.start <= last.offset + last.length
            && bytes.start >= last.offset
            && (is_same_call || last.loaded_bytes == 0 && loaded == 0 && self.slept_until <= last.begun_ns.0)
        {
            last.length = last.length.max(bytes.end - last.offset);
            last.ended_ns = Nanos(time);
            last.calls += u64::from(!is_same_call);
            last.loaded_bytes += loaded;
        } else {
            self.access(FileAccess {
                begun_ns: Nanos(time),
                ended_ns: Nanos(time),
                kind: AccessKind::Read,
                file: Some(file),
                offset: bytes.start,
                length: bytes.end - bytes.start,
                calls: 1,
                loaded_bytes: loaded,
            });
        }
        self.ends.insert(file, bytes.end);
    }

    pub(super) fn adds(&mut self, file: FileIndex, bytes: u64) {
        match self.context {
            Context::Fault { .. } => {
                if let Some(last) = self.accesses.last_mut().filter(|last| last.file == Some(file)) {
                    last.loaded_bytes += bytes;
                }
            }
            Context::Call { call, .. } if call.kind == CallKind::Write => {
                if let Some(last) = self.accesses.last_mut().filter(|last| last.kind == AccessKind::Write) {
                    last.file = Some(file);
                }
            }
            _ => match &mut self.added {
                Some((of, added)) if *of == file => *added += bytes,
                other => *other = Some((file, bytes)),
            },
        }
    }

    pub(super) fn is_throttled(&mut self) {
        if let Context::Call { is_throttled, .. } = &mut self.context {
            *is_throttled = true;
        }
    }

    fn access(&mut self, access: FileAccess) {
        if let Some(last) = self.accesses.last_mut()
            && last.kind == access.kind
            && access.kind == AccessKind::Write
            && last.file == access.file
            && self.slept_until <= last.begun_ns.0
        {
            last.length += access.length;
            last.calls += access.calls;
            last.ended_ns = access.ended_ns;
            return;
        }
        self.accesses.push(access);
    }

    /// Returns the descriptor whose meaning decides what the thread waited for in its call; `None` if it has not
    /// waited, or it is known.
    pub(super) fn descriptor_to_resolve(&self) -> Option<u32> {
        let Context::Call { call, file: None, .. } = self.context else { return None };
        let is_asked = matches!(call.kind, CallKind::Read | CallKind::Write | CallKind::Sync);
        call.descriptor.filter(|_| is_asked && self.has_waited())
    }

    fn has_waited(&self) -> bool {
        self.spans[self.call_spans..].iter().any(|span| matches!(span.state, ThreadState::Waiting { .. }))
            || matches!(self.state, State::Asleep { .. })
    }

    /// Sets the reason of the waits in the call that ends here.
    pub(super) fn decide(&mut self, target: Target) {
        let reason = self.reason(target);
        for span in &mut self.spans[self.call_spans..] {
            if let ThreadState::Waiting { wait, .. } = &mut span.state
                && *wait != Wait::Timeout
            {
                *wait = reason;
            }
        }
        self.call_spans = self.spans.len();
        self.added = None;
        if let (Target::File(file), Context::Call { call, file: None, .. }) = (target, self.context)
            && call.kind == CallKind::Read
        {
            self.reads_direct(file, &call);
        }
        if let (Target::File(file), Context::Call { call, .. }) = (target, self.context)
            && matches!(call.kind, CallKind::Write | CallKind::Sync)
            && let Some(last) = self.accesses.last_mut()
            && last.file.is_none()
        {
            last.file = Some(file);
        }
    }

    /// Adds a read past the page cache, of which only those that waited are known.
    fn reads_direct(&mut self, file: FileIndex, call: &Call) {
        let Some(wait) = self.spans.last().copied() else { return };
        let before = self.accesses.last().map_or(Nanos::ZERO, |last| last.begun_ns);
        let offset = call.offset.or_else(|| self.ends.get(&file).copied()).unwrap_or(0);
        self.accesses.push(FileAccess {
            begun_ns: wait.begun_ns.max(before),
            ended_ns: wait.ended_ns.max(before),
            kind: AccessKind::DirectRead,
            file: Some(file),
            offset,
            length: call.length,
            calls: 1,
            loaded_bytes: call.length,
        });
        self.ends.insert(file, offset.saturating_add(call.length));
    }

    fn reason(&self, target: Target) -> Wait {
        match self.context {
            Context::None => Wait::Unknown,
            Context::Fault { file } => Wait::Mapping { file },
            Context::Call { file: Some((file, pattern)), .. } => Wait::Read { file, pattern },
            Context::Call { is_throttled: true, .. } => Wait::WriteBack,
            Context::Call { call, .. } => wait_in(call.kind, target),
        }
    }

    pub(super) fn end(&mut self, time: u64) {
        match self.state {
            State::Running { since } => self.push(since, time, ThreadState::Computing),
            State::Ready { since } => self.push(since, time, ThreadState::AwaitingCore),
            State::Asleep { since } => {
                // Of a thread that has ended, this is its last switch.
                let wait = self.reason(Target::Unknown);
                self.push(since, time, ThreadState::Waiting { wait, woken_by: None });
            }
            State::Ended => {}
        }
        self.state = State::Ended;
    }

    /// Returns the thread with times since `begun`.
    pub(super) fn recorded(mut self, begun: u64) -> RecordedThread {
        let since = |time: Nanos| Nanos(time.0.saturating_sub(begun));
        for span in &mut self.spans {
            (span.begun_ns, span.ended_ns) = (since(span.begun_ns), since(span.ended_ns));
        }
        for access in &mut self.accesses {
            (access.begun_ns, access.ended_ns) = (since(access.begun_ns), since(access.ended_ns));
        }
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        RecordedThread {
            id: self.id,
            name: String::from_utf8_lossy(&self.name[..end]).into_owned(),
            begun_ns: since(Nanos(self.begun)),
            parent: self.parent,
            spans: self.spans,
            accesses: self.accesses,
        }
    }
}
