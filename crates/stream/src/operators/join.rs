//! Joins of two streams by key and event time.

mod store;

use std::ops::RangeInclusive;

use store::Store;

use super::key::{Key, KeyBy, Value};
use super::late::LateCounter;
use crate::operator::{Emitter, Join, Recover};
use crate::state::{Decode, Encode, Frame, SaveState, StateError};

/// An input of a [`TimeJoin`]: the event time and the key of its values; see [`side`].
pub trait JoinSide: Send + 'static {
    /// The values, which are kept until no value of the other side can match them.
    type Value: Value;
    /// Keys of the values.
    type Key: Key;

    /// Event time of a value, in nanoseconds.
    fn time_ns(&mut self, value: &Self::Value) -> u64;

    /// Calls `work` with the key of a value.
    fn with_key<R>(&mut self, value: &Self::Value, work: impl FnOnce(&Self::Key) -> R) -> R;
}

/// An input of a join, made of functions; see [`side`].
pub struct Side<T, F, K> {
    time: F,
    key: K,
    types: std::marker::PhantomData<fn(T)>,
}

/// Returns an input of a join whose values have the event time `time` and the key `key`.
pub fn side<T, F, K>(time: F, key: K) -> Side<T, F, K>
where
    T: Value,
    F: FnMut(&T) -> u64 + Send + 'static,
    K: KeyBy<T>,
{
    Side { time, key, types: std::marker::PhantomData }
}

impl<T: Value, F: FnMut(&T) -> u64 + Send + 'static, K: KeyBy<T>> JoinSide for Side<T, F, K> {
    type Value = T;
    type Key = K::Key;

    fn time_ns(&mut self, value: &T) -> u64 {
        (self.time)(value)
    }

    fn with_key<R>(&mut self, value: &T, work: impl FnOnce(&K::Key) -> R) -> R {
        self.key.with_key(value, work)
    }
}

/// Which values of one key match, by their event times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// Pairs of values in the same tumbling window of this size.
    Window(u64),
    /// Pairs whose second value is later than the first by at least the one and at most the other time.
    Interval(i64, i64),
}

/// Emits each pair of values of both inputs that have one key and match by their event times, as soon as both have come,
/// with the later arrival of the two. The set of pairs does not depend on how the inputs interleave.
///
/// A value is kept until no later value of the other input can match it, by the watermark of the join. Values before that
/// watermark (of windows: before the window that it is in) are dropped and counted; they were late in their own stream,
/// and whether they come before or after the other stream's progress is a matter of placement: an
/// [`EventTime`](super::EventTime) before each input that drops late values makes that independent as well.
///
/// Only the later event time of a pair is sure not to be before the watermark of the output, if neither
/// value was late in its own stream: operators that follow should take that one for the time of the pair.
///
/// ```
/// use sakiyomi_stream::operators::{TimeJoin, side};
///
/// type Click = (u64, String);
/// type Sale = (u64, String, i64);
/// let clicks = side(|click: &Click| click.0, |click: &Click| click.1.clone());
/// let sales = side(|sale: &Sale| sale.0, |sale: &Sale| sale.1.clone());
/// const MINUTE_NS: i64 = 60_000_000_000;
/// // Sales at most ten minutes after a click of the same user, at the later one of both times: that of the sale.
/// let join = TimeJoin::interval(0..=10 * MINUTE_NS, clicks, sales, |_: &Click, sale: &Sale| (sale.0, sale.2));
/// # let _ = join;
/// ```
pub struct TimeJoin<L: JoinSide, R: JoinSide, F> {
    span: Span,
    left: L,
    right: R,
    combine: F,
    lefts: Store<L::Key, L::Value>,
    rights: Store<R::Key, R::Value>,
    watermark_ns: u64,
    /// Values before this are late.
    open_from_ns: u64,
    late: LateCounter,
}

const FRAME: Frame = Frame { kind: "a join by time", version: 1 };

/// Parts of an interval in each of which values are kept together: a match looks at one more, and that part of the values
/// is kept in vain.
const INTERVAL_PARTS: u64 = 4;

/// Width of such a part at least: each has a table of its own, which is not worth its memory for few values.
const PART_MIN_NS: u64 = 1_000_000;

