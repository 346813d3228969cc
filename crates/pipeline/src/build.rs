//! From a plan to a stream: inputs and outputs are opened, and operators made.

use std::sync::Arc;

use sakiyomi_expression::Expression;
use sakiyomi_stream::{Flow, Replicas, Snapshot, StateError, Stream, StreamBuilder, Wakeup};

use crate::Error;
use crate::control::Control;
use crate::input::{Content, Cut, Named, Start, open};
use crate::lookup::Rows;
use crate::output::{Claims, Continuity, Output, RowSink, SavedOutput, Standard, Writer, same_file};
use crate::parse::{Kind, Parser, Slots};
use crate::plan::{Bound, BoundCall, Graph, Layout, MERGE, PARTITIONS, Part, Plan, Role, TimeCell};
use crate::row::{KeyForm, Row};
use crate::source::{EventClock, GeneratorSource, Mark, RecordSource, Replay, SourceCounts, SourceSettings};
use crate::spec::{Op, Origin, OutputFormat, Passes, RecordFormat, SourceSpec, Target};
use crate::step::{
    Append, AppendWritten, Call, Division, FileLookup, Filter, Grouping, Item, JoinInput, Lookup,
    LookupColumns, LookupOutput, Prepare, Ranking, Results, RowErrors, Select, StepCounts, TimeOf, aggregate,
    distinct, join, top,
};

/// Inputs and outputs that are open beside the stream.
pub(crate) struct Parts {
    pub(crate) control: Arc<Control>,
    pub(crate) writers: Vec<Writer>,
    /// Outputs of sinks and steps.
    pub(crate) outputs: Vec<(Named, Output)>,
    /// The files of outputs, against other processes, until they have appeared.
    pub(crate) claims: Claims,
    /// Figures of each source.
    pub(crate) sources: Vec<(String, Arc<SourceCounts>)>,
    /// Figures of each step.
    pub(crate) steps: Vec<(String, Arc<StepCounts>)>,
}

/// The stream of a plan.
struct Build<'p> {
    plan: &'p Plan,
    standard: Standard,
    life: Life<'p>,
    parts: Parts,
}

/// Whether a later process can continue with the pipeline, and what it continues from itself.
#[derive(Clone, Copy)]
pub(crate) enum Life<'s> {
    /// It leaves nothing if it is killed.
    Single,
    /// It has snapshots.
    First,
    /// It has snapshots, and continues from one.
    Later(&'s Snapshot),
}

/// Opens the inputs and outputs of a plan, and makes its operators in the order of the graph.
///
/// # Errors
/// If an input or output cannot be opened.
pub(crate) fn build(
    plan: &Plan,
    graph: &Graph,
    standard: Standard,
    life: Life<'_>,
) -> Result<(Stream, Parts), Error> {
    let parts = Parts {
        control: Arc::default(),
        writers: Vec::new(),
        outputs: Vec::new(),
        claims: Claims::default(),
        sources: Vec::new(),
        steps: Vec::new(),
    };
    let mut build = Build { plan, standard, life, parts };
    let made = build.stream(graph);
    if made.is_err() {
        // The threads that were started must not wait for it.
        build.parts.control.stop_and_join();
    }
    Ok((made?, build.parts))
}

