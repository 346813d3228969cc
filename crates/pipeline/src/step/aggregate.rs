//! Aggregates over the rows of a key and window.

use sakiyomi_expression::row::Value;
use sakiyomi_stream::operators::{KeyBy, LateCounter, Sessions, WindowResult, Windows, key_into};
use sakiyomi_stream::{Decoder, Emitter, Flow};

use super::totals::{Call, Calls, Totals};
use super::{Division, Prepare, RowErrors, Wrapped, keyed, write_key};
use crate::row::{KeyForm, Row, RowBuilder, read};
use crate::source::event_ns;
use crate::spec::Window;

/// The event time of rows for a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeOf {
    pub(crate) cell: usize,
    pub(crate) unit_ns: u64,
}

impl TimeOf {
    /// Returns the event time of a row in nanoseconds; without a cell 0, of the one window that then is.
    #[inline]
    pub(crate) fn of(time: Option<TimeOf>, row: &Row) -> u64 {
        time.and_then(|time| event_ns(row, time.cell, time.unit_ns)).unwrap_or(0)
    }
}

/// Over which rows a step computes.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    /// Cells of the key.
    pub(crate) keys: Vec<usize>,
    pub(crate) time: Option<TimeOf>,
    /// None for a window of all rows.
    pub(crate) window: Option<Window>,
    pub(crate) lateness_ns: u64,
}

/// How results become rows.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) forms: Vec<KeyForm>,
    pub(crate) calls: Vec<Call>,
    /// Nanoseconds of the unit of the window's columns; none if there are none.
    pub(crate) window_unit_ns: Option<u64>,
    /// Whether a column tells updates.
    pub(crate) has_updates: bool,
}

/// Adds the operator of a step to a flow. The counters are those of late rows.
pub(crate) fn aggregate(
    input: Flow<Row>,
    name: &str,
    division: Option<Division>,
    prepare: impl Fn() -> Prepare,
    grouping: &Grouping,
    results: &Results,
) -> (Flow<Row>, Vec<LateCounter>) {
    let &Grouping { time, window, lateness_ns, .. } = grouping;
    let time_of = move |row: &Row| TimeOf::of(time, row);
    let calls = || Calls::new(results.calls.clone());
    let (size_ns, step_ns) = match window {
        Some(Window::Session { gap_ns }) => {
            return keyed::then(input, name, division, || {
                let sessions =
                    Sessions::new(gap_ns, time_of, grouping.key(), calls()).allow_late(lateness_ns);
                let late = sessions.late_counter();
                let prepare = prepare();
                let to_rows = results.clone().into_rows(prepare.errors().clone());
                (Wrapped::new(prepare, sessions, to_rows), late)
            });
        }
        Some(Window::Sliding { size_ns, step_ns }) => (size_ns, step_ns),
        Some(Window::Tumbling { size_ns }) => (size_ns, size_ns),
        None => (u64::MAX, u64::MAX),
    };
    keyed::then(input, name, division, || {
        let windows =
            Windows::sliding(size_ns, step_ns, time_of, grouping.key(), calls()).allow_late(lateness_ns);
        let late = windows.late_counter();
        let prepare = prepare();
        let to_rows = results.clone().into_rows(prepare.errors().clone());
        (Wrapped::new(prepare, windows, to_rows), late)
    })
}

impl Grouping {
    /// Returns the key of a row.
    pub(super) fn key(&self) -> impl KeyBy<Row, Key = Vec<u8>> + use<> {
        let keys = self.keys.clone();
        key_into(move |row: &Row, key: &mut Vec<u8>| write_key(row, &keys, key))
    }
}

impl Results {
    /// Makes rows of results.
    fn into_rows(
        self,
        errors: RowErrors,
    ) -> impl FnMut(WindowResult<Vec<u8>, Totals>, u64, &mut Emitter<Row>) + Send + 'static {
        let mut builder = RowBuilder::default();
        move |result, arrival_ns, out| {
            if self.push(&result, &mut builder) {
                out.emit_at(builder.finish(None), arrival_ns);
            } else {
                builder.reset(0);
                errors.note(&"a sum is beyond the range of its type");
            }
        }
    }

    /// Makes the row of a result. Whether all values fit their types.
    fn push(&self, result: &WindowResult<Vec<u8>, Totals>, row: &mut RowBuilder) -> bool {
        if let Some(unit_ns) = self.window_unit_ns {
            push_time(result.window.start_ns / unit_ns, row);
            push_time(result.window.end_ns.div_ceil(unit_ns), row);
        }
        let mut key = Decoder::new(&result.key);
        let is_whole = self.forms.iter().all(|&form| read(form, &mut key, row).is_ok())
            && Calls::push(&self.calls, &result.value, row);
        if self.has_updates {
            row.push(Value::Bool(result.is_update), None);
        }
        if self.window_unit_ns.is_some() {
            push_time(result.window.end_ns - 1, row);
        }
        is_whole
    }
}

/// Adds a time, in any unit.
pub(super) fn push_time(time: u64, row: &mut RowBuilder) {
    row.push(Value::Int(i64::try_from(time).unwrap_or(i64::MAX)), None);
}
