//! The keys with the highest results of each window.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::key::{Key, Table, Value};
use super::late::LateCounter;
use super::window::{Window, WindowResult, has_passed};
use crate::operator::{Emitter, Operator, Recover};
use crate::state::{Decode, Decoder, Encode, Frame, SaveState, StateError};

/// A result and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ranked<K, V> {
    /// The place, from 1.
    pub rank: usize,
    /// The result; an update if the list of this window was emitted before.
    pub result: WindowResult<K, V>,
}

/// Emits the highest results of each window when the watermark reaches its end: in descending order, keys of equal
/// results in ascending order. The results may come from several operators that share the keys.
///
/// ```
/// use sakiyomi_stream::operators::{Count, Top, Windows};
///
/// # let (size_ns, time, page) = (10, |view: &(u64, u64)| view.0, |view: &(u64, u64)| view.1);
/// let counts = Windows::tumbling(size_ns, time, page, Count);
/// let most_viewed = Top::new(10, |count: &u64| *count);
/// # let _: (_, Top<u64, u64, _>) = (counts, most_viewed);
/// ```
pub struct Top<K, V, R> {
    count_max: usize,
    lateness_ns: u64,
    rank: R,
    /// Results by end and start of their window.
    windows: BTreeMap<(u64, u64), Board<K, V>>,
    watermark_ns: u64,
    late: LateCounter,
}

/// The results of a window.
struct Board<K, V> {
    results: Table<K, Scored<V>>,
    /// Whether a result has come since the last list.
    is_pending: bool,
    /// Whether there was a list.
    is_emitted: bool,
}

struct Scored<V> {
    value: V,
    arrival_ns: u64,
}

/// Results beyond twice those that are emitted, at which those that cannot be among them are dropped: a selection of
/// few would be made often.
const PRUNE_SLACK_RESULTS: usize = 64;

const FRAME: Frame = Frame { kind: "the highest results of windows", version: 1 };

impl<K, V, R, O> Top<K, V, R>
where
    K: Key,
    V: Value + Clone,
    R: FnMut(&V) -> O,
    O: Ord,
{
    /// Returns the `count_max` results of a window with the highest `rank`.
    pub fn new(count_max: usize, rank: R) -> Top<K, V, R> {
        let (windows, late) = (BTreeMap::new(), LateCounter::default());
        Top { count_max, lateness_ns: 0, rank, windows, watermark_ns: 0, late }
    }
}

impl<K, V, R> Top<K, V, R> {
    /// Keeps all results for this time after the end of their window, in nanoseconds, and emits the list of a window
    /// again when updates have come. To be that of the windows whose results these are.
    #[must_use]
    pub fn allow_late(self, lateness_ns: u64) -> Self {
        Top { lateness_ns, ..self }
    }

    /// Returns the number of results that were dropped because their window had ended.
    pub fn late_counter(&self) -> LateCounter {
        self.late.clone()
    }

    /// Returns the number of results that are kept.
    pub fn entries(&self) -> usize {
        self.windows.values().map(|board| board.results.len()).sum()
    }
}

impl<K: Key, V: Value + Clone> Board<K, V> {
    fn new() -> Board<K, V> {
        Board { results: Table::default(), is_pending: false, is_emitted: false }
    }

    /// Returns the highest results, in no order.
    fn highest<O: Ord>(&self, count_max: usize, rank: &mut impl FnMut(&V) -> O) -> Vec<(O, &K, &Scored<V>)> {
        let mut all: Vec<_> =
            self.results.iter().map(|(key, scored)| (rank(&scored.value), key, scored)).collect();
        if all.len() > count_max {
            all.select_nth_unstable_by(count_max, descending);
            all.truncate(count_max);
        }
        all
    }

    /// Drops what is not among the highest.
    fn prune<O: Ord>(&mut self, count_max: usize, rank: &mut impl FnMut(&V) -> O) {
        let highest = self.highest(count_max, rank);
        let keys: Vec<K> = highest.into_iter().map(|(_, key, _)| key.clone()).collect();
        let mut results = Table::default();
        results.extend(keys.into_iter().filter_map(|key| self.results.remove_entry(&key)));
        self.results = results;
    }
}

fn descending<K: Ord, V, O: Ord>(one: &(O, &K, &Scored<V>), other: &(O, &K, &Scored<V>)) -> Ordering {
    other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1))
}

