//! Aggregation of a stream whose equal keys are adjacent, in the memory of two batches for any number of groups.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_ord::partition::partition;
use arrow_row::{OwnedRow, RowConverter, SortField};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take;

use crate::{Batches, Error};

use super::index::FIRST_GROUP;
use super::layout::Output;
use super::plan::Aggregation;
use super::state::{State, Values, result};
use super::types::{canonical, flat};
use super::worker::Plan;

/// Number of groups after which a batch is returned; the last input batch may exceed it.
const BATCH_GROUPS: u32 = 8192;

/// The groups of a stream, in the order of the stream. Equal keys must be adjacent; the order is otherwise arbitrary.
#[derive(Debug)]
pub struct SortedAggregate<B> {
    input: B,
    plan: Plan,
    converter: RowConverter,
    states: Vec<State>,
    /// Number of groups; all but the last one are complete.
    groups: u32,
    /// The keys of groups, in chunks of columns.
    keys: Vec<Vec<ArrayRef>>,
    /// The key of the last group.
    last: Option<OwnedRow>,
    is_done: bool,
}

impl<B: Batches> SortedAggregate<B> {
    /// Makes a stream over batches that are sorted by the keys.
    ///
    /// # Errors
    /// [`Error::Query`] if distinct values are counted, which would need memory for all of them.
    pub fn new(input: B, aggregation: Aggregation) -> Result<SortedAggregate<B>, Error> {
        let plan = Plan::new(aggregation);
        if !plan.layout.distinct.is_empty() {
            return Err(Error::Query("count-distinct is not supported over a sorted stream".into()));
        }
        let keys = plan.aggregation.keys().iter();
        let fields = keys.map(|key| SortField::new(flat(&key.data_type()).clone())).collect();
        let converter = RowConverter::new(fields)?;
        let states = plan.layout.specs.iter().map(|spec| State::new(spec.kind)).collect();
        Ok(SortedAggregate {
            input,
            plan,
            converter,
            states,
            groups: 0,
            keys: Vec::new(),
            last: None,
            is_done: false,
        })
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let Some(condition) = self.plan.aggregation.condition() else { return self.add_rows(batch) };
        let mask: BooleanArray = condition.select(batch)?;
        match mask.values().count_set_bits() {
            0 => Ok(()),
            passing if passing == batch.num_rows() => self.add_rows(batch),
            _ => self.add_rows(&filter_record_batch(batch, &mask)?),
        }
    }

    fn add_rows(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let keys = self.plan.aggregation.keys().iter();
        let keys = keys
            .map(|key| Ok(canonical(&key.evaluate(batch)?)?))
            .collect::<Result<Vec<ArrayRef>, Error>>()?;
        let rows = self.number(&keys, batch.num_rows())?;
        let groups = (self.groups + FIRST_GROUP) as usize;
        for (state, spec) in self.states.iter_mut().zip(&self.plan.layout.specs) {
            state.resize(groups);
            let values = spec.argument.map(|argument| {
                let array = self.plan.layout.arguments[argument].evaluate(batch)?;
                let is_flat = flat(array.data_type()) == array.data_type();
                Ok::<_, Error>(Values::Array(if is_flat { array } else { canonical(&array)? }))
            });
            state.add(&rows, values.transpose()?.as_ref())?;
        }
        Ok(())
    }

    /// Finds the groups of rows and stores the keys of new groups.
    fn number(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<u32>, Error> {
        if keys.is_empty() {
            self.groups = 1;
            return Ok(vec![FIRST_GROUP; rows]);
        }
        let first = self.row(keys, 0)?;
        let continues = self.last.as_ref().is_some_and(|last| *last == first);
        let (mut groups, mut starts) = (Vec::with_capacity(rows), Vec::new());
        for (place, range) in partition(keys)?.ranges().into_iter().enumerate() {
            if place > 0 || !continues {
                self.groups += 1;
                starts.push(range.start as u32);
            }
            groups.resize(range.end, self.groups);
        }
        let starts = UInt32Array::from(starts);
        let begun = keys.iter().map(|key| Ok(take(key, &starts, None)?)).collect::<Result<_, Error>>()?;
        self.keys.push(begun);
        self.last = Some(self.row(keys, rows - 1)?);
        Ok(groups)
    }

    fn row(&self, keys: &[ArrayRef], row: usize) -> Result<OwnedRow, Error> {
        let keys: Vec<ArrayRef> = keys.iter().map(|key| key.slice(row, 1)).collect();
        Ok(self.converter.convert_columns(&keys)?.row(0).owned())
    }

    /// Returns the results of all groups except the last `kept` ones, which remain.
    fn complete(&mut self, kept: u32) -> Result<RecordBatch, Error> {
        let done = self.groups - kept;
        let numbers: Vec<u32> = (FIRST_GROUP..FIRST_GROUP + done).collect();
        let mut columns = Vec::new();
        let mut rest = Vec::new();
        for place in 0..self.plan.aggregation.keys().len() {
            let parts: Vec<&dyn Array> = self.keys.iter().map(|keys| keys[place].as_ref()).collect();
            let all = concat(&parts)?;
            rest.push(all.slice(done as usize, kept as usize));
            columns.push(all.slice(0, done as usize));
        }
        let outputs: &[Output] = &self.plan.layout.outputs;
        for (aggregate, output) in self.plan.aggregation.aggregates().iter().zip(outputs) {
            columns.push(result::column(aggregate, *output, &self.states, &numbers)?);
        }
        self.keys = if kept > 0 { vec![rest] } else { Vec::new() };
        self.keep(kept)?;
        Ok(RecordBatch::try_new(self.plan.aggregation.schema(), columns)?)
    }

    /// Removes all groups, except the last one if `kept` is 1.
    fn keep(&mut self, kept: u32) -> Result<(), Error> {
        let mut record = Vec::new();
        for state in &mut self.states {
            record.clear();
            if kept > 0 {
                state.write(self.groups, &mut record);
            }
            state.clear();
            state.resize((kept + FIRST_GROUP) as usize);
            if kept > 0 {
                let merged = state.merge(FIRST_GROUP, &mut &record[..]);
                merged.ok_or_else(|| Error::Query("the state of a group is lost".into()))?;
            }
        }
        self.groups = kept;
        Ok(())
    }
}

impl<B: Batches> Batches for SortedAggregate<B> {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.aggregation.schema())
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        while !self.is_done {
            if self.groups > BATCH_GROUPS {
                return Ok(Some(self.complete(1)?));
            }
            if let Some(batch) = self.input.next()? {
                self.add(&batch)?;
                continue;
            }
            self.is_done = true;
            if self.plan.aggregation.keys().is_empty() {
                // One group, even for an empty input.
                self.groups = 1;
                self.states.iter_mut().for_each(|state| state.resize(1 + FIRST_GROUP as usize));
            }
            if self.groups > 0 {
                return Ok(Some(self.complete(0)?));
            }
        }
        Ok(None)
    }
}
