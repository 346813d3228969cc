//! Windows by event time: tumbling and sliding ones made of panes, and sessions.

mod frequent;
mod grid;
mod list;
mod panes;
mod session;
mod sliding;

pub use frequent::MostFrequent;
pub use session::{Sessions, saved_sessions};
pub use sliding::{Windows, saved_windows};

pub(super) use panes::Pool;

use crate::state::{Decode, Decoder, Encode, StateError};

/// A window of event time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// The first time in it.
    pub start_ns: u64,
    /// The first time after it; `u64::MAX` if it is later than that.
    pub end_ns: u64,
}

/// The result of a window for a key.
///
/// Results come at the watermark that has reached the window's end, in the order of the ends, then of the keys. Their
/// arrival is the latest one of the values that contributed.
///
/// The event time of a result, for operators that follow, is the last one in its window, `end_ns - 1`: the watermark that
/// the window has waited for follows the result, and the previous one has not reached the end. Results that late values give
/// are late there as well.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowResult<K, V> {
    /// The window.
    pub window: Window,
    /// The key.
    pub key: K,
    /// The result.
    pub value: V,
    /// Whether late values have changed a window that was emitted before. This result replaces that of the same window
    /// and key, if there was one.
    pub is_update: bool,
}

/// Returns whether a span of this length that begins at `start_ns` has ended at the watermark; sums beyond `u64`
/// never end.
pub(super) fn has_passed(start_ns: u64, length_ns: u64, watermark_ns: u64) -> bool {
    watermark_ns.checked_sub(length_ns).is_some_and(|latest_ns| start_ns <= latest_ns)
}

impl Encode for Window {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.start_ns, self.end_ns).encode(out);
    }
}

impl Decode for Window {
    fn decode(from: &mut Decoder<'_>) -> Result<Window, StateError> {
        let (start_ns, end_ns) = Decode::decode(from)?;
        Ok(Window { start_ns, end_ns })
    }
}

impl<K: Encode, V: Encode> Encode for WindowResult<K, V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.window.encode(out);
        self.key.encode(out);
        self.value.encode(out);
        self.is_update.encode(out);
    }
}

impl<K: Decode, V: Decode> Decode for WindowResult<K, V> {
    fn decode(from: &mut Decoder<'_>) -> Result<WindowResult<K, V>, StateError> {
        let (window, key, value, is_update) = Decode::decode(from)?;
        Ok(WindowResult { window, key, value, is_update })
    }
}
