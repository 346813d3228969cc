//! Tumbling and sliding windows.

use std::marker::PhantomData;
use std::mem;

use super::grid::Grid;
use super::panes::{Pane, Panes, Slot};
use super::{Window, WindowResult};
use crate::operator::{Emitter, Operator, Recover};
use crate::operators::aggregate::Aggregate;
use crate::operators::key::{Key, KeyBy, Value};
use crate::operators::late::LateCounter;
use crate::state::{Decode, Encode, Frame, SaveState, StateError};

/// Windows of a fixed size, for each key. The state has an entry for each key and pane; a value is added to one.
///
/// A value is late when all its windows have ended, and the allowed lateness has passed as well: it is dropped and
/// counted. A sliding window merges its panes: one for each step in its size, or two if the size is not a multiple of the
/// step.
///
/// ```
/// use sakiyomi_stream::operators::{Count, Windows};
///
/// struct View {
///     at_ns: u64,
///     page: u64,
/// }
/// const MINUTE_NS: u64 = 60_000_000_000;
/// let views_per_minute = Windows::tumbling(MINUTE_NS, |view: &View| view.at_ns, |view: &View| view.page, Count);
/// # let _ = views_per_minute;
/// ```
pub struct Windows<T, F, K: KeyBy<T>, A: Aggregate<T>> {
    grid: Grid,
    time: F,
    key: K,
    aggregate: A,
    panes: Panes<K::Key, A::State>,
    /// The latest watermark; 0 before.
    watermark_ns: u64,
    /// Values before this are late.
    open_from_ns: u64,
    /// Values before this are in a window that was emitted.
    emitted_to_ns: u64,
    /// Nothing ends and nothing is freed before this watermark: most of them pass at once.
    next_event_ns: u64,
    late: LateCounter,
    /// Whether what late values have changed is being emitted. It stays set if that panics.
    is_emitting_changes: bool,
    /// The drained content of a pane.
    drained: Vec<(K::Key, Slot<A::State>)>,
    types: PhantomData<fn(T)>,
}

/// The state of a key in a pane, with the number of the pane.
type Part<'a, K, S> = (&'a K, u64, &'a Slot<S>);

const FRAME: Frame = Frame { kind: "tumbling or sliding windows", version: 1 };

/// Returns the windows in the saved state of a [`Windows`], each with its key and state.
///
/// # Errors
/// If the bytes are damaged, or those of sliding windows.
pub fn saved_windows<K: Key, S: Value>(bytes: &[u8]) -> Result<Vec<(K, Window, S)>, StateError> {
    type Settings = (u64, u64, u64);
    FRAME.load(bytes, |body| {
        let (size, step, _) = Settings::decode(body)?;
        let _watermark_and_late = <(u64, u64)>::decode(body)?;
        if size != step || size == 0 {
            return Err(StateError::Value("a tumbling window"));
        }
        let mut panes = Panes::<K, S>::decode(body)?;
        let numbers: Vec<u64> = panes.range(..).map(|(number, _)| number).collect();
        let (mut windows, mut slots) = (Vec::new(), Vec::new());
        for number in numbers {
            let start_ns = number.saturating_mul(size);
            let window = Window { start_ns, end_ns: start_ns.saturating_add(size) };
            panes.drain(number, &mut slots);
            slots.sort_unstable_by(|one, other| one.0.cmp(&other.0));
            windows.extend(slots.drain(..).map(|(key, slot)| (key, window, slot.state)));
        }
        Ok(windows)
    })
}

impl<T, F, K, A> Windows<T, F, K, A>
where
    F: FnMut(&T) -> u64,
    K: KeyBy<T>,
    A: Aggregate<T>,
{
    /// Windows that follow each other. The first one begins at event time 0; times are in nanoseconds.
    ///
    /// # Panics
    /// If the size is 0.
    pub fn tumbling(size_ns: u64, time: F, key: K, aggregate: A) -> Windows<T, F, K, A> {
        Windows::sliding(size_ns, size_ns, time, key, aggregate)
    }

    /// Returns a window that begins at each multiple of the step. Those that would begin before event time 0 begin
    /// there.
    ///
    /// # Panics
    /// If the step is 0 or above the size.
    pub fn sliding(size_ns: u64, step_ns: u64, time: F, key: K, aggregate: A) -> Windows<T, F, K, A> {
        Windows {
            grid: Grid::new(size_ns, step_ns),
            time,
            key,
            aggregate,
            panes: Panes::new(),
            watermark_ns: 0,
            open_from_ns: 0,
            emitted_to_ns: 0,
            next_event_ns: 0,
            late: LateCounter::default(),
            is_emitting_changes: false,
            drained: Vec::new(),
            types: PhantomData,
        }
    }
}