impl Build<'_> {
    fn stream(&mut self, graph: &Graph) -> Result<Stream, Error> {
        let builder = StreamBuilder::new(self.plan.ring_slots);
        // For each operator its outputs that have no consumer yet. Splits hand theirs out in turn.
        let mut open: Vec<Vec<Flow<Row>>> = Vec::new();
        for element in &graph.elements {
            let mut inputs = element.inputs.iter().map(|&input| open[input].remove(0)).collect::<Vec<_>>();
            let flows = match (element.part, self.plan.role(element.node)) {
                (Part::Split, _) => {
                    let (one, other) = inputs.remove(0).split(&element.name);
                    vec![one, other]
                }
                // The step adds them with its replicas.
                (Part::Partition | Part::Merge, _) => inputs,
                (Part::Whole, Role::Source(index)) => vec![self.source(&builder, &element.name, index)?],
                (Part::Whole, Role::Step(index)) => {
                    vec![self.step(&element.name, element.node, index, inputs)?]
                }
                (Part::Whole, Role::Sink(index)) => {
                    let input = inputs.remove(0);
                    input.sink(&element.name, self.sink(&element.name, element.node, index)?);
                    Vec::new()
                }
            };
            open.push(flows);
        }
        Ok(builder.build()?)
    }

    fn source(&mut self, builder: &StreamBuilder, name: &str, index: usize) -> Result<Flow<Row>, Error> {
        let (source, layout) = (&self.plan.sources[index], &self.plan.layouts[index]);
        let named = Named::new(name, &source.origin.value.shown());
        let counts = Arc::new(SourceCounts::default());
        self.parts.sources.push((source.name.clone(), Arc::clone(&counts)));
        let clock = source.event_time.as_ref().zip(layout.time).map(|(time, cell)| {
            let data_type = source.schema.field(time.column).data_type();
            EventClock::new(cell.cell, data_type, time.out_of_order_ns, time.late).with_idle(time.idle_ns)
        });
        let wakeup = Wakeup::new();
        let settings = SourceSettings {
            clock,
            overload: source.overload,
            bad: source.bad,
            named: named.clone(),
            control: Arc::clone(&self.parts.control),
            wakeup: wakeup.clone(),
            counts,
        };
        // The event time as well, if it is a cell of its own.
        let mut columns = layout.columns.clone();
        if let (Some(time), Some(cell)) = (&source.event_time, layout.time)
            && cell.cell == columns.len()
        {
            columns.push(time.column);
        }
        if let Origin::Generator(generator) = source.origin.value {
            return Ok(builder.source(name, GeneratorSource::new(generator, columns, settings)));
        }
        let (parser, content) = parser(source, &columns);
        let control = &self.parts.control;
        let replay = replay(&source.origin.value, &content, &named, control, &wakeup)?;
        let (origin, input) = (&source.origin.value, &mut self.standard.input);
        let queue = open(origin, content, &Start::Described, &named, control, &wakeup, input)?;
        Ok(builder.source(name, RecordSource::new(queue, parser, settings).with_replay(replay)))
    }

    fn step(
        &mut self,
        name: &str,
        node: usize,
        index: usize,
        mut inputs: Vec<Flow<Row>>,
    ) -> Result<Flow<Row>, Error> {
        let (plan, step) = (self.plan, &self.plan.steps[index]);
        let counts = Arc::new(StepCounts::default());
        self.parts.steps.push((step.name.value.clone(), Arc::clone(&counts)));
        let control = Arc::clone(&self.parts.control);
        let errors = RowErrors { name: name.into(), bad: step.bad, control, counts: Arc::clone(&counts) };
        let input = inputs.remove(0);
        let from = &plan.layouts[plan.nodes[node].inputs[0]];
        let division = self.division(name, node);
        Ok(match &plan.nodes[node].bound {
            Bound::Filter(condition) => {
                let cells = from.cells(&condition.columns());
                input.then(name, Filter::new(condition.clone(), cells, errors))
            }
            Bound::Select(projection) => {
                let layout = &plan.layouts[node];
                let item = |&column: &usize| {
                    let expression = projection.expressions()[column].clone();
                    let cells = from.cells(&expression.columns());
                    Item::new(expression, cells)
                };
                let mut items: Vec<Item> = layout.columns.iter().map(item).collect();
                if let (Some(to), Some(time)) = (layout.time, from.time)
                    && to.cell == items.len()
                {
                    items.push(Item::Cell(time.cell));
                }
                input.then(name, Select::new(items, errors))
            }
            Bound::Append => {
                let Op::Append { path, format, passes } = &step.op else {
                    unreachable!("the node is of this step")
                };
                let target = Target::File { path: path.clone(), append: true };
                let state = match passes {
                    Passes::AtOnce => SavedOutput::load,
                    Passes::Written { .. } => AppendWritten::saved_output_in_flight,
                };
                let output = self.output(name, node, (&target, *format), state)?;
                match *passes {
                    Passes::AtOnce => input.then(name, Append::new(output)),
                    Passes::Written { in_flight } => {
                        input.then_async(name, AppendWritten::new(output, in_flight))
                    }
                }
            }
            Bound::Aggregate { keys, calls, window, window_unit_ns } => {
                let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
                let expressions: Vec<&Expression> = keys.iter().chain(arguments).collect();
                let (prepare, cells, time) = prepare(&expressions, 0, from, errors);
                let (key_cells, mut rest) = (cells[..keys.len()].to_vec(), cells[keys.len()..].iter());
                let call = |call: &BoundCall| {
                    let data_type = call.argument.as_ref().map(Expression::data_type);
                    Call {
                        function: call.function,
                        argument: data_type.and_then(|of| Some((*rest.next()?, of))),
                    }
                };
                let results = Results {
                    forms: keys.iter().map(|key| KeyForm::of(&key.data_type())).collect(),
                    calls: calls.iter().map(call).collect(),
                    window_unit_ns: *window_unit_ns,
                    has_updates: plan.lateness_ns(node) > 0,
                };
                let lateness_ns = plan.lateness_ns(node);
                let grouping = Grouping { keys: key_cells, time, window: *window, lateness_ns };
                let (flow, late) = aggregate(input, name, division, prepare, &grouping, &results);
                counts.set_late(late);
                flow
            }
            Bound::Top { k, score, keys, window } => {
                let expressions: Vec<&Expression> = std::iter::once(score).chain(keys).collect();
                let width = from.columns.len();
                let (prepare, cells, time) = prepare(&expressions, width, from, errors);
                let lateness_ns = plan.lateness_ns(node);
                let grouping = Grouping { keys: cells[1..].to_vec(), time, window: *window, lateness_ns };
                let ranking = Ranking { k: *k, score: cells[0], width, has_time: window.is_some() };
                let (flow, late) = top(input, name, division, prepare, &grouping, ranking);
                counts.set_late(late);
                flow
            }
            Bound::Distinct { keys, window_ns, keys_max } => {
                let window = window_ns.zip(from.time.map(time_of));
                let (flow, late) = distinct(input, name, division, &from.cells(keys), window, *keys_max);
                counts.set_late(late);
                flow
            }
            Bound::Join { keys, columns, within_ns } => {
                let of = |side: usize| {
                    let layout = &plan.layouts[plan.nodes[node].inputs[side]];
                    let time = layout.time.expect("the inputs of a join have event times");
                    let (keys, columns) = (layout.cells(&keys[side]), layout.cells(&columns[side]));
                    JoinInput { keys, columns, time: time_of(time) }
                };
                let (flows, sides) = ([input, inputs.remove(0)], [of(0), of(1)]);
                let (flow, late) = join(flows, name, division, &sides, *within_ns, &errors);
                counts.set_late(late);
                flow
            }
            Bound::Lookup { keys, width, columns, table, is_required } => {
                let layout = &plan.layouts[node];
                let output = |&column: &usize| match column.checked_sub(*width) {
                    None => LookupOutput::Cell(from.cell(column)),
                    Some(place) => LookupOutput::Column(columns[place]),
                };
                let mut outputs: Vec<LookupOutput> = layout.columns.iter().map(output).collect();
                if let (Some(to), Some(time)) = (layout.time, from.time)
                    && to.cell == outputs.len()
                {
                    outputs.push(LookupOutput::Cell(time.cell));
                }
                let columns = LookupColumns::new(from.cells(keys), outputs, *is_required, errors);
                match table {
                    Rows::Memory(table) => input.then(name, Lookup::new(Arc::clone(table), columns)),
                    Rows::File(table) => input.then_async(name, FileLookup::open(table, columns)?),
                }
            }
            Bound::Source | Bound::Sink => unreachable!("the node is a step"),
        })
    }

    /// Returns how the rows of a step are divided, if it may have replicas.
    fn division(&self, name: &str, node: usize) -> Option<Division> {
        let (replicas, columns) = self.plan.division(node)?;
        let layout = |side: usize| &self.plan.layouts[self.plan.nodes[node].inputs[side]];
        let keys = columns.iter().enumerate().map(|(side, columns)| layout(side).cells(columns));
        Some(Division {
            replicas: Replicas::new(replicas),
            partitions: PARTITIONS.iter().map(|suffix| format!("{name}{suffix}")).collect(),
            merge: format!("{name}{MERGE}"),
            keys: keys.collect(),
        })
    }

    fn sink(&mut self, name: &str, node: usize, index: usize) -> Result<RowSink, Error> {
        let sink = &self.plan.sinks[index];
        let target = (&sink.target.value, sink.format);
        Ok(RowSink::new(self.output(name, node, target, SavedOutput::load)?))
    }

    fn output(
        &mut self,
        name: &str,
        node: usize,
        (target, format): (&Target, OutputFormat),
        state: fn(&[u8]) -> Result<SavedOutput, StateError>,
    ) -> Result<Output, Error> {
        let schema = &self.plan.nodes[node].schema;
        let named = Named::new(name, &target.shown());
        let continuity = self.continuity(name, target, state)?;
        self.parts.claims.add(target).map_err(|source| named.error("open", source))?;
        let stdout = &mut self.standard.output;
        let (output, writer) =
            Output::open(target, format, schema, continuity, &named, &self.parts.control, stdout)?;
        self.parts.writers.extend(writer);
        self.parts.outputs.push((named.clone(), output.clone()));
        self.parts.claims.hold(target).map_err(|source| named.error("open", source))?;
        Ok(output)
    }

    /// Returns whether an output continues from a snapshot. The rows of a file to which several outputs append cannot
    /// be distinguished: they are written again.
    fn continuity(
        &self,
        name: &str,
        target: &Target,
        state_of: fn(&[u8]) -> Result<SavedOutput, StateError>,
    ) -> Result<Continuity, Error> {
        let saved = match self.life {
            Life::Single => return Ok(Continuity::None),
            Life::First => return Ok(Continuity::Begins),
            Life::Later(snapshot) => {
                let operator = snapshot.operators.iter().find(|operator| operator.name == name);
                let state = operator.and_then(|operator| operator.state.as_deref());
                let saved = state_of(state.unwrap_or_default());
                saved.map_err(|source| sakiyomi_stream::Error::State { name: name.to_owned(), source })?
            }
        };
        let is_shared = match target {
            Target::File { path, .. } => {
                self.plan.appended().filter(|other| same_file(other, path)).count() > 1
            }
            _ => false,
        };
        let extent = saved.extent.filter(|_| !is_shared);
        Ok(Continuity::Resumes(SavedOutput { extent, ..saved }))
    }
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

