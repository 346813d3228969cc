//! State shared by all parts of a hash join.

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SortOptions};

use super::rule::{JoinSide, Rule};
use crate::join::assemble::assemble;
use crate::join::condition::Condition;
use crate::join::keys::KeyEncoder;
use crate::join::kind::JoinKind;
use crate::join::layout::Layout;
use crate::join::pairs::Pairs;
use crate::{Error, Job};

/// State shared by all parts of a hash join.
pub(super) struct Context {
    pub(super) job: Job,
    pub(super) rule: Rule,
    pub(super) layout: Layout,
    pub(super) encoder: KeyEncoder,
    pub(super) build_places: Vec<usize>,
    pub(super) probe_places: Vec<usize>,
}

impl Context {
    /// Creates the state of a join of two schemas.
    ///
    /// # Errors
    /// [`Error::Arrow`] if a type cannot be compared.
    pub(super) fn new(
        job: &Job,
        [left, right]: [&Schema; 2],
        condition: &Condition,
        kind: JoinKind,
        build: JoinSide,
    ) -> Result<Context, Error> {
        let types = condition.pairs.iter().map(|pair| (pair.data_type.clone(), SortOptions::default()));
        let encoder = KeyEncoder::new(&types.collect::<Vec<_>>())?;
        let layout = Layout::new(left, right, condition, kind);
        let (ours, theirs) = (condition.left(), condition.right());
        let (build_places, probe_places) =
            if build == JoinSide::Left { (ours, theirs) } else { (theirs, ours) };
        let rule = Rule::new(kind, build);
        Ok(Context { job: job.clone(), rule, layout, encoder, build_places, probe_places })
    }

    /// Assembles the paired rows of a build and a probe batch.
    pub(super) fn assemble(
        &self,
        build: &RecordBatch,
        probe: &RecordBatch,
        pairs: &mut Pairs,
    ) -> Result<RecordBatch, Error> {
        let (left, right) = if self.rule.build == JoinSide::Left { (build, probe) } else { (probe, build) };
        Ok(assemble(&self.layout, left, right, pairs)?)
    }
}
