//! The keys with the most values of each window.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use super::grid::Grid;
use super::panes::Pool;
use super::{Window, WindowResult};
use crate::operator::{Emitter, Operator, Recover};
use crate::operators::key::{Key, KeyBy, Table};
use crate::operators::late::LateCounter;
use crate::state::{Decode, Decoder, Encode, Frame, SaveState, StateError};

/// The keys with the most values of each tumbling or sliding window: their number of values, and all keys that have it, in
/// order. Windows without values have no result.
///
/// The totals of a window are those of the previous one with the new panes added and the old ones subtracted
/// (subtract-on-evict: Tangwongsan et al., PVLDB 8(7), 2015, section 2). A window then costs as much as the keys of a pane and a
/// pass over the keys of a window, where [`Windows`](super::Windows) with [`Count`](crate::operators::Count) merge and
/// emit all keys of all panes.
///
/// A value is late when all its windows have ended: it is dropped and counted.
pub struct MostFrequent<T, F, K: KeyBy<T>> {
    grid: Grid,
    time: F,
    key: K,
    panes: BTreeMap<u64, Pane<K::Key>>,
    totals: Totals<K::Key>,
    pool: Pool<K::Key, u64>,
    /// The latest watermark; 0 before.
    watermark_ns: u64,
    /// Values before this are late.
    open_from_ns: u64,
    late: LateCounter,
    types: PhantomData<fn(T)>,
}

struct Pane<K> {
    counts: Table<K, u64>,
    /// The latest arrival of a value.
    arrival_ns: u64,
}

/// Sums of the counts of some panes.
struct Totals<K> {
    counts: Table<K, u64>,
    /// The first pane of the window, and the first one that is not in the sums.
    from: u64,
    until: u64,
}

const FRAME: Frame = Frame { kind: "most frequent keys of windows", version: 1 };

impl<T, F: FnMut(&T) -> u64, K: KeyBy<T>> MostFrequent<T, F, K> {
    /// Windows that follow each other. The first one begins at event time 0; times are in nanoseconds.
    ///
    /// # Panics
    /// If the size is 0.
    pub fn tumbling(size_ns: u64, time: F, key: K) -> MostFrequent<T, F, K> {
        MostFrequent::sliding(size_ns, size_ns, time, key)
    }

    /// Returns a window that begins at each multiple of the step. Those that would begin before event time 0 begin
    /// there.
    ///
    /// # Panics
    /// If the step is 0 or above the size.
    pub fn sliding(size_ns: u64, step_ns: u64, time: F, key: K) -> MostFrequent<T, F, K> {
        MostFrequent {
            grid: Grid::new(size_ns, step_ns),
            time,
            key,
            panes: BTreeMap::new(),
            totals: Totals::new(),
            pool: Pool::default(),
            watermark_ns: 0,
            open_from_ns: 0,
            late: LateCounter::default(),
            types: PhantomData,
        }
    }
}

/// The emitted value: the greatest count, and the keys that have it.
type Output<K> = WindowResult<(), (u64, Vec<K>)>;

impl<T, F, K: KeyBy<T>> MostFrequent<T, F, K> {
    /// Returns the number of values that were dropped because they were late.
    pub fn late_counter(&self) -> LateCounter {
        self.late.clone()
    }

    /// Returns the number of counts that are kept: one for each key and pane, and one for each key of the last
    /// window.
    pub fn entries(&self) -> usize {
        self.panes.values().map(|pane| pane.counts.len()).sum::<usize>() + self.totals.counts.len()
    }

    fn set_watermark(&mut self, watermark_ns: u64) {
        self.watermark_ns = watermark_ns;
        self.open_from_ns = self.grid.open_from(watermark_ns);
    }

    /// Emits the windows that end after the watermark `after_ns` and not after `until`.
    fn emit_ended(&mut self, after_ns: u64, until: u128, out: &mut Emitter<Output<K::Key>>) {
        let mut from = self.grid.end_after(u128::from(after_ns));
        while let Some(end) = self.next_end(from, until) {
            self.emit(end, out);
            from = end + u128::from(self.grid.step);
        }
    }

    /// Returns the first window from the one that ends at `from` to `until` with a value.
    fn next_end(&self, from: u128, until: u128) -> Option<u128> {
        let first = self.grid.first_pane(from)?;
        let (&number, _) = self.panes.range(first..).next()?;
        Some(from.max(self.grid.first_end(number))).filter(|&end| end <= until)
    }

    fn emit(&mut self, end: u128, out: &mut Emitter<Output<K::Key>>) {
        let (window, panes): (Window, _) = (self.grid.window(end), self.grid.panes(end));
        self.free_before(*panes.start());
        self.totals.from = *panes.start();
        let mut arrival_ns = 0;
        for (&number, pane) in self.panes.range(panes) {
            arrival_ns = arrival_ns.max(pane.arrival_ns);
            self.totals.add(number, pane);
        }
        let value = self.totals.most();
        out.emit_at(WindowResult { window, key: (), value, is_update: false }, arrival_ns);
    }

