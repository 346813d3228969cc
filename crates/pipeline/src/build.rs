//! From a plan to a stream: inputs and outputs are opened, and operators made.

mod step;

use std::sync::Arc;

use sakiyomi_stream::{Flow, Snapshot, StateError, Stream, StreamBuilder, Wakeup};

use crate::Error;
use crate::control::Control;
use crate::input::{Content, Cut, Named, Start, open};
use crate::output::{Claims, Continuity, Output, RowSink, SavedOutput, Standard, Writer, same_file};
use crate::parse::{Kind, Parser, Slots};
use crate::plan::{Graph, Part, Plan, Role};
use crate::row::Row;
use crate::source::{EventClock, GeneratorSource, Mark, RecordSource, Replay, SourceCounts, SourceSettings};
use crate::spec::{Op, Origin, OutputFormat, Passes, RecordFormat, SourceSpec, Target};
use crate::step::{Append, AppendWritten, RowErrors, StepCounts};
use step::StepBuild;

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
        inputs: Vec<Flow<Row>>,
    ) -> Result<Flow<Row>, Error> {
        let (plan, step) = (self.plan, &self.plan.steps[index]);
        let counts = Arc::new(StepCounts::default());
        self.parts.steps.push((step.name.value.clone(), Arc::clone(&counts)));
        if let Op::Append { path, format, passes } = &step.op {
            let target = Target::File { path: path.clone(), append: true };
            return self.append(name, node, (&target, *format), *passes, inputs);
        }
        let control = Arc::clone(&self.parts.control);
        let errors = RowErrors { name: name.into(), bad: step.bad, control, counts };
        StepBuild::new(plan, name, node, errors).operator(inputs)
    }

    /// Makes the operator of a step that writes its rows and passes them on.
    fn append(
        &mut self,
        name: &str,
        node: usize,
        to: (&Target, OutputFormat),
        passes: Passes,
        mut inputs: Vec<Flow<Row>>,
    ) -> Result<Flow<Row>, Error> {
        let input = inputs.remove(0);
        Ok(match passes {
            Passes::AtOnce => input.then(name, Append::new(self.output(name, node, to, SavedOutput::load)?)),
            Passes::Written { in_flight } => {
                let output = self.output(name, node, to, AppendWritten::saved_output_in_flight)?;
                input.then_async(name, AppendWritten::new(output, in_flight))
            }
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
