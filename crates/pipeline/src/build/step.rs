//! From a step of a plan to an operator.

use std::sync::Arc;

use sakiyomi_expression::{Expression, Projection};
use sakiyomi_stream::operators::LateCounter;
use sakiyomi_stream::{Flow, Replicas};

use crate::Error;
use crate::lookup::Rows;
use crate::plan::{Bound, BoundCall, Layout, MERGE, PARTITIONS, Plan, TimeCell};
use crate::row::{KeyForm, Row};
use crate::spec::Window;
use crate::step::{
    Call, Division, FileLookup, Filter, Grouping, Item, JoinInput, Lookup, LookupColumns, LookupOutput,
    Prepare, Ranking, Results, RowErrors, Select, TimeOf, aggregate, distinct, join, top,
};

/// A step whose operator is made.
pub(super) struct StepBuild<'p> {
    plan: &'p Plan,
    name: &'p str,
    node: usize,
    /// The layout of its rows, and of those of its first input.
    layout: &'p Layout,
    from: &'p Layout,
    division: Option<Division>,
    errors: RowErrors,
}

impl<'p> StepBuild<'p> {
    pub(super) fn new(plan: &'p Plan, name: &'p str, node: usize, errors: RowErrors) -> StepBuild<'p> {
        let from = &plan.layouts[plan.nodes[node].inputs[0]];
        let division = division(plan, name, node);
        StepBuild { plan, name, node, layout: &plan.layouts[node], from, division, errors }
    }

    /// Makes the operator of a step that writes nothing.
    ///
    /// # Errors
    /// If the table of a look-up cannot be opened.
    pub(super) fn operator(self, mut inputs: Vec<Flow<Row>>) -> Result<Flow<Row>, Error> {
        let input = inputs.remove(0);
        let counts = Arc::clone(&self.errors.counts);
        let (flow, late) = match &self.plan.nodes[self.node].bound {
            Bound::Filter(condition) => return Ok(self.filter(input, condition)),
            Bound::Select(projection) => return Ok(self.select(input, projection)),
            Bound::Lookup { keys, width, columns, table, is_required } => {
                let outputs = self.looked_up(*width, columns);
                let columns = LookupColumns::new(self.from.cells(keys), outputs, *is_required, self.errors);
                return Ok(match table {
                    Rows::Memory(table) => input.then(self.name, Lookup::new(Arc::clone(table), columns)),
                    Rows::File(table) => input.then_async(self.name, FileLookup::open(table, columns)?),
                });
            }
            Bound::Aggregate { keys, calls, window, window_unit_ns } => {
                self.aggregate(input, keys, calls, *window, *window_unit_ns)
            }
            Bound::Top { k, score, keys, window } => self.top(input, *k, score, keys, *window),
            Bound::Distinct { keys, window_ns, keys_max } => {
                let window = window_ns.zip(self.from.time.map(time_of));
                distinct(input, self.name, self.division, &self.from.cells(keys), window, *keys_max)
            }
            Bound::Join { keys, columns, within_ns } => {
                let sides = [0, 1].map(|side| self.side(side, &keys[side], &columns[side]));
                let flows = [input, inputs.remove(0)];
                join(flows, self.name, self.division, &sides, *within_ns, &self.errors)
            }
            Bound::Source | Bound::Sink | Bound::Append => {
                unreachable!("the node is a step that writes nothing")
            }
        };
        counts.set_late(late);
        Ok(flow)
    }

    fn filter(self, input: Flow<Row>, condition: &Expression) -> Flow<Row> {
        let cells = self.from.cells(&condition.columns());
        input.then(self.name, Filter::new(condition.clone(), cells, self.errors))
    }

    fn select(self, input: Flow<Row>, projection: &Projection) -> Flow<Row> {
        let item = |&column: &usize| {
            let expression = projection.expressions()[column].clone();
            let cells = self.from.cells(&expression.columns());
            Item::new(expression, cells)
        };
        let mut items: Vec<Item> = self.layout.columns.iter().map(item).collect();
        items.extend(self.own_time_cell(items.len()).map(Item::Cell));
        input.then(self.name, Select::new(items, self.errors))
    }

    /// Returns the cells of the rows of a look-up: of the `width` columns of its input, and of some columns of the table.
    fn looked_up(&self, width: usize, columns: &[usize]) -> Vec<LookupOutput> {
        let output = |&column: &usize| match column.checked_sub(width) {
            None => LookupOutput::Cell(self.from.cell(column)),
            Some(place) => LookupOutput::Column(columns[place]),
        };
        let mut outputs: Vec<LookupOutput> = self.layout.columns.iter().map(output).collect();
        outputs.extend(self.own_time_cell(outputs.len()).map(LookupOutput::Cell));
        outputs
    }

    /// Returns the input's cell of the event time, if the step's rows have a cell of its own for it, after `cells` others.
    fn own_time_cell(&self, cells: usize) -> Option<usize> {
        let (to, time) = self.layout.time.zip(self.from.time)?;
        (to.cell == cells).then_some(time.cell)
    }

    fn aggregate(
        self,
        input: Flow<Row>,
        keys: &[Expression],
        calls: &[BoundCall],
        window: Option<Window>,
        window_unit_ns: Option<u64>,
    ) -> (Flow<Row>, Vec<LateCounter>) {
        let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
        let expressions: Vec<&Expression> = keys.iter().chain(arguments).collect();
        let (prepare, cells, time) = prepare(&expressions, 0, self.from, self.errors);
        let (key_cells, mut rest) = (cells[..keys.len()].to_vec(), cells[keys.len()..].iter());
        let call = |call: &BoundCall| {
            let data_type = call.argument.as_ref().map(Expression::data_type);
            Call { function: call.function, argument: data_type.and_then(|of| Some((*rest.next()?, of))) }
        };
        let lateness_ns = self.plan.lateness_ns(self.node);
        let results = Results {
            forms: keys.iter().map(|key| KeyForm::of(&key.data_type())).collect(),
            calls: calls.iter().map(call).collect(),
            window_unit_ns,
            has_updates: lateness_ns > 0,
        };
        let grouping = Grouping { keys: key_cells, time, window, lateness_ns };
        aggregate(input, self.name, self.division, prepare, &grouping, &results)
    }

    fn top(
        self,
        input: Flow<Row>,
        k: usize,
        score: &Expression,
        keys: &[Expression],
        window: Option<Window>,
    ) -> (Flow<Row>, Vec<LateCounter>) {
        let expressions: Vec<&Expression> = std::iter::once(score).chain(keys).collect();
        let width = self.from.columns.len();
        let (prepare, cells, time) = prepare(&expressions, width, self.from, self.errors);
        let lateness_ns = self.plan.lateness_ns(self.node);
        let grouping = Grouping { keys: cells[1..].to_vec(), time, window, lateness_ns };
        let ranking = Ranking { k, score: cells[0], width, has_time: window.is_some() };
        top(input, self.name, self.division, prepare, &grouping, ranking)
    }

    /// Returns an input of a join.
    fn side(&self, side: usize, keys: &[usize], columns: &[usize]) -> JoinInput {
        let layout = &self.plan.layouts[self.plan.nodes[self.node].inputs[side]];
        let time = layout.time.expect("the inputs of a join have event times");
        JoinInput { keys: layout.cells(keys), columns: layout.cells(columns), time: time_of(time) }
    }
}

