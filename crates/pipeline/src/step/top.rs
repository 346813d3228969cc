//! The rows with the largest values of a window.

use sakiyomi_expression::row::Value;
use sakiyomi_stream::operators::{Aggregate, LateCounter, WindowResult, Windows};
use sakiyomi_stream::{Decode, Decoder, Emitter, Encode, Flow, StateError};

use super::aggregate::{Grouping, TimeOf, push_time};
use super::{Division, Prepare, Wrapped, keyed};
use crate::row::{Row, RowBuilder, append};
use crate::spec::Window;

/// Which rows are the highest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranking {
    /// Rows of a window and key.
    pub(crate) k: usize,
    /// The cell of the value by which rows are ranked.
    pub(crate) score: usize,
    /// Cells of the output's columns: the first ones of the input.
    pub(crate) width: usize,
    /// Whether the rows have an event time.
    pub(crate) has_time: bool,
}

/// The highest rows so far, in descending order; of equal ones the first is the highest.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopList(Vec<(Vec<u8>, Row)>);

impl Aggregate<Row> for Ranking {
    type State = TopList;
    type Output = TopList;

    fn init(&self) -> TopList {
        TopList::default()
    }

    fn add(&self, state: &mut TopList, row: &Row) {
        let mut score = Vec::new();
        append(row.value(self.score), &mut score);
        if state.0.len() == self.k && state.0.last().is_some_and(|(last, _)| *last >= score) {
            return;
        }
        self.insert(state, score, row.clone().compact());
    }

    fn merge(&self, state: &mut TopList, later: &TopList) {
        for (score, row) in &later.0 {
            self.insert(state, score.clone(), row.clone());
        }
    }

    fn output(&self, state: &TopList) -> TopList {
        state.clone()
    }
}

impl Ranking {
    /// Makes rows of the highest ones of a window.
    fn into_rows(
        self,
    ) -> impl FnMut(WindowResult<Vec<u8>, TopList>, u64, &mut Emitter<Row>) + Send + 'static {
        let mut builder = RowBuilder::default();
        move |result, arrival_ns, out| {
            for (rank, (_, row)) in result.value.0.into_iter().enumerate() {
                builder.push(Value::Int(rank as i64 + 1), None);
                for cell in 0..self.width {
                    builder.push(row.value(cell), row.block().map(|block| &**block));
                }
                if self.has_time {
                    push_time(result.window.end_ns - 1, &mut builder);
                }
                out.emit_at(builder.finish_from(row), arrival_ns);
            }
        }
    }

    fn insert(&self, state: &mut TopList, score: Vec<u8>, row: Row) {
        let at = state.0.partition_point(|(other, _)| *other >= score);
        if at < self.k {
            state.0.truncate(self.k - 1);
            state.0.insert(at, (score, row));
        }
    }
}

impl Encode for TopList {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for TopList {
    fn decode(from: &mut Decoder<'_>) -> Result<TopList, StateError> {
        Ok(TopList(Decode::decode(from)?))
    }
}

/// Adds the operator of a step to a flow. The counters are those of late rows.
///
/// # Panics
/// If the windows are sessions, which the check of the description refuses.
pub(crate) fn top(
    input: Flow<Row>,
    name: &str,
    division: Option<Division>,
    prepare: impl Fn() -> Prepare,
    grouping: &Grouping,
    ranking: Ranking,
) -> (Flow<Row>, Vec<LateCounter>) {
    let &Grouping { time, window, lateness_ns, .. } = grouping;
    let time_of = move |row: &Row| TimeOf::of(time, row);
    let (size_ns, step_ns) = match window {
        Some(Window::Tumbling { size_ns }) => (size_ns, size_ns),
        Some(Window::Sliding { size_ns, step_ns }) => (size_ns, step_ns),
        Some(Window::Session { .. }) => panic!("session windows are refused for top"),
        None => (u64::MAX, u64::MAX),
    };
    keyed::then(input, name, division, || {
        let windows =
            Windows::sliding(size_ns, step_ns, time_of, grouping.key(), ranking).allow_late(lateness_ns);
        let late = windows.late_counter();
        (Wrapped::new(prepare(), windows, ranking.into_rows()), late)
    })
}
