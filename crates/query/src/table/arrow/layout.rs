//! Locations of a record batch's columns in its body. Pure.

use std::ops::Range;

use arrow_ipc::{MetadataVersion, RecordBatch};
use arrow_schema::{DataType, Schema, UnionMode};

/// The ranges of a record batch's lists that belong to one column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::table) struct Layout {
    pub(super) nodes: Range<usize>,
    pub(super) buffers: Range<usize>,
    /// Range of the variadic buffer counts, which views have.
    pub(super) variadic: Range<usize>,
}

/// Returns the layout of each column, or the reason why the lists do not match the schema.
pub(super) fn layouts(
    schema: &Schema,
    batch: &RecordBatch<'_>,
    version: MetadataVersion,
) -> Result<Vec<Layout>, String> {
    let counts: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
    let mut walk = Walk { nodes: 0, buffers: 0, variadic: 0, counts, version };
    let mut layouts = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let (nodes, buffers, variadic) = (walk.nodes, walk.buffers, walk.variadic);
        walk.add(field.data_type())?;
        layouts.push(Layout {
            nodes: nodes..walk.nodes,
            buffers: buffers..walk.buffers,
            variadic: variadic..walk.variadic,
        });
    }
    let has_all = batch.nodes().is_some_and(|nodes| nodes.len() >= walk.nodes)
        && batch.buffers().is_some_and(|buffers| buffers.len() >= walk.buffers);
    if has_all { Ok(layouts) } else { Err("a record batch has fewer arrays than its schema".into()) }
}

struct Walk {
    nodes: usize,
    buffers: usize,
    variadic: usize,
    counts: Vec<i64>,
    version: MetadataVersion,
}

impl Walk {
    fn add(&mut self, data_type: &DataType) -> Result<(), String> {
        self.nodes += 1;
        match data_type {
            DataType::Null => {}
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
                self.buffers += 3
            }
            DataType::Utf8View | DataType::BinaryView => {
                let count =
                    self.counts.get(self.variadic).copied().and_then(|count| usize::try_from(count).ok());
                let count = count.ok_or("a record batch does not say how many buffers its views have")?;
                self.variadic += 1;
                self.buffers = self.buffers.saturating_add(count).saturating_add(2);
            }
            DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => {
                self.buffers += 2;
                self.add(item.data_type())?;
            }
            DataType::ListView(item) | DataType::LargeListView(item) => {
                self.buffers += 3;
                self.add(item.data_type())?;
            }
            DataType::FixedSizeList(item, _) => {
                self.buffers += 1;
                self.add(item.data_type())?;
            }
            DataType::Struct(fields) => {
                self.buffers += 1;
                fields.iter().try_for_each(|field| self.add(field.data_type()))?;
            }
            DataType::RunEndEncoded(ends, values) => {
                self.add(ends.data_type())?;
                self.add(values.data_type())?;
            }
            DataType::Union(fields, mode) => {
                self.buffers += usize::from(self.version < MetadataVersion::V5);
                self.buffers += if *mode == UnionMode::Dense { 2 } else { 1 };
                fields.iter().try_for_each(|(_, field)| self.add(field.data_type()))?;
            }
            // Validity bitmap and values, which are the keys for a dictionary.
            _ => self.buffers += 2,
        }
        Ok(())
    }
}

/// Byte range of each column in the body, from its first to its last buffer. The buffers must be checked against the
/// body.
pub(in crate::table) fn column_ranges(batch: &RecordBatch<'_>, layouts: &[Layout]) -> Vec<Range<u64>> {
    let buffers = batch.buffers();
    let range = |layout: &Layout| {
        let own = layout.buffers.clone().filter_map(|at| buffers.map(|buffers| *buffers.get(at)));
        let own = own.filter(|buffer| buffer.length() > 0);
        let ends = own.map(|buffer| (buffer.offset() as u64, (buffer.offset() + buffer.length()) as u64));
        ends.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).map_or(0..0, |(start, end)| start..end)
    };
    layouts.iter().map(range).collect()
}
