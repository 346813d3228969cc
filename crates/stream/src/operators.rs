//! Operators that most streams are made of. Their functions, keys and values are the application's.
//!
//! ```text
//!  source ─ map, filter, flat_map ─ EventTime ─┬─ Windows, Sessions ─ Top ─ sink
//!             parse, select          watermarks ├─ WindowDistinct, Distinct
//!                                               ├─ Keyed: state and timers of the application
//!                                               └─ TimeJoin ─ …
//! ```
//!
//! | what | where |
//! |---|---|
//! | stateless functions | [`map`], [`filter`], [`flat_map`], and [`each`](crate::each) |
//! | event time, watermarks, late values | [`EventTime`]; [`DropLate`], [`AllowLate`], [`MarkLate`] |
//! | keys | [`KeyBy`]: a function of the value, or [`key_into`] |
//! | windows | [`Windows`] (tumbling, sliding), [`Sessions`] |
//! | aggregates | [`Aggregate`]: [`Count`], [`sum()`], [`mean()`], [`min()`], [`max()`], [`distinct_count()`], [`top_values()`] |
//! | highest results of a window, keys with the most values of a window | [`Top`], [`MostFrequent`] |
//! | first value of each key | [`WindowDistinct`], [`Distinct`] |
//! | state and timers by key | [`Keyed`], [`KeyedProcess`] |
//! | going on after a panic of a function | [`skip_panics`] |
//! | pairs of two streams | [`TimeJoin`]: in one window, or within an interval |
//!
//! # Times
//!
//! Event times, sizes and gaps are in nanoseconds. A window includes its start and not its end. All times of `u64` are
//! exact, windows at the end of all times included: those end with the input.
//!
//! # What always holds
//!
//! Results do not depend on a hash: they are emitted in the order of times, then of keys. State that no later value can
//! need is freed when the watermark passes. An operator that is loaded from its saved state ([`SaveState`]) continues as the
//! one that saved it.
//!
//! [`SaveState`]: crate::SaveState

mod aggregate;
mod distinct;
mod functions;
mod join;
mod key;
mod keyed;
mod late;
mod skip;
mod time;
mod top;
mod window;

pub use aggregate::{
    Aggregate, Count, DistinctCount, Max, Mean, Min, Sum, Summable, TopValues, distinct_count, max, mean,
    min, sum, top_values,
};
pub use distinct::{Distinct, KeysFull, WindowDistinct};
pub use functions::{filter, flat_map, map};
pub use join::{JoinSide, Side, TimeJoin, saved_join, side};
pub use key::{Key, KeyBy, KeyInto, OrderedF64, Value, key_into};
pub use keyed::{KeyContext, Keyed, KeyedProcess};
pub use late::{AllowLate, DropLate, Late, LateCounter, LatePolicy, MarkLate};
pub use skip::{SkipPanics, skip_panics};
pub use time::EventTime;
pub use top::{Ranked, Top};
pub use window::{MostFrequent, Sessions, Window, WindowResult, Windows, saved_sessions, saved_windows};
