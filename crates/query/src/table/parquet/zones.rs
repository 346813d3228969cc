//! Time zones of timestamps, which Parquet itself lacks: writers keep them in an Arrow schema in the footer. The
//! library takes the zone only where the unit is the same, but seconds with a zone are stored as milliseconds.

use std::sync::Arc;

use arrow_ipc::convert::try_schema_from_flatbuffer_bytes;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::KeyValue;

/// The mark before the message of an encoded schema, which the length of the message follows.
const CONTINUATION_MARKER: [u8; 4] = [0xff; 4];

/// Gives timestamps the zones of the Arrow schema in a file's metadata, at any depth. A schema that is not readable
/// changes nothing.
pub(super) fn with_zones(schema: Schema, metadata: Option<&Vec<KeyValue>>) -> Schema {
    let find = |field: &FieldRef| has_zone(field.data_type());
    if !schema.fields().iter().any(find) {
        return schema;
    }
    let Some(declared) = declared(metadata) else { return schema };
    let fields = zoned_fields(schema.fields(), declared.fields());
    Schema::new_with_metadata(fields, schema.metadata)
}

fn has_zone(data_type: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, List, Map, Struct, Timestamp};
    match data_type {
        Timestamp(_, zone) => zone.is_some(),
        List(field) | LargeList(field) | FixedSizeList(field, _) | Map(field, _) => {
            has_zone(field.data_type())
        }
        Struct(fields) => fields.iter().any(|field| has_zone(field.data_type())),
        _ => false,
    }
}

/// Decodes the Arrow schema of a file's metadata.
fn declared(metadata: Option<&Vec<KeyValue>>) -> Option<Schema> {
    let encoded = metadata?.iter().find(|pair| pair.key == ARROW_SCHEMA_META_KEY)?.value.as_ref()?;
    let bytes = BASE64_STANDARD.decode(encoded).ok()?;
    let message = bytes
        .strip_prefix(&CONTINUATION_MARKER)
        .and_then(|rest| rest.get(size_of::<u32>()..))
        .unwrap_or(&bytes);
    try_schema_from_flatbuffer_bytes(message).ok()
}

fn zoned_fields(found: &Fields, declared: &Fields) -> Fields {
    let zoned = |field: &FieldRef| {
        let declared = declared.iter().find(|other| other.name() == field.name());
        declared.map_or_else(|| Arc::clone(field), |declared| zoned_field(field, declared))
    };
    found.iter().map(zoned).collect()
}

fn zoned_field(field: &FieldRef, declared: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(zoned(field.data_type(), declared.data_type())))
}

fn zoned(found: &DataType, declared: &DataType) -> DataType {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, ListView, Map, Struct, Timestamp};
    match (found, declared) {
        (_, Dictionary(_, declared)) => zoned(found, declared),
        (Timestamp(unit, Some(_)), Timestamp(_, Some(zone))) => Timestamp(*unit, Some(Arc::clone(zone))),
        (List(found), List(declared) | LargeList(declared) | ListView(declared)) => {
            List(zoned_field(found, declared))
        }
        (LargeList(found), LargeList(declared)) => LargeList(zoned_field(found, declared)),
        (FixedSizeList(found, size), FixedSizeList(declared, _)) => {
            FixedSizeList(zoned_field(found, declared), *size)
        }
        (Map(found, is_sorted), Map(declared, _)) => {
            let (Struct(found_pair), Struct(declared_pair)) = (found.data_type(), declared.data_type())
            else {
                return Map(Arc::clone(found), *is_sorted);
            };
            // Writers name the two fields of an entry as they like.
            let pair =
                found_pair.iter().zip(declared_pair).map(|(found, declared)| zoned_field(found, declared));
            let entries = Field::clone(found).with_data_type(Struct(pair.collect()));
            Map(Arc::new(entries), *is_sorted)
        }
        (Struct(found), Struct(declared)) => Struct(zoned_fields(found, declared)),
        (other, _) => other.clone(),
    }
}
