//! Typed operators of `stream::operators` as operators on rows.

use sakiyomi_stream::{Emitter, Join, Operator, Recover, SaveState};

use super::Prepare;
use crate::row::Row;

/// An operator on rows whose results become rows.
pub(crate) struct Wrapped<O: Operator<In = Row>, F> {
    prepare: Prepare,
    operator: O,
    /// Results of one call.
    results: Emitter<O::Out>,
    to_rows: F,
}

impl<O: Operator<In = Row>, F: FnMut(O::Out, u64, &mut Emitter<Row>)> Wrapped<O, F> {
    /// `to_rows` emits the rows of a result with its arrival.
    pub(crate) fn new(prepare: Prepare, operator: O, to_rows: F) -> Wrapped<O, F> {
        Wrapped { prepare, operator, results: Emitter::new(), to_rows }
    }

    fn call(&mut self, out: &mut Emitter<Row>, work: impl FnOnce(&mut O, &mut Emitter<O::Out>)) {
        self.results.set_arrival_ns(out.arrival_ns());
        work(&mut self.operator, &mut self.results);
        for (result, arrival_ns) in self.results.drain() {
            (self.to_rows)(result, arrival_ns, out);
        }
    }
}

impl<O, F> Recover for Wrapped<O, F>
where
    O: Operator<In = Row>,
    F: FnMut(O::Out, u64, &mut Emitter<Row>) + Send + 'static,
{
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        self.operator.state()
    }
}

impl<O, F> Operator for Wrapped<O, F>
where
    O: Operator<In = Row>,
    F: FnMut(O::Out, u64, &mut Emitter<Row>) + Send + 'static,
{
    type In = Row;
    type Out = Row;

    fn process(&mut self, row: Row, out: &mut Emitter<Row>) {
        if let Some(row) = self.prepare.row(row) {
            self.call(out, |operator, results| operator.process(row, results));
        }
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Row>) {
        self.call(out, |operator, results| operator.watermark(time_ns, results));
    }

    fn end(&mut self, out: &mut Emitter<Row>) {
        self.call(out, |operator, results| operator.end(results));
    }
}

/// A join of rows.
pub(crate) struct WrappedJoin<J> {
    pub(crate) left: Prepare,
    pub(crate) right: Prepare,
    pub(crate) join: J,
}

impl<J: Join<Left = Row, Right = Row, Out = Row>> Recover for WrappedJoin<J> {
    fn state(&mut self) -> Option<&mut dyn SaveState> {
        self.join.state()
    }
}

impl<J: Join<Left = Row, Right = Row, Out = Row>> Join for WrappedJoin<J> {
    type Left = Row;
    type Right = Row;
    type Out = Row;

    fn left(&mut self, row: Row, out: &mut Emitter<Row>) {
        if let Some(row) = self.left.row(row) {
            self.join.left(row, out);
        }
    }

    fn right(&mut self, row: Row, out: &mut Emitter<Row>) {
        if let Some(row) = self.right.row(row) {
            self.join.right(row, out);
        }
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Row>) {
        self.join.watermark(time_ns, out);
    }

    fn end(&mut self, out: &mut Emitter<Row>) {
        self.join.end(out);
    }
}