impl<T, F, K: KeyBy<T>, A: Aggregate<T>> Windows<T, F, K, A> {
    /// Keeps each window for this time after its end, in nanoseconds. If late values come, the results that they change
    /// are emitted again at the next watermark. [`AllowLate`](crate::operators::AllowLate) lets them through to here.
    #[must_use]
    pub fn allow_late(mut self, lateness_ns: u64) -> Self {
        self.grid.lateness = lateness_ns;
        self
    }

    /// Returns the number of values that were dropped.
    pub fn late_counter(&self) -> LateCounter {
        self.late.clone()
    }

    /// Returns the number of states that are kept: one for each key and pane.
    pub fn entries(&self) -> usize {
        self.panes.entries()
    }

    fn set_watermark(&mut self, watermark_ns: u64) {
        self.watermark_ns = watermark_ns;
        self.open_from_ns = self.grid.open_from(watermark_ns);
        self.emitted_to_ns = self.grid.last_end(watermark_ns);
        self.next_event_ns = self.grid.next_event(watermark_ns);
    }

    /// Emits what late values have changed.
    fn emit_changes(&mut self, out: &mut Emitter<WindowResult<K::Key, A::Output>>) {
        self.drop_changes_that_panicked();
        if self.panes.have_changed() {
            self.is_emitting_changes = true;
            let mut from = self.grid.first_changeable_end(self.watermark_ns);
            let until = u128::from(self.watermark_ns);
            while let Some(end) = self.next_end(from, until, Pane::has_changed) {
                self.emit(end, true, out);
                from = end + u128::from(self.grid.step);
            }
            self.panes.settle();
            self.is_emitting_changes = false;
        }
    }

    /// Forgets the changes of a call that has panicked, which would panic again.
    fn drop_changes_that_panicked(&mut self) {
        if mem::take(&mut self.is_emitting_changes) {
            self.panes.settle();
        }
    }

    /// Emits the windows that end after the watermark `after_ns` and not after `until`.
    fn emit_ended(&mut self, after_ns: u64, until: u128, out: &mut Emitter<WindowResult<K::Key, A::Output>>) {
        let mut from = self.grid.end_after(u128::from(after_ns));
        while let Some(end) = self.next_end(from, until, |_| true) {
            if self.grid.size == self.grid.step && self.grid.lateness == 0 {
                self.emit_and_free(end, out);
            } else {
                self.emit(end, false, out);
            }
            from = end + u128::from(self.grid.step);
        }
    }

    /// Returns the first window from the one that ends at `from` to `until` with a pane that is wanted.
    fn next_end(
        &self,
        from: u128,
        until: u128,
        is_wanted: impl Fn(&Pane<K::Key, A::State>) -> bool,
    ) -> Option<u128> {
        let first = self.grid.first_pane(from)?;
        let (number, _) = self.panes.range(first..).find(|(_, pane)| is_wanted(pane))?;
        Some(from.max(self.grid.first_end(number))).filter(|&end| end <= until)
    }

    /// Emits the window that ends at `end`; only keys that have changed, if asked to.
    fn emit(&mut self, end: u128, only_changes: bool, out: &mut Emitter<WindowResult<K::Key, A::Output>>) {
        let (window, panes) = (self.grid.window(end), self.grid.panes(end));
        if self.grid.size > self.grid.step {
            self.panes.sort(panes.clone());
        }
        let mut slots: Vec<Part<'_, K::Key, A::State>> = Vec::new();
        self.panes.range(panes).for_each(|(number, pane)| pane.append_to(&mut slots, number));
        // Merges panes that are sorted. As it is stable, the slots of a key stay in the order of their panes.
        slots.sort_by(|one, other| one.0.cmp(other.0));
        for group in slots.chunk_by(|one, other| one.0 == other.0) {
            if only_changes && group.iter().all(|(_, _, slot)| !slot.is_changed) {
                continue;
            }
            let value = self.merged(group);
            let arrival_ns = group.iter().map(|(_, _, slot)| slot.arrival_ns).max().unwrap_or(0);
            let key = group[0].0.clone();
            out.emit_at(WindowResult { window, key, value, is_update: only_changes }, arrival_ns);
        }
    }

