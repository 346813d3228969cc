//! Filters and projects streams of batches.

use std::collections::BTreeSet;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;

use sakiyomi_expression::{Expression, Projection};

use crate::{Batches, Error};

/// A stream that filters rows and computes columns. A batch whose rows all pass is not copied. Columns that only the
/// condition uses are never copied.
#[derive(Debug)]
pub struct Transform<B> {
    input: B,
    condition: Option<Expression>,
    /// The columns that the projection uses; unused without a projection.
    kept: Vec<usize>,
    projection: Option<Projection>,
    schema: SchemaRef,
}

impl<B: Batches> Transform<B> {
    /// Makes a stream over `input`, to whose schema `condition` and `projection` are bound.
    #[must_use]
    pub fn new(input: B, condition: Option<Expression>, projection: Option<Projection>) -> Transform<B> {
        let kept = projection.as_ref().map(Projection::columns).unwrap_or_default();
        let schema = projection.as_ref().map_or_else(|| input.schema(), Projection::schema);
        let projection = projection.map(|projection| projection.onto(&kept));
        Transform { input, condition, kept, projection, schema }
    }

    /// Returns the rows of a batch that pass, or `None` if no row passes.
    fn passing(&self, batch: RecordBatch) -> Result<Option<RecordBatch>, Error> {
        let mask = self.condition.as_ref().map(|condition| condition.select(&batch)).transpose()?;
        let passing = mask.as_ref().map_or(batch.num_rows(), |mask| mask.values().count_set_bits());
        if passing == 0 {
            return Ok(None);
        }
        let batch = if self.projection.is_some() { batch.project(&self.kept)? } else { batch };
        Ok(Some(match mask {
            Some(mask) if passing < mask.len() => filter_record_batch(&batch, &mask)?,
            _ => batch,
        }))
    }
}

impl<B: Batches> Batches for Transform<B> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        while let Some(batch) = self.input.next()? {
            let Some(batch) = self.passing(batch)? else { continue };
            return Ok(Some(match &self.projection {
                Some(projection) => projection.apply(&batch)?,
                None => batch,
            }));
        }
        Ok(None)
    }
}

/// Returns the indices of the columns that a scan must read for a condition and a projection, ascending. Without a
/// projection, these are all columns.
#[must_use]
pub fn needed(condition: Option<&Expression>, projection: Option<&Projection>, columns: usize) -> Vec<usize> {
    let Some(projection) = projection else { return (0..columns).collect() };
    let mut needed: BTreeSet<usize> = projection.columns().into_iter().collect();
    needed.extend(condition.into_iter().flat_map(Expression::columns));
    needed.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray};

    use super::*;
    use crate::batches::InMemory;

    fn batch() -> RecordBatch {
        let columns: [(&str, ArrayRef); 4] = [
            ("id", Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))),
            ("small", Arc::new(Int64Array::from(vec![7, -7, 0]))),
            ("name", Arc::new(StringArray::from(vec![Some("Ärger"), Some("100%"), None]))),
            ("ok", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn a_transform_filters_and_projects_without_copies_where_it_can() {
        let batch = batch();
        let schema = batch.schema();
        let run = |condition: &str, select: Option<&str>| {
            let condition = Expression::condition(condition, &schema).unwrap();
            let projection = select.map(|select| Projection::parse(select, &schema).unwrap());
            let input = InMemory::new(schema.clone(), vec![batch.clone(), batch.clone()]);
            let mut transform = Transform::new(input, Some(condition), projection);
            let mut batches = Vec::new();
            while let Some(batch) = transform.next().unwrap() {
                batches.push(batch);
            }
            batches
        };
        assert!(run("id > 5", None).is_empty());
        let all = run("small > -100", None);
        assert!(Arc::ptr_eq(all[0].column(0), batch.column(0)));
        let some = run("id = 2", Some("name, small * 2 as twice"));
        assert_eq!((some.len(), some[0].num_rows(), some[0].num_columns()), (2, 1, 2));
        assert_eq!(run("ok", Some("1 as one"))[0].num_rows(), 1);
        assert!(Expression::condition("id", &schema).is_err());
    }
}