impl<K, V, R, O> Top<K, V, R>
where
    K: Key,
    V: Value + Clone,
    R: FnMut(&V) -> O,
    O: Ord,
{
    /// Emits the lists of all windows that end by `until_ns` and have one to emit.
    fn emit(&mut self, until_ns: u64, out: &mut Emitter<Ranked<K, V>>) {
        let Top { windows, rank, count_max, .. } = self;
        let ended = windows.range_mut(..=(until_ns, u64::MAX)).filter(|(_, board)| board.is_pending);
        for (&(end_ns, start_ns), board) in ended {
            let window = Window { start_ns, end_ns };
            let mut highest = board.highest(*count_max, rank);
            highest.sort_unstable_by(descending);
            for (index, (_, key, scored)) in highest.into_iter().enumerate() {
                let (key, value, is_update) = (key.clone(), scored.value.clone(), board.is_emitted);
                let result = WindowResult { window, key, value, is_update };
                out.emit_at(Ranked { rank: index + 1, result }, scored.arrival_ns);
            }
            (board.is_pending, board.is_emitted) = (false, true);
        }
    }
}

impl<K, V, R, O> Recover for Top<K, V, R>
where
    K: Key,
    V: Value + Clone,
    R: FnMut(&V) -> O + Send + 'static,
    O: Ord,
{
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<K, V, R, O> Operator for Top<K, V, R>
where
    K: Key,
    V: Value + Clone,
    R: FnMut(&V) -> O + Send + 'static,
    O: Ord,
{
    type In = WindowResult<K, V>;
    type Out = Ranked<K, V>;

    fn process(&mut self, result: WindowResult<K, V>, out: &mut Emitter<Ranked<K, V>>) {
        let Window { start_ns, end_ns } = result.window;
        if has_passed(end_ns, self.lateness_ns, self.watermark_ns) {
            self.late.count();
            return;
        }
        let board = self.windows.entry((end_ns, start_ns)).or_insert_with(Board::new);
        let scored = Scored { value: result.value, arrival_ns: out.arrival_ns() };
        board.results.insert(result.key, scored);
        board.is_pending = true;
        let is_full = board.results.len() >= 2 * self.count_max + PRUNE_SLACK_RESULTS;
        if is_full && self.lateness_ns == 0 {
            board.prune(self.count_max, &mut self.rank);
        }
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Ranked<K, V>>) {
        if time_ns <= self.watermark_ns {
            return;
        }
        // An end at `u64::MAX` may stand for a later one, which only the end of the input reaches.
        let time_ns = time_ns.min(u64::MAX - 1);
        self.emit(time_ns, out);
        self.watermark_ns = time_ns;
        while let Some(first) = self.windows.first_entry()
            && has_passed(first.key().0, self.lateness_ns, time_ns)
        {
            first.remove();
        }
    }

    fn end(&mut self, out: &mut Emitter<Ranked<K, V>>) {
        self.emit(u64::MAX, out);
        self.windows.clear();
    }
}

impl<K: Key, V: Value + Clone, R> SaveState for Top<K, V, R> {
    fn save(&self, out: &mut Vec<u8>) {
        FRAME.save(out, |body| {
            (self.count_max, self.lateness_ns).encode(body);
            (self.watermark_ns, self.late.get()).encode(body);
            self.windows.encode(body);
        });
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let (watermark_ns, late, windows) = FRAME.load(bytes, |body| {
            body.setting("a number of results of", &self.count_max)?;
            body.setting("an allowed lateness in ns of", &self.lateness_ns)?;
            Ok((u64::decode(body)?, u64::decode(body)?, BTreeMap::decode(body)?))
        })?;
        (self.watermark_ns, self.windows) = (watermark_ns, windows);
        self.late.set(late);
        Ok(())
    }
}

impl<K: Key, V: Value> Encode for Board<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.results.encode(out);
        (self.is_pending, self.is_emitted).encode(out);
    }
}

impl<K: Key, V: Value> Decode for Board<K, V> {
    fn decode(from: &mut Decoder<'_>) -> Result<Board<K, V>, StateError> {
        let results = Table::decode(from)?;
        let (is_pending, is_emitted) = Decode::decode(from)?;
        Ok(Board { results, is_pending, is_emitted })
    }
}

impl<V: Encode> Encode for Scored<V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.value.encode(out);
        self.arrival_ns.encode(out);
    }
}

impl<V: Decode> Decode for Scored<V> {
    fn decode(from: &mut Decoder<'_>) -> Result<Scored<V>, StateError> {
        Ok(Scored { value: V::decode(from)?, arrival_ns: u64::decode(from)? })
    }
}