    fn merged(&self, group: &[Part<'_, K::Key, A::State>]) -> A::Output {
        if let [(_, _, slot)] = group {
            return self.aggregate.output(&slot.state);
        }
        let mut state = self.aggregate.init();
        group.iter().for_each(|(_, _, slot)| self.aggregate.merge(&mut state, &slot.state));
        self.aggregate.output(&state)
    }

    /// Like [`Windows::emit`] of a tumbling window that no late value changes: nothing is copied.
    fn emit_and_free(&mut self, end: u128, out: &mut Emitter<WindowResult<K::Key, A::Output>>) {
        let window = self.grid.window(end);
        // A call that panicked may have left entries.
        self.drained.clear();
        self.panes.drain(*self.grid.panes(end).start(), &mut self.drained);
        self.drained.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        for (key, slot) in self.drained.drain(..) {
            let value = self.aggregate.output(&slot.state);
            out.emit_at(WindowResult { window, key, value, is_update: false }, slot.arrival_ns);
        }
    }
}

impl<T, F, K, A> Recover for Windows<T, F, K, A>
where
    T: 'static,
    F: FnMut(&T) -> u64 + Send + 'static,
    K: KeyBy<T>,
    A: Aggregate<T>,
{
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<T, F, K, A> Operator for Windows<T, F, K, A>
where
    T: Send + 'static,
    F: FnMut(&T) -> u64 + Send + 'static,
    K: KeyBy<T>,
    A: Aggregate<T>,
{
    type In = T;
    type Out = WindowResult<K::Key, A::Output>;

    fn process(&mut self, value: T, out: &mut Emitter<Self::Out>) {
        let time_ns = (self.time)(&value);
        if time_ns < self.open_from_ns {
            self.late.count();
            return;
        }
        let is_change = self.grid.lateness > 0 && time_ns < self.emitted_to_ns;
        if is_change {
            self.drop_changes_that_panicked();
        }
        let Windows { grid, key, aggregate, panes, .. } = self;
        let pane = grid.pane_of(time_ns);
        key.with_key(&value, |key| {
            let (init, add) = (|| aggregate.init(), |state: &mut A::State| aggregate.add(state, &value));
            panes.update(pane, key, out.arrival_ns(), is_change, init, add);
        });
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Self::Out>) {
        if time_ns <= self.watermark_ns {
            return;
        }
        self.emit_changes(out);
        if time_ns < self.next_event_ns {
            self.watermark_ns = time_ns;
            return;
        }
        // Before they are emitted: windows whose results panic would do so again.
        let before_ns = self.watermark_ns;
        self.set_watermark(time_ns);
        self.emit_ended(before_ns, u128::from(time_ns), out);
        self.panes.free_before(self.grid.pane_of(self.open_from_ns));
    }

    fn end(&mut self, out: &mut Emitter<Self::Out>) {
        self.emit_changes(out);
        self.emit_ended(self.watermark_ns, u128::MAX, out);
        self.panes.clear();
    }
}

impl<T, F, K: KeyBy<T>, A: Aggregate<T>> SaveState for Windows<T, F, K, A> {
    fn save(&self, out: &mut Vec<u8>) {
        FRAME.save(out, |body| {
            (self.grid.size, self.grid.step, self.grid.lateness).encode(body);
            (self.watermark_ns, self.late.get()).encode(body);
            self.panes.encode(body);
        });
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let grid = self.grid;
        let (watermark_ns, late, panes) = FRAME.load(bytes, |body| {
            body.setting("a window size in ns of", &grid.size)?;
            body.setting("a window step in ns of", &grid.step)?;
            body.setting("an allowed lateness in ns of", &grid.lateness)?;
            Ok((u64::decode(body)?, u64::decode(body)?, Panes::decode(body)?))
        })?;
        self.panes = panes;
        self.is_emitting_changes = false;
        self.late.set(late);
        self.set_watermark(watermark_ns);
        Ok(())
    }
}