impl<L, R, F, O> TimeJoin<L, R, F>
where
    L: JoinSide,
    R: JoinSide<Key = L::Key>,
    F: FnMut(&L::Value, &R::Value) -> O + Send + 'static,
    O: Send + 'static,
{
    /// Pairs of the same tumbling window. The first window begins at event time 0.
    ///
    /// # Panics
    /// If the size is 0.
    pub fn window(size_ns: u64, left: L, right: R, combine: F) -> TimeJoin<L, R, F> {
        assert!(size_ns > 0, "a window has a size");
        TimeJoin::new(Span::Window(size_ns), size_ns, left, right, combine)
    }

    /// Pairs of which the second is later than the first by a time within `bounds_ns`, which may be negative.
    /// `i64::MIN..=i64::MAX` matches all times; all values are then kept for ever.
    ///
    /// # Panics
    /// If the bounds have no time.
    pub fn interval(bounds_ns: RangeInclusive<i64>, left: L, right: R, combine: F) -> TimeJoin<L, R, F> {
        assert!(!bounds_ns.is_empty(), "the interval of a join has a lower bound and a higher one");
        let (lower, upper) = bounds_ns.into_inner();
        let part_ns = (upper.abs_diff(lower) / INTERVAL_PARTS).max(PART_MIN_NS);
        TimeJoin::new(Span::Interval(lower, upper), part_ns, left, right, combine)
    }

    fn new(span: Span, bucket_ns: u64, left: L, right: R, combine: F) -> TimeJoin<L, R, F> {
        let (lefts, rights) = (Store::new(bucket_ns), Store::new(bucket_ns));
        let late = LateCounter::default();
        TimeJoin { span, left, right, combine, lefts, rights, watermark_ns: 0, open_from_ns: 0, late }
    }

    /// Returns whether a value is late, which is counted.
    fn is_late(&self, time_ns: u64) -> bool {
        let is_late = time_ns < self.open_from_ns;
        if is_late {
            self.late.count();
        }
        is_late
    }
}

impl<L: JoinSide, R: JoinSide, F> TimeJoin<L, R, F> {
    /// Returns the number of values that were dropped because they were late.
    pub fn late_counter(&self) -> LateCounter {
        self.late.clone()
    }

    /// Returns the number of values that are kept, of both sides.
    pub fn entries(&self) -> usize {
        self.lefts.entries() + self.rights.entries()
    }

    fn set_watermark(&mut self, watermark_ns: u64) {
        self.watermark_ns = watermark_ns;
        self.open_from_ns = match self.span {
            Span::Window(size_ns) => watermark_ns / size_ns * size_ns,
            Span::Interval(..) => watermark_ns,
        };
    }
}

impl Span {
    /// Returns the times of the second input that match a value of the first.
    fn rights(self, left_ns: u64) -> Option<RangeInclusive<u64>> {
        match self {
            Span::Window(size_ns) => Some(window_of(left_ns, size_ns)),
            Span::Interval(lower, upper) => shifted(left_ns, lower.into(), upper.into()),
        }
    }

    /// Returns the times of the first input that match a value of the second.
    fn lefts(self, right_ns: u64) -> Option<RangeInclusive<u64>> {
        match self {
            Span::Window(size_ns) => Some(window_of(right_ns, size_ns)),
            Span::Interval(lower, upper) => shifted(right_ns, -i128::from(upper), -i128::from(lower)),
        }
    }

    /// Returns the first times of both inputs that later values may match.
    fn needed_from(self, watermark_ns: u64) -> [u64; 2] {
        match self {
            Span::Window(size_ns) => [watermark_ns / size_ns * size_ns; 2],
            Span::Interval(lower, upper) => {
                let from = |shift: i128| clamped(i128::from(watermark_ns) + shift);
                [from(-i128::from(upper)), from(lower.into())]
            }
        }
    }
}

fn window_of(time_ns: u64, size_ns: u64) -> RangeInclusive<u64> {
    let start_ns = time_ns / size_ns * size_ns;
    start_ns..=start_ns.saturating_add(size_ns - 1)
}

fn shifted(time_ns: u64, lower: i128, upper: i128) -> Option<RangeInclusive<u64>> {
    let (first, last) = (i128::from(time_ns) + lower, i128::from(time_ns) + upper);
    (last >= 0 && first <= i128::from(u64::MAX)).then(|| clamped(first)..=clamped(last))
}

