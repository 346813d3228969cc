//! Objects of JSON, one in a line. Pure.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::value::Kind;
use super::{Bad, Slots};
use crate::row::{Cell, RowBuilder};

/// Reads an object that begins at `start` of its block. Keys that are not used are passed over; columns without a key, or
/// with the value null, are null.
pub(super) fn parse(slots: &Slots, line: &str, start: usize, out: &mut RowBuilder) -> Result<(), Bad> {
    let mut bad = None;
    let mut reader = serde_json::Deserializer::from_str(line);
    let object = Object { slots, line, start, out, bad: &mut bad };
    let read = object.deserialize(&mut reader).and_then(|()| reader.end());
    read.map_err(|_| bad.unwrap_or(Bad::Form))
}

struct Object<'a> {
    slots: &'a Slots,
    line: &'a str,
    start: usize,
    out: &'a mut RowBuilder,
    /// A value that does not fit its column.
    bad: &'a mut Option<Bad>,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(Key(self.slots))? {
            match field {
                Some(field) => map.next_value_seed(Field { object: &mut self, field })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A key: the field of its name.
struct Key<'a>(&'a Slots);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<usize>, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Option<usize>, E> {
        Ok(self.0.index_of(name))
    }
}

/// The value of a used key.
struct Field<'a, 'o> {
    object: &'a mut Object<'o>,
    field: usize,
}

impl Field<'_, '_> {
    fn set<E: serde::de::Error>(self, cell: impl FnOnce(Kind) -> Option<Cell>) -> Result<(), E> {
        let Field { object, field } = self;
        let set = object.slots.set_cell(field, cell, object.out);
        set.map_err(|bad| Field { object, field }.fail(bad))
    }

    fn fail<E: serde::de::Error>(self, bad: Bad) -> E {
        *self.object.bad = Some(bad);
        E::custom("a value does not fit its column")
    }
}

impl<'de> DeserializeSeed<'de> for Field<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Field<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<(), E> {
        let Field { object, field } = self;
        // A text without escapes lies in the line.
        let within = text.as_ptr() as usize - object.line.as_ptr() as usize;
        let set = object.slots.set(field, text, object.start + within, object.out);
        set.map_err(|bad| Field { object, field }.fail(bad))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let Field { object, field } = self;
        let set = object.slots.set_extra(field, text, object.out);
        set.map_err(|bad| Field { object, field }.fail(bad))
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.set(|kind| (kind == Kind::Bool).then_some(Cell::Bool(value)))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.set(|kind| kind.of_integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.set(|kind| match (kind, i64::try_from(value)) {
            (_, Ok(value)) => kind.of_integer(value),
            (Kind::UInt, Err(_)) => Some(Cell::UInt(value)),
            (Kind::Float64, Err(_)) => Some(Cell::Float(value as f64)),
            (Kind::Float32, Err(_)) => Some(Cell::Float(f64::from(value as f32))),
            _ => None,
        })
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.set(|kind| match kind {
            Kind::Float64 => Some(Cell::Float(value)),
            Kind::Float32 => Some(Cell::Float(f64::from(value as f32))),
            _ => None,
        })
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        let field = self.field;
        Err(self.fail::<A::Error>(Bad::Value(field)))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        let field = self.field;
        Err(self.fail::<A::Error>(Bad::Value(field)))
    }
}
