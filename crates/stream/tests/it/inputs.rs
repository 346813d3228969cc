//! Sources, sinks and random numbers of tests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_stream::{DueValues, Next, OnPanic, Pause, Recover, SaveState, Sink, Source, Tuple};

/// A state of these fields.
macro_rules! saves {
    ($operator:ty: $($($field:tt).+),+) => {
        impl sakiyomi_stream::SaveState for $operator {
            fn save(&self, out: &mut Vec<u8>) {
                $(sakiyomi_stream::Encode::encode(&self.$($field).+, out);)+
            }

            fn load(&mut self, bytes: &[u8]) -> Result<(), sakiyomi_stream::StateError> {
                let mut from = sakiyomi_stream::Decoder::new(bytes);
                $(self.$($field).+ = sakiyomi_stream::Decode::decode(&mut from)?;)+
                from.finish()
            }
        }
    };
}
pub(crate) use saves;

/// The bytes of a state.
pub(crate) fn saved(state: &impl SaveState) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.save(&mut bytes);
    bytes
}

/// Text of the panics that tests cause.
pub(crate) const POISON: &str = "poison";

/// Keeps the panics that tests cause out of their output.
pub(crate) fn hush_poison() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&POISON) {
                usual(info);
            }
        }));
    });
}

/// A seeded generator; the seed is printed, which a failing test shows.
pub(crate) fn random(seed: u64) -> Pcg64 {
    eprintln!("seed {seed}");
    Pcg64::seed_from_u64(seed)
}

/// Number of seeds of a test of streams that are killed and resume; `SAKIYOMI_STREAM_LIVES=10000` overrides
/// it.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let count = std::env::var("SAKIYOMI_STREAM_LIVES").ok().and_then(|count| count.parse().ok());
    0..count.unwrap_or(usual)
}

/// A number below `bound`.
pub(crate) fn below(random: &mut Pcg64, bound: usize) -> usize {
    (random.next_u64() % bound as u64) as usize
}

/// Numbers from 0, at least `count_min` of them, and until `is_enough` is set.
pub(crate) struct Numbers {
    pub(crate) next: u64,
    pub(crate) count_min: u64,
    pub(crate) is_enough: Arc<AtomicBool>,
    /// Numbers between two pauses, which let the rings run empty; 0 for none.
    pub(crate) burst: u64,
    pub(crate) is_pausing: bool,
}

saves!(Numbers: next, is_pausing);

/// Pause between two bursts.
const PAUSE_NS: u64 = 30_000;

impl Numbers {
    pub(crate) fn count(count: u64) -> Numbers {
        let is_enough = Arc::new(AtomicBool::new(true));
        Numbers { next: 0, count_min: count, is_enough, burst: 0, is_pausing: false }
    }
}

impl Source for Numbers {
    type Out = u64;

    fn next(&mut self, now_ns: u64) -> Next<u64> {
        // Never in place of a watermark: the number of values tells which watermarks there have been.
        let is_last = self.next >= self.count_min && !is_watermark(self.next);
        if is_last && self.is_enough.load(Ordering::Relaxed) {
            return Next::End;
        }
        if self.burst > 0 && self.next.is_multiple_of(self.burst) && !self.is_pausing {
            self.is_pausing = true;
            return Next::At(now_ns + PAUSE_NS);
        }
        self.is_pausing = false;
        if is_watermark(self.next) {
            // In place of this number.
            self.next += 1;
            return Next::Watermark(self.next);
        }
        self.next += 1;
        Next::Value { value: self.next - 1, arrival_ns: now_ns }
    }