    /// Frees the panes before this one, and subtracts them.
    fn free_before(&mut self, number: u64) {
        if self.totals.until <= number {
            self.totals.clear();
        }
        while let Some(first) = self.panes.first_entry().filter(|first| *first.key() < number) {
            let (number, Pane { counts, .. }) = first.remove_entry();
            self.totals.subtract(number, &counts);
            let used = counts.len();
            self.pool.put(counts, used);
        }
    }
}

impl<K: Key> Totals<K> {
    fn new() -> Totals<K> {
        Totals { counts: Table::default(), from: 0, until: 0 }
    }

    fn clear(&mut self) {
        self.counts.clear();
        (self.from, self.until) = (0, 0);
    }

    fn has(&self, pane: u64) -> bool {
        (self.from..self.until).contains(&pane)
    }

    /// Adds a pane, unless it has it: panes come in their order.
    fn add(&mut self, number: u64, pane: &Pane<K>) {
        if number < self.until {
            return;
        }
        // The pane of the end of all times has no successor, and no window follows its own.
        self.until = number.saturating_add(1);
        pane.counts.iter().for_each(|(key, &count)| self.count(key, count));
    }

    fn count(&mut self, key: &K, more: u64) {
        count(&mut self.counts, key, more);
    }

    /// Subtracts a pane, if it has it.
    fn subtract(&mut self, number: u64, counts: &Table<K, u64>) {
        if !self.has(number) {
            return;
        }
        for (key, count) in counts {
            if let Some(total) = self.counts.get_mut(key) {
                *total = total.saturating_sub(*count);
                if *total == 0 {
                    self.counts.remove(key);
                }
            }
        }
    }

    /// Returns the largest count, and the keys that have it.
    fn most(&self) -> (u64, Vec<K>) {
        let (mut most, mut keys) = (0, Vec::new());
        for (key, &count) in &self.counts {
            if count > most {
                most = count;
                keys.clear();
            }
            if count == most {
                keys.push(key.clone());
            }
        }
        keys.sort_unstable();
        (most, keys)
    }
}

fn count<K: Key>(counts: &mut Table<K, u64>, key: &K, more: u64) {
    match counts.get_mut(key) {
        Some(count) => *count += more,
        None => {
            counts.insert(key.clone(), more);
        }
    }
}

impl<T: 'static, F: FnMut(&T) -> u64 + Send + 'static, K: KeyBy<T>> Recover for MostFrequent<T, F, K> {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<T: Send + 'static, F: FnMut(&T) -> u64 + Send + 'static, K: KeyBy<T>> Operator
    for MostFrequent<T, F, K>
{
    type In = T;
    type Out = Output<K::Key>;

    fn process(&mut self, value: T, out: &mut Emitter<Self::Out>) {
        let time_ns = (self.time)(&value);
        if time_ns < self.open_from_ns {
            self.late.count();
            return;
        }
        let MostFrequent { grid, key, panes, totals, pool, .. } = self;
        let number = grid.pane_of(time_ns);
        let pane = panes.entry(number).or_insert_with(|| Pane { counts: pool.get(), arrival_ns: 0 });
        pane.arrival_ns = pane.arrival_ns.max(out.arrival_ns());
        key.with_key(&value, |key| {
            count(&mut pane.counts, key, 1);
            if totals.has(number) {
                totals.count(key, 1);
            }
        });
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Self::Out>) {
        if time_ns <= self.watermark_ns {
            return;
        }
        let before_ns = self.watermark_ns;
        self.set_watermark(time_ns);
        if time_ns >= self.grid.next_event(before_ns) {
            self.emit_ended(before_ns, u128::from(time_ns), out);
            self.free_before(self.grid.pane_of(self.open_from_ns));
        }
    }

    fn end(&mut self, out: &mut Emitter<Self::Out>) {
        self.emit_ended(self.watermark_ns, u128::MAX, out);
        self.panes.clear();
        self.totals.clear();
    }
}

impl<T, F, K: KeyBy<T>> SaveState for MostFrequent<T, F, K> {
    /// The totals are those of the panes.
    fn save(&self, out: &mut Vec<u8>) {
        FRAME.save(out, |body| {
            (self.grid.size, self.grid.step).encode(body);
            (self.watermark_ns, self.late.get()).encode(body);
            self.panes.encode(body);
        });
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let grid = self.grid;
        let (watermark_ns, late, panes) = FRAME.load(bytes, |body| {
            body.setting("a window size in ns of", &grid.size)?;
            body.setting("a window step in ns of", &grid.step)?;
            Ok((u64::decode(body)?, u64::decode(body)?, BTreeMap::decode(body)?))
        })?;
        self.panes = panes;
        self.set_watermark(watermark_ns);
        self.totals.clear();
        self.late.set(late);
        Ok(())
    }
}

impl<K: Key> Encode for Pane<K> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.arrival_ns.encode(out);
        self.counts.encode(out);
    }
}

impl<K: Key> Decode for Pane<K> {
    fn decode(from: &mut Decoder<'_>) -> Result<Pane<K>, StateError> {
        Ok(Pane { arrival_ns: u64::decode(from)?, counts: Table::decode(from)? })
    }
}
