//! The groups of one thread: evaluates keys and arguments on batches and adds rows to groups.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;
use arrow_select::filter::filter_record_batch;

use crate::Error;
use sakiyomi_expression::Expression;
use sakiyomi_expression::narrow::Program;

use super::direct::Direct;
use super::fused;
use super::groups::Groups;
use super::index::NO_GROUP;
use super::keys::Keys;
use super::layout::{Kind, Layout};
use super::overflow::{Overflow, Partial, RECORD_LENGTH};
use super::plan::Aggregation;
use super::state::Values;
use super::types::{canonical, flat};

/// Maximum number of rows per step, so that their groups and values stay in the L2 cache.
const SLICE_ROWS_MAX: usize = 8192;
/// Minimum number of rows per step, regardless of the memory.
const SLICE_ROWS_MIN: usize = 32;
/// The rows of a step may add groups of at most this fraction of the table's memory.
const SLICE_PARTS: usize = 4;
/// A batch is masked instead of filtered if at least one in this many rows passes the condition.
pub(crate) const DENSE_PARTS: usize = 2;

/// The query and the layout of its states.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) aggregation: Aggregation,
    pub(crate) layout: Layout,
}

impl Plan {
    pub(crate) fn new(aggregation: Aggregation) -> Plan {
        let layout = Layout::new(&aggregation);
        Plan { aggregation, layout }
    }

    /// Makes an empty table.
    pub(crate) fn groups(&self) -> Result<Groups, Error> {
        let key_type = |key: &Expression| (flat(&key.data_type()).clone(), key.nullable());
        let types: Vec<(DataType, bool)> = self.aggregation.keys().iter().map(key_type).collect();
        Ok(Groups::new(Keys::new(&types)?, &self.layout.specs))
    }
}

/// Returns the mean bytes of a group of sampled keys: in the table without its index, and in a spill file.
///
/// # Errors
/// If the types of the keys cannot be grouped.
pub(crate) fn group_bytes(aggregation: &Aggregation, keys: &[ArrayRef]) -> Result<[f64; 2], Error> {
    let mut groups = Plan::new(aggregation.clone()).groups()?;
    let rows = keys.first().map_or(0, |key| key.len());
    groups.make_room(rows, usize::MAX);
    groups.keys.assign(keys, rows, &mut Vec::new())?;
    groups.grow_states();
    let mut records = Vec::new();
    for group in groups.numbers() {
        records.extend(RECORD_LENGTH);
        groups.write(group, &mut records);
    }
    let mean = |bytes: usize| bytes as f64 / groups.len().max(1) as f64;
    Ok([groups.bytes_per_group() as f64 + mean(groups.variable_bytes()), mean(records.len())])
}

/// Returns the number of states that [`fused`] would update as sums and as counts on sampled rows, and of others.
///
/// # Errors
/// Returns the errors of the arguments.
pub(crate) fn state_counts(aggregation: &Aggregation, sample: &RecordBatch) -> Result<[u64; 3], Error> {
    let layout = Layout::new(aggregation);
    let mut program = Program::new(&layout.arguments);
    program.run(sample);
    let values = values(&layout, &program, sample)?;
    let mut counts = [0; 3];
    for spec in &layout.specs {
        let kind = match fused::summable(*spec, &values, sample.num_rows()) {
            Some(_) => 0,
            None if fused::is_countable(*spec, &values) => 1,
            None => 2,
        };
        counts[kind] += 1;
    }
    Ok(counts)
}

/// The distinct values of an argument in each group: a table whose keys are a group's key and a value.
#[derive(Debug)]
struct Distinct {
    argument: usize,
    converter: RowConverter,
    groups: Groups,
    overflow: Overflow,
}

/// Adds batches to groups.
#[derive(Debug)]
pub(crate) struct Worker {
    plan: Arc<Plan>,
    groups: Groups,
    overflow: Overflow,
    distinct: Vec<Distinct>,
    direct: Direct,
    program: Program,
    /// Memory in bytes of the groups, and of the distinct values of each argument.
    budget: usize,
    /// The groups of the rows of a batch; a buffer that is reused.
    rows: Vec<u32>,
    locals: fused::Locals,
    record: Vec<u8>,
}