/// Returns how the rows of a step are divided, if it may have replicas.
fn division(plan: &Plan, name: &str, node: usize) -> Option<Division> {
    let (replicas, columns) = plan.division(node)?;
    let layout = |side: usize| &plan.layouts[plan.nodes[node].inputs[side]];
    let keys = columns.iter().enumerate().map(|(side, columns)| layout(side).cells(columns));
    Some(Division {
        replicas: Replicas::new(replicas),
        partitions: PARTITIONS.iter().map(|suffix| format!("{name}{suffix}")).collect(),
        merge: format!("{name}{MERGE}"),
        keys: keys.collect(),
    })
}

fn time_of(time: TimeCell) -> TimeOf {
    TimeOf { cell: time.cell, unit_ns: time.unit_ns }
}

/// Expressions as cells of the rows that a keyed operator gets, and the cell of their event time. Plain columns are cells
/// of the input. If any expression is computed, rows are made of the first `width` cells of the input, the expressions
/// and the event time.
///
/// The function returned makes what computes them, once for each instance of the operator.
fn prepare(
    expressions: &[&Expression],
    width: usize,
    from: &Layout,
    errors: RowErrors,
) -> (impl Fn() -> Prepare + use<>, Vec<usize>, Option<TimeOf>) {
    let columns = expressions.iter().map(|one| one.as_column()).collect::<Option<Vec<usize>>>();
    let computed = columns.is_none().then(|| {
        let with_cells = |one: &&Expression| ((*one).clone(), from.cells(&one.columns()));
        expressions.iter().map(with_cells).collect::<Vec<_>>()
    });
    let last = width + expressions.len();
    let time_cell = from.time.map(|time| time.cell);
    let make = move || {
        let items = computed.as_ref().map(|computed| {
            let values = computed.iter().map(|(one, cells)| Item::new(one.clone(), cells.clone()));
            (0..width).map(Item::Cell).chain(values).chain(time_cell.map(Item::Cell)).collect()
        });
        Prepare::new(items, errors.clone())
    };
    match columns {
        Some(columns) => (make, from.cells(&columns), from.time.map(time_of)),
        None => {
            let time = from.time.map(|time| TimeOf { cell: last, unit_ns: time.unit_ns });
            (make, (width..last).collect(), time)
        }
    }
}