/// Returns how the input of a source is read again, if it is a file.
///
/// # Errors
/// If its length cannot be determined.
fn replay(
    origin: &Origin,
    content: &Content,
    named: &Named,
    control: &Arc<Control>,
    wakeup: &Wakeup,
) -> Result<Option<Replay>, Error> {
    let (path, mark) = match (origin, content) {
        (Origin::File { path, .. } | Origin::Tail { path, .. }, Content::Text(_)) => (path, Mark::default()),
        (Origin::File { path, .. }, Content::Arrow(..)) => {
            let found = std::fs::metadata(path).map_err(|source| named.error("open", source))?;
            (path, Mark::of_length(found.len()))
        }
        _ => return Ok(None),
    };
    let path = path.clone();
    let (origin, content, named) = (origin.clone(), content.clone(), named.clone());
    let (control, wakeup) = (Arc::clone(control), wakeup.clone());
    let reopen =
        Box::new(move |start| open(&origin, content.clone(), &start, &named, &control, &wakeup, &mut None));
    Ok(Some(Replay { reopen, path, mark }))
}

/// Returns how a source reads its records to rows of these columns.
fn parser(source: &SourceSpec, columns: &[usize]) -> (Option<Parser>, Content) {
    let field = |(index, field): (usize, &arrow_schema::FieldRef)| {
        let cell = columns.iter().position(|&column| column == index);
        (field.name().clone(), Kind::of(field.data_type()).zip(cell))
    };
    let slots = || Slots::new(source.schema.fields().iter().enumerate().map(field));
    let parser = match &source.format {
        RecordFormat::Lines => Parser::lines(slots()),
        RecordFormat::Pattern(regex) => Parser::pattern(regex.clone(), slots()),
        RecordFormat::Split(separator) => Parser::split(*separator, slots()),
        RecordFormat::Log => Parser::log(slots()),
        RecordFormat::Csv { separator, header } => Parser::csv(*separator, *header, slots()),
        RecordFormat::Json => Parser::json(slots()),
        RecordFormat::Arrow | RecordFormat::None => {
            return (None, Content::Arrow(source.schema.clone(), columns.to_vec()));
        }
    };
    let cut = if parser.has_quotes() { Cut::Unquoted } else { Cut::Lines };
    (Some(parser), Content::Text(cut))
}