fn clamped(time: i128) -> u64 {
    time.clamp(0, u64::MAX.into()) as u64
}

impl<L, R, F, O> Recover for TimeJoin<L, R, F>
where
    L: JoinSide,
    R: JoinSide<Key = L::Key>,
    F: FnMut(&L::Value, &R::Value) -> O + Send + 'static,
    O: Send + 'static,
{
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl<L, R, F, O> Join for TimeJoin<L, R, F>
where
    L: JoinSide,
    R: JoinSide<Key = L::Key>,
    F: FnMut(&L::Value, &R::Value) -> O + Send + 'static,
    O: Send + 'static,
{
    type Left = L::Value;
    type Right = R::Value;
    type Out = O;

    fn left(&mut self, value: L::Value, out: &mut Emitter<O>) {
        let time_ns = self.left.time_ns(&value);
        if self.is_late(time_ns) {
            return;
        }
        let TimeJoin { span, left, combine, lefts, rights, .. } = self;
        let arrival_ns = out.arrival_ns();
        let place = left.with_key(&value, |key| {
            if let Some(times) = span.rights(time_ns) {
                rights.matches(key, times, |other, other_ns| {
                    out.emit_at(combine(&value, other), arrival_ns.max(other_ns));
                });
            }
            lefts.place(key, time_ns)
        });
        lefts.put(place, value, time_ns, arrival_ns);
    }

    fn right(&mut self, value: R::Value, out: &mut Emitter<O>) {
        let time_ns = self.right.time_ns(&value);
        if self.is_late(time_ns) {
            return;
        }
        let TimeJoin { span, right, combine, lefts, rights, .. } = self;
        let arrival_ns = out.arrival_ns();
        let place = right.with_key(&value, |key| {
            if let Some(times) = span.lefts(time_ns) {
                lefts.matches(key, times, |other, other_ns| {
                    out.emit_at(combine(other, &value), arrival_ns.max(other_ns));
                });
            }
            rights.place(key, time_ns)
        });
        rights.put(place, value, time_ns, arrival_ns);
    }

    fn watermark(&mut self, time_ns: u64, _: &mut Emitter<O>) {
        if time_ns > self.watermark_ns {
            self.set_watermark(time_ns);
            let [left_ns, right_ns] = self.span.needed_from(time_ns);
            self.lefts.free_before(left_ns);
            self.rights.free_before(right_ns);
        }
    }

    fn end(&mut self, _: &mut Emitter<O>) {
        self.lefts.clear();
        self.rights.clear();
    }
}

impl<L: JoinSide, R: JoinSide, F> SaveState for TimeJoin<L, R, F> {
    fn save(&self, out: &mut Vec<u8>) {
        FRAME.save(out, |body| {
            self.span.to_text().encode(body);
            (self.watermark_ns, self.late.get()).encode(body);
            self.lefts.encode(body);
            self.rights.encode(body);
        });
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let (watermark_ns, late, lefts, rights) = FRAME.load(bytes, |body| {
            body.setting("a condition in ns of", &self.span.to_text())?;
            let (watermark_ns, late) = Decode::decode(body)?;
            Ok((watermark_ns, late, self.lefts.decode_as(body)?, self.rights.decode_as(body)?))
        })?;
        (self.lefts, self.rights) = (lefts, rights);
        self.late.set(late);
        self.set_watermark(watermark_ns);
        Ok(())
    }
}

/// Returns the values in the saved state of a [`TimeJoin`] of two streams of one type: for each input the event times
/// and values, in the order of their times.
///
/// # Errors
/// If the bytes are damaged.
pub fn saved_join<K: Key, V: Value>(bytes: &[u8]) -> Result<[Vec<(u64, V)>; 2], StateError> {
    FRAME.load(bytes, |body| {
        let _condition = String::decode(body)?;
        let _watermark_and_late = <(u64, u64)>::decode(body)?;
        // The numbers of the buckets are not looked at, and so neither is their width.
        let mut side = || Ok(Store::<K, V>::new(1).decode_as(body)?.into_values());
        Ok([side()?, side()?])
    })
}

impl Span {
    fn to_text(self) -> String {
        match self {
            Span::Window(size_ns) => format!("one window of {size_ns}"),
            Span::Interval(lower, upper) => format!("an interval from {lower} to {upper}"),
        }
    }
}
