//! Serialization of engines and operations by name.

pub(super) mod engine {
    use sakiyomi_io::EngineKind;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(in crate::calibration) fn serialize<S: Serializer>(
        kind: &EngineKind,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.name())
    }

    pub(in crate::calibration) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<EngineKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = EngineKind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| de::Error::custom(format_args!("there is no engine `{name}`")))
    }
}

pub(super) mod operation {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::setting::Operation;

    pub(in crate::calibration) fn serialize<S: Serializer>(
        op: &Operation,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(op)
    }

    pub(in crate::calibration) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Operation, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