    fn fill(&mut self, now_ns: u64, due: &mut DueValues<'_, u64>) -> Option<Pause> {
        while !due.is_full() {
            if self.burst == 0 && self.next < self.count_min && !is_watermark(self.next) {
                due.push(self.next, now_ns);
                self.next += 1;
                continue;
            }
            match self.next(now_ns) {
                Next::Value { value, arrival_ns } => due.push(value, arrival_ns),
                Next::Watermark(time_ns) => return Some(Pause::Watermark(time_ns)),
                Next::At(due_ns) => return Some(Pause::At(due_ns)),
                Next::End => return Some(Pause::End),
            }
        }
        None
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

/// Whether [`Numbers`] emits a watermark in place of this number.
fn is_watermark(number: u64) -> bool {
    number % 2_000 == 999
}

/// An output of [`Numbers`].
pub(crate) enum Emitted {
    Value(u64),
    Watermark(u64),
}

/// Returns the outputs of [`Numbers`] with this number of values.
pub(crate) fn emitted(values: u64) -> impl Iterator<Item = Emitted> {
    let mut left = values;
    (0..).map_while(move |number| {
        if is_watermark(number) {
            return Some(Emitted::Watermark(number + 1));
        }
        left = left.checked_sub(1)?;
        Some(Emitted::Value(number))
    })
}

/// The outputs of [`Numbers`] before it has come to this number.
pub(crate) fn emitted_before(next: u64) -> impl Iterator<Item = Emitted> {
    (0..next).map(
        |number| {
            if is_watermark(number) { Emitted::Watermark(number + 1) } else { Emitted::Value(number) }
        },
    )
}

/// Values in the order of their arrival, and the end.
#[derive(Debug)]
pub(crate) struct Collected<T> {
    pub(crate) values: Vec<T>,
    pub(crate) watermarks: usize,
    pub(crate) ends: usize,
}

/// A sink that keeps what it receives.
pub(crate) struct Collect<T>(Arc<Mutex<Collected<T>>>);

impl<T> Collect<T> {
    pub(crate) fn new() -> (Collect<T>, Arc<Mutex<Collected<T>>>) {
        let collected = Collected { values: Vec::new(), watermarks: 0, ends: 0 };
        let collected = Arc::new(Mutex::new(collected));
        (Collect(Arc::clone(&collected)), collected)
    }
}

impl<T: Send + 'static> Recover for Collect<T> {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Stop
    }
}

impl<T: Send + 'static> Sink for Collect<T> {
    type In = T;

    fn consume(&mut self, tuple: Tuple<T>) {
        self.0.lock().unwrap().values.push(tuple.value);
    }

    fn watermark(&mut self, _: u64) {
        self.0.lock().unwrap().watermarks += 1;
    }

    fn end(&mut self) {
        self.0.lock().unwrap().ends += 1;
    }
}

/// A digest of values that depends on their order, and one that does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) count: u64,
    pub(crate) ordered: u64,
    pub(crate) unordered: u64,
}

impl Digest {
    pub(crate) fn add(&mut self, value: u64) {
        self.count += 1;
        self.ordered = mix(self.ordered ^ value);
        self.unordered = self.unordered.wrapping_add(mix(value));
    }

    /// Adds a watermark, told from a value.
    pub(crate) fn add_watermark(&mut self, time_ns: u64) {
        self.add(mix(!time_ns));
    }

    /// Returns the state as a sink saves it.
    pub(crate) fn bytes(self) -> Vec<u8> {
        saved(&Digests { digest: self, result: Arc::default() })
    }

    /// Without the order.
    pub(crate) fn as_set(self) -> Digest {
        Digest { ordered: 0, ..self }
    }
}

/// A bijection that spreads numbers (SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// A sink that digests what it receives.
pub(crate) struct Digests {
    digest: Digest,
    result: Arc<Mutex<Option<Digest>>>,
}

impl Digests {
    pub(crate) fn new() -> (Digests, Arc<Mutex<Option<Digest>>>) {
        let result = Arc::new(Mutex::new(None));
        (Digests { digest: Digest::default(), result: Arc::clone(&result) }, result)
    }
}

saves!(Digests: digest.count, digest.ordered, digest.unordered);

impl Recover for Digests {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl Sink for Digests {
    type In = u64;

    fn consume(&mut self, tuple: Tuple<u64>) {
        self.digest.add(tuple.value);
    }

    fn watermark(&mut self, time_ns: u64) {
        self.digest.add_watermark(time_ns);
    }

    fn end(&mut self) {
        *self.result.lock().unwrap() = Some(self.digest);
    }
}
