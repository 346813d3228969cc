//! Probe of a build side in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_buffer::NullBuffer;
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;

use super::context::Context;
use super::matches::Matches;
use super::rule::{Alone, JoinSide, Rule};
use super::stream::Source;
use super::table::{CHAIN_END, HashSlice, HashTable, hash_all};
use crate::batch_bytes::row_bytes_max;
use crate::job::Reservation;
use crate::join::keys::KeyValues;
use crate::join::pairs::Pairs;
use crate::join::result::ResultBatches;
use crate::{Batches, Error};

/// Build rows with their hash table, which several probes share.
pub(super) struct Build {
    batch: RecordBatch,
    /// Maximum bytes of a copied row.
    row_bytes: usize,
    keys: KeyValues,
    table: HashTable,
    /// Whether each row has a match; empty if the join does not need it.
    matched: Vec<AtomicBool>,
    /// Number of probes that have not ended; the last one returns unpaired build rows.
    probes: AtomicUsize,
    _memory: Option<Reservation>,
}

impl Build {
    /// Builds the hash table of the rows of `batches`, with its memory unless another holds it, for a number of probes.
    pub(super) fn new(
        context: &Context,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        memory: Option<Reservation>,
        probes: usize,
    ) -> Result<Build, Error> {
        let batch = concat_by_column(schema, batches)?;
        let mut keys = context.encoder.empty();
        let nulls = context.encoder.encode(&batch, &context.build_places, &mut keys)?;
        let mut hashes = Vec::new();
        hash_all(&keys, &mut hashes);
        let table = HashTable::new(&hashes, nulls.as_ref());
        let needs_matched = context.rule.build_alone != Alone::Never;
        let matched = if needs_matched { batch.num_rows() } else { 0 };
        let matched = (0..matched).map(|_| AtomicBool::new(false)).collect();
        let row_bytes = row_bytes_max(&batch);
        let probes = AtomicUsize::new(probes);
        Ok(Build { batch, row_bytes, keys, table, matched, probes, _memory: memory })
    }
}

