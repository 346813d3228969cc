//! Columns of a join result, and their origins (pure).

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::coercion::value_type;
use super::condition::Condition;
use super::kind::JoinKind;

/// Suffix of a right column whose name is already taken; repeated until the name is unique.
pub const COLLISION_SUFFIX: &str = "_right";

/// Origin of a result column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Index of a left column.
    Left(usize),
    /// Index of a right column.
    Right(usize),
    /// Left and right index of a key with the same name and value type on both sides, dictionary-encoded or not: the
    /// left value, or the right one if the left row is missing.
    Merged(usize, usize),
}

/// Schema and column origins of a result.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) schema: SchemaRef,
    pub(super) origins: Vec<Origin>,
}

impl Layout {
    /// Lays out all left columns, then the right ones except merged keys; semi and anti joins have left columns only.
    pub(super) fn new(left: &Schema, right: &Schema, condition: &Condition, kind: JoinKind) -> Layout {
        let merged: Vec<(usize, usize)> = condition
            .pairs
            .iter()
            .map(|pair| (pair.left, pair.right))
            .filter(|&(ours, theirs)| {
                let (ours, theirs) = (left.field(ours), right.field(theirs));
                let (our_type, their_type) = (value_type(ours.data_type()), value_type(theirs.data_type()));
                ours.name() == theirs.name() && our_type == their_type
            })
            .collect();
        let mut layout = Builder::default();
        for (place, field) in left.fields().iter().enumerate() {
            let partner = merged.iter().find(|&&(ours, _)| ours == place && kind.gives_pairs());
            let Some(&(ours, theirs)) = partner else {
                let is_nullable = field.is_nullable() || kind.keeps_right();
                layout.push(field, is_nullable, Origin::Left(place));
                continue;
            };
            let right_null = right.field(theirs).is_nullable() && kind.keeps_right();
            let field = if kind.keeps_right() { &widened(field) } else { field.as_ref() };
            layout.push(field, field.is_nullable() || right_null, Origin::Merged(ours, theirs));
        }
        if kind.gives_pairs() {
            for (place, field) in right.fields().iter().enumerate() {
                if layout
                    .origins
                    .iter()
                    .any(|origin| matches!(origin, Origin::Merged(_, theirs) if *theirs == place))
                {
                    continue;
                }
                let is_nullable = field.is_nullable() || kind.keeps_left();
                layout.push(field, is_nullable, Origin::Right(place));
            }
        }
        Layout { schema: Arc::new(Schema::new(layout.fields)), origins: layout.origins }
    }
}

/// Returns a key column with dictionary keys of 32 bits at least: the values of both sides may be too many for narrow
/// ones.
fn widened(field: &Field) -> Field {
    match field.data_type() {
        DataType::Dictionary(keys, values) if keys.primitive_width() < Some(size_of::<i32>()) => {
            field.clone().with_data_type(DataType::Dictionary(DataType::Int32.into(), values.clone()))
        }
        _ => field.clone(),
    }
}

#[derive(Default)]
struct Builder {
    fields: Vec<Field>,
    origins: Vec<Origin>,
    names: BTreeSet<String>,
}

impl Builder {
    fn push(&mut self, field: &Field, is_nullable: bool, origin: Origin) {
        let mut name = field.name().clone();
        while matches!(origin, Origin::Right(_)) && self.names.contains(&name) {
            name.push_str(COLLISION_SUFFIX);
        }
        self.names.insert(name.clone());
        self.fields.push(field.clone().with_name(name).with_nullable(is_nullable));
        self.origins.push(origin);
    }
}