impl Worker {
    /// Makes a worker with a budget in bytes for its groups; `overflow` makes the destination of spilled groups.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        budget: usize,
        overflow: impl Fn() -> Overflow,
    ) -> Result<Worker, Error> {
        let layout = &plan.layout;
        let distinct = layout.distinct.iter().map(|&argument| {
            let data_type = layout.arguments[argument].data_type();
            let converter = RowConverter::new(vec![SortField::new(flat(&data_type).clone())])?;
            Ok(Distinct {
                argument,
                converter,
                groups: Groups::new(Keys::of_bytes()?, &[]),
                overflow: overflow(),
            })
        });
        let distinct = distinct.collect::<Result<Vec<Distinct>, Error>>()?;
        Ok(Worker {
            plan: Arc::clone(plan),
            groups: plan.groups()?,
            overflow: overflow(),
            budget: budget / (1 + distinct.len()),
            distinct,
            direct: Direct::default(),
            program: Program::new(&layout.arguments),
            rows: Vec::new(),
            locals: fused::Locals::default(),
            record: Vec::new(),
        })
    }

    /// Adds the rows of a batch.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let rows = (self.budget / SLICE_PARTS / self.groups.bytes_per_group().max(1))
            .clamp(SLICE_ROWS_MIN, SLICE_ROWS_MAX);
        for start in (0..batch.num_rows()).step_by(rows) {
            let slice = batch.slice(start, rows.min(batch.num_rows() - start));
            self.add_slice(&slice)?;
        }
        Ok(())
    }

    /// Returns the groups, and the distinct values of arguments. If some were spilled, all are: they are merged from runs.
    pub(crate) fn finish(self) -> Result<(Partial, Vec<Partial>), Error> {
        let all = |groups: Groups, overflow: Overflow| {
            let mut partial = Partial { groups, overflow };
            if !partial.overflow.is_empty() {
                partial.spill()?;
            }
            Ok::<Partial, Error>(partial)
        };
        let distinct = self.distinct.into_iter().map(|distinct| all(distinct.groups, distinct.overflow));
        let distinct = distinct.collect::<Result<Vec<Partial>, Error>>()?;
        Ok((all(self.groups, self.overflow)?, distinct))
    }

    /// Increments the distinct count of the group of a key.
    pub(crate) fn add_distinct(&mut self, key: &[u8], place: usize) -> Result<(), Error> {
        self.make_room(1)?;
        let group = self.groups.keys.insert(key);
        self.groups.grow_states();
        for (state, spec) in self.groups.states.iter_mut().zip(&self.plan.layout.specs) {
            if spec.kind == Kind::Distinct(place) {
                state.add_to(group, 1);
            }
        }
        Ok(())
    }

    fn make_room(&mut self, rows: usize) -> Result<(), Error> {
        if !self.groups.make_room(rows, self.budget) {
            self.overflow.take(&mut self.groups)?;
            self.direct.clear();
            self.groups.make_room(rows, self.budget);
        }
        Ok(())
    }

    fn add_slice(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let plan = Arc::clone(&self.plan);
        let Some(condition) = plan.aggregation.condition() else { return self.add_all(batch) };
        let mask = condition.select(batch)?;
        let passing = mask.values().count_set_bits();
        if passing == batch.num_rows() {
            return self.add_all(batch);
        }
        let is_dense = passing * DENSE_PARTS >= batch.num_rows() && self.distinct.is_empty();
        if passing == 0 || is_dense && self.add_rows(batch, Some(mask.values()))? {
            return Ok(());
        }
        self.add_all(&filter_record_batch(batch, &BooleanArray::new(mask.values().clone(), None))?)
    }

    fn add_all(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.add_rows(batch, None).map(|_| ())
    }

    /// Adds all rows, or those of a mask. Returns false and adds nothing if the batch must be filtered first.
    fn add_rows(&mut self, batch: &RecordBatch, mask: Option<&BooleanBuffer>) -> Result<bool, Error> {
        let plan = Arc::clone(&self.plan);
        let evaluate = |expression: &Expression| Ok(expression.evaluate(batch)?);
        let keys = plan.aggregation.keys().iter().map(evaluate).collect::<Result<Vec<ArrayRef>, Error>>();
        self.program.run(batch);
        let program = std::mem::take(&mut self.program);
        let values = values(&plan.layout, &program, batch);
        // The error may come from an excluded row.
        let result = match keys.and_then(|keys| Ok((keys, values?))) {
            Ok((keys, values)) => self.add_evaluated(&keys, &values, batch.num_rows(), mask),
            Err(_) if mask.is_some() => Ok(false),
            Err(error) => Err(error),
        };
        self.program = program;
        result
    }

    fn add_evaluated(
        &mut self,
        keys: &[ArrayRef],
        values: &[Values<'_>],
        rows: usize,
        mask: Option<&BooleanBuffer>,
    ) -> Result<bool, Error> {
        if !self.assign(keys, rows, mask)? {
            return Ok(false);
        }
        self.add_values(values)?;
        self.add_distinct_values(values)?;
        Ok(true)
    }

    /// Finds the groups of rows. Returns false if the batch must be filtered first.
    fn assign(
        &mut self,
        keys: &[ArrayRef],
        rows: usize,
        mask: Option<&BooleanBuffer>,
    ) -> Result<bool, Error> {
        self.make_room(rows)?;
        let mut groups = std::mem::take(&mut self.rows);
        let is_direct = self.direct.assign(keys, &mut groups);
        let is_assigned = is_direct || mask.is_none() || keys.is_empty();
        if is_direct {
            if let Some(mask) = mask {
                keep(&mut groups, mask);
            }
            self.learn(keys, &mut groups)?;
        } else if is_assigned {
            self.groups.keys.assign(keys, rows, &mut groups)?;
            if let Some(mask) = mask {
                keep(&mut groups, mask);
            }
        }
        self.rows = groups;
        self.groups.grow_states();
        Ok(is_assigned)
    }

    /// Finds the groups of rows that the direct-mapped table does not have.
    fn learn(&mut self, keys: &[ArrayRef], groups: &mut [u32]) -> Result<(), Error> {
        let is_unknown =
            groups.iter().fold(false, |is_unknown, &group| is_unknown | Direct::is_unknown(group));
        if !is_unknown {
            return Ok(());
        }
        let mut found = Vec::new();
        for (row, group) in groups.iter_mut().enumerate().filter(|(_, group)| Direct::is_unknown(**group)) {
            *group = self.direct.group(row, keys.len());
            if Direct::is_unknown(*group) {
                let key: Vec<ArrayRef> = keys.iter().map(|key| key.slice(row, 1)).collect();
                self.groups.keys.assign(&key, 1, &mut found)?;
                *group = found[0];
                self.direct.learn(row, keys.len(), found[0]);
            }
        }
        Ok(())
    }

    fn add_values(&mut self, values: &[Values<'_>]) -> Result<(), Error> {
        let Groups { states, .. } = &mut self.groups;
        let specs = &self.plan.layout.specs;
        let fused = fused::add(&self.rows, states, specs, values, &mut self.locals);
        for (place, (state, spec)) in states.iter_mut().zip(specs).enumerate() {
            let is_distinct = matches!(spec.kind, Kind::Distinct(_));
            if !fused.contains(&place) && !is_distinct {
                state.add(&self.rows, spec.argument.map(|argument| &values[argument]))?;
            }
        }
        Ok(())
    }

    fn add_distinct_values(&mut self, values: &[Values<'_>]) -> Result<(), Error> {
        for distinct in &mut self.distinct {
            let Values::Array(array) = &values[distinct.argument] else { continue };
            let array = canonical(array)?;
            let rows: Rows = distinct.converter.convert_columns(std::slice::from_ref(&array))?;
            let nulls = array.logical_nulls();
            if !distinct.groups.make_room(self.rows.len(), self.budget) {
                distinct.overflow.take(&mut distinct.groups)?;
                distinct.groups.make_room(self.rows.len(), self.budget);
            }
            for (row, &group) in self.rows.iter().enumerate() {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    continue;
                }
                self.record.clear();
                self.record.extend([0; 4]);
                self.groups.keys.write(group, &mut self.record);
                let key_bytes = (self.record.len() - 4) as u32;
                self.record[..4].copy_from_slice(&key_bytes.to_le_bytes());
                self.record.extend_from_slice(rows.row(row).data());
                distinct.groups.keys.insert(&self.record);
            }
        }
        Ok(())
    }
}

/// Returns the group key in the record of a distinct value.
pub(crate) fn key_of(record: &[u8]) -> Option<&[u8]> {
    let (length, rest) = record.split_first_chunk::<4>()?;
    rest.get(..u32::from_le_bytes(*length) as usize)
}

/// Returns the values of all arguments: 64-bit integers if they fit and all states accept them, else arrays of their
/// types.
fn values<'a>(layout: &Layout, program: &'a Program, batch: &RecordBatch) -> Result<Vec<Values<'a>>, Error> {
    let value = |(place, argument): (usize, &Expression)| match program.output(place) {
        Some(narrow) if takes_narrow(layout, place) => Ok(Values::Narrow(narrow)),
        _ => {
            let array = argument.evaluate(batch)?;
            let is_flat = flat(array.data_type()) == array.data_type();
            Ok(Values::Array(if is_flat { array } else { canonical(&array)? }))
        }
    };
    layout.arguments.iter().enumerate().map(value).collect()
}

fn takes_narrow(layout: &Layout, argument: usize) -> bool {
    let mut specs = layout.specs.iter().filter(|spec| spec.argument == Some(argument));
    let is_taken = specs.all(|spec| !matches!(spec.kind, Kind::FloatSum | Kind::ByteExtreme { .. }));
    is_taken && !layout.distinct.contains(&argument)
}

/// Sets the group of rows outside the mask to [`NO_GROUP`].
fn keep(groups: &mut [u32], mask: &BooleanBuffer) {
    const { assert!(NO_GROUP == 0) };
    for (groups, bits) in groups.chunks_mut(u64::BITS as usize).zip(mask.bit_chunks().iter_padded()) {
        if bits != u64::MAX {
            let bit = |row: usize| ((bits >> row) & 1) as u32;
            groups.iter_mut().enumerate().for_each(|(row, group)| *group &= bit(row).wrapping_neg());
        }
    }
}