/// Concatenates batches column by column, so that only one column at a time exists twice.
fn concat_by_column(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<RecordBatch, Error> {
    if batches.is_empty() {
        return Ok(RecordBatch::new_empty(schema));
    }
    let mut sources: Vec<_> = batches.into_iter().map(|batch| batch.columns().to_vec().into_iter()).collect();
    let columns = schema.fields().iter().map(|_| {
        let parts: Vec<_> =
            sources.iter_mut().map(|source| source.next().expect("a column of the schema")).collect();
        concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    });
    let columns = columns.collect::<Result<_, _>>()?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

/// Probe of a build side with a stream.
pub(super) struct Probe {
    build: Arc<Build>,
    input: Box<dyn Batches>,
    batch: RecordBatch,
    /// Maximum bytes of a copied row of the batch.
    probe_row_bytes: usize,
    keys: KeyValues,
    hashes: Vec<u64>,
    /// First build row of each probe row's chain.
    heads: Vec<u32>,
    at: Position,
    has_ended: bool,
    /// Present if the build side has several blocks: matches are recorded, and unpaired probe rows returned later.
    pub(super) matches: Option<Matches>,
    /// Next build row to check for unpaired output after the probe side; `None` if another probe is still running, or
    /// returns these rows.
    leftover: Option<usize>,
}

/// Position of a probe.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    row: usize,
    /// Next build row to compare the row with, if the row was started.
    candidate: Option<u32>,
    is_matched: bool,
}

impl Probe {
    pub(super) fn new(
        context: &Context,
        build: Arc<Build>,
        input: Box<dyn Batches>,
        matches: Option<Matches>,
    ) -> Probe {
        let (batch, keys) = (RecordBatch::new_empty(input.schema()), context.encoder.empty());
        let (hashes, heads, at) = (Vec::new(), Vec::new(), Position::default());
        Probe {
            build,
            input,
            batch,
            probe_row_bytes: 0,
            keys,
            hashes,
            heads,
            at,
            has_ended: false,
            matches,
            leftover: None,
        }
    }

    /// Returns the maximum bytes of a result row.
    fn row_bytes(&self) -> usize {
        self.build.row_bytes + self.probe_row_bytes
    }

    /// Loads the next probe batch after the last row of the current one; returns false at the end.
    fn load(&mut self, context: &Context) -> Result<bool, Error> {
        if self.at.row < self.batch.num_rows() {
            return Ok(true);
        }
        if self.has_ended {
            return Ok(false);
        }
        context.job.check()?;
        self.at = Position::default();
        let Some(batch) = self.input.next()? else {
            self.batch = RecordBatch::new_empty(self.input.schema());
            self.has_ended = true;
            // Acquires the matches of the other probes.
            let is_last = self.build.probes.fetch_sub(1, Ordering::AcqRel) == 1;
            self.leftover = is_last.then_some(0);
            return Ok(false);
        };
        if let Some(matches) = &mut self.matches {
            matches.begin_batch(batch.num_rows())?;
        }
        self.probe_row_bytes = row_bytes_max(&batch);
        self.batch = batch;
        let nulls = context.encoder.encode(&self.batch, &context.probe_places, &mut self.keys)?;
        hash_all(&self.keys, &mut self.hashes);
        self.look_up(nulls.as_ref());
        Ok(true)
    }

    /// Looks up all rows of the batch at once, so that their cache misses overlap.
    fn look_up(&mut self, nulls: Option<&NullBuffer>) {
        let table = &self.build.table;
        self.heads.clear();
        self.heads.extend(self.hashes.iter().map(|&hash| table.first(hash)));
        if let Some(nulls) = nulls {
            for (row, head) in self.heads.iter_mut().enumerate() {
                if nulls.is_null(row) {
                    *head = CHAIN_END;
                }
            }
        }
    }

    fn scan(&mut self, rule: Rule, pairs: &mut Pairs) {
        let Build { keys, table, matched, .. } = &*self.build;
        let mut sink = Sink { rule, table, matched, pairs, matches: self.matches.as_mut() };
        self.at = match (&self.keys, keys) {
            (KeyValues::Narrow(probe), KeyValues::Narrow(build)) => {
                sink.scan(probe.as_slice(), build.as_slice(), &self.heads, self.at)
            }
            (KeyValues::Wide(probe), KeyValues::Wide(build)) => {
                sink.scan(probe.as_slice(), build.as_slice(), &self.heads, self.at)
            }
            (KeyValues::Rows(probe), KeyValues::Rows(build)) => sink.scan(probe, build, &self.heads, self.at),
            _ => unreachable!("the keys of both sides have one form"),
        };
    }

    /// Adds unpaired build rows, as many as fit.
    fn scan_leftover(&mut self, rule: Rule, pairs: &mut Pairs) {
        let Some(leftover) = &mut self.leftover else { return };
        while *leftover < self.build.matched.len() && pairs.room() > 0 {
            let row = *leftover;
            if rule.build_alone.gives(self.build.matched[row].load(Ordering::Relaxed)) {
                rule.give_build_row(row, pairs);
            }
            *leftover += 1;
        }
    }
}

impl Source for Probe {
    fn next(
        &mut self,
        context: &Context,
        pairs: &mut Pairs,
        result: &ResultBatches,
    ) -> Result<Option<(RecordBatch, usize)>, Error> {
        while pairs.is_empty() && self.load(context)? {
            pairs.set_capacity(result.rows_of(self.row_bytes()));
            self.scan(context.rule, pairs);
        }
        if pairs.is_empty() {
            pairs.set_capacity(result.rows_of(self.row_bytes()));
            self.scan_leftover(context.rule, pairs);
        }
        if pairs.is_empty() {
            return Ok(None);
        }
        Ok(Some((context.assemble(&self.build.batch, &self.batch, pairs)?, self.row_bytes())))
    }
}

/// Receiver of the matches of a probe batch.
struct Sink<'a> {
    rule: Rule,
    table: &'a HashTable,
    matched: &'a [AtomicBool],
    pairs: &'a mut Pairs,
    matches: Option<&'a mut Matches>,
}

impl Sink<'_> {
    /// Compares rows until the end of the batch or of the room; returns the position to continue at.
    fn scan<K: HashSlice + ?Sized>(
        &mut self,
        probe: &K,
        build: &K,
        heads: &[u32],
        mut at: Position,
    ) -> Position {
        while at.row < heads.len() {
            let key = probe.key(at.row);
            let mut candidate = at.candidate.unwrap_or(heads[at.row]);
            while candidate != CHAIN_END {
                if build.key(candidate as usize) == key {
                    if self.pairs.room() == 0 {
                        return Position { candidate: Some(candidate), ..at };
                    }
                    at.is_matched = true;
                    self.pair(at.row as u32, candidate);
                    if self.rule.needs_one_partner() {
                        break;
                    }
                }
                candidate = self.table.after(candidate);
            }
            if self.pairs.room() == 0 {
                return Position { candidate: Some(CHAIN_END), ..at };
            }
            self.end_row(at.row, at.is_matched);
            at = Position { row: at.row + 1, candidate: None, is_matched: false };
        }
        at
    }

    fn pair(&mut self, probe: u32, build: u32) {
        if let Some(matched) = self.matched.get(build as usize) {
            matched.store(true, Ordering::Relaxed);
        }
        if self.rule.pairs {
            match self.rule.build {
                JoinSide::Left => self.pairs.push(build, probe),
                JoinSide::Right => self.pairs.push(probe, build),
            }
        }
    }

    fn end_row(&mut self, row: usize, is_matched: bool) {
        match &mut self.matches {
            Some(matches) if is_matched => matches.set(row),
            Some(_) => {}
            None if self.rule.probe_alone.gives(is_matched) => self.rule.give_probe_row(row, self.pairs),
            None => {}
        }
    }
}
