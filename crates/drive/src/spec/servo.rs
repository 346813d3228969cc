//! Servo parameters (`servo.*`).

use sakiyomi_model::Nanos;
use serde::{Deserialize, Serialize};

/// Timing of the arm and the platters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServoSpec {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Time of a head switch within a cylinder, settling included.
    pub head_switch: Nanos,
    /// Additional settling time where a write begins, or continues on another track.
    #[serde(default)]
    pub write_settle: SignedNanos,
    /// Share of arm movements that are not on track at first and lose a revolution.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub lost_turns: f64,
    /// Seek curve, with settling for a read.
    pub seek: SeekSpec,
    /// Seek curve for writes, if measured separately; `write_settle` is added to it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek_write: Option<SeekSpec>,
}

/// Seek time by distance in cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "curve", rename_all = "snake_case", try_from = "SeekTable")]
pub enum SeekSpec {
    /// Interpolates the three values of a datasheet (Lee's curve; `docs/explanation/model.md`, seek).
    Datasheet {
        /// Single-cylinder seek time.
        track_to_track: Nanos,
        /// Mean over all pairs of cylinders.
        average: Nanos,
        /// Full-stroke seek time.
        full_stroke: Nanos,
    },
    /// Square root below a threshold, linear from there on (Ruemmler & Wilkes 1994).
    TwoPiece {
        /// First distance of the linear piece, in cylinders.
        threshold: u32,
        /// Constant of the square root piece.
        short_base: Nanos,
        /// Factor of the square root of the distance.
        short_per_root: Nanos,
        /// Constant of the linear piece.
        long_base: Nanos,
        /// Factor of the distance.
        long_per_cylinder: Nanos,
        /// Measured times of the first distances, from one cylinder on, which replace the curve.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        first: Vec<Nanos>,
    },
    /// Measured points in ascending order, interpolated linearly. A point for distance 0 is the time of a new access
    /// with the arm already on the cylinder; 0 without such a point.
    Table {
        /// `[cylinders, "duration"]`.
        points: Vec<(u32, Nanos)>,
    },
}

/// Keys of all curves. Deserialized as one struct so that an error names its key, which a tagged enum cannot do.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeekTable {
    curve: CurveKind,
    track_to_track: Option<Nanos>,
    average: Option<Nanos>,
    full_stroke: Option<Nanos>,
    threshold: Option<u32>,
    short_base: Option<Nanos>,
    short_per_root: Option<Nanos>,
    long_base: Option<Nanos>,
    long_per_cylinder: Option<Nanos>,
    first: Option<Vec<Nanos>>,
    points: Option<Vec<(u32, Nanos)>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CurveKind {
    Datasheet,
    TwoPiece,
    Table,
}

impl CurveKind {
    fn name(self) -> &'static str {
        match self {
            CurveKind::Datasheet => "datasheet",
            CurveKind::TwoPiece => "two_piece",
            CurveKind::Table => "table",
        }
    }

    /// Returns the required keys as text.
    fn keys(self) -> &'static str {
        match self {
            CurveKind::Datasheet => "track_to_track, average and full_stroke",
            CurveKind::TwoPiece => {
                "threshold, short_base, short_per_root, long_base, long_per_cylinder and, if they were measured, first"
            }
            CurveKind::Table => "points",
        }
    }
}

impl TryFrom<SeekTable> for SeekSpec {
    type Error = String;

    fn try_from(table: SeekTable) -> Result<SeekSpec, String> {
        let kind = table.curve;
        let given = [
            ("track_to_track", table.track_to_track.is_some(), CurveKind::Datasheet),
            ("average", table.average.is_some(), CurveKind::Datasheet),
            ("full_stroke", table.full_stroke.is_some(), CurveKind::Datasheet),
            ("threshold", table.threshold.is_some(), CurveKind::TwoPiece),
            ("short_base", table.short_base.is_some(), CurveKind::TwoPiece),
            ("short_per_root", table.short_per_root.is_some(), CurveKind::TwoPiece),
            ("long_base", table.long_base.is_some(), CurveKind::TwoPiece),
            ("long_per_cylinder", table.long_per_cylinder.is_some(), CurveKind::TwoPiece),
            ("first", table.first.is_some(), CurveKind::TwoPiece),
            ("points", table.points.is_some(), CurveKind::Table),
        ];
        let curve = format!("a {} curve has {}", kind.name(), kind.keys());
        if let Some((key, ..)) = given.into_iter().find(|(_, given, of)| *given && *of != kind) {
            return Err(format!("{curve}, but no {key}; change all keys together, as one table"));
        }
        let missing = || format!("{curve}; one of them is missing; give all together, as one table");
        let read = || {
            Some(match kind {
                CurveKind::Datasheet => SeekSpec::Datasheet {
                    track_to_track: table.track_to_track?,
                    average: table.average?,
                    full_stroke: table.full_stroke?,
                },
                CurveKind::TwoPiece => SeekSpec::TwoPiece {
                    threshold: table.threshold?,
                    short_base: table.short_base?,
                    short_per_root: table.short_per_root?,
                    long_base: table.long_base?,
                    long_per_cylinder: table.long_per_cylinder?,
                    first: table.first.unwrap_or_default(),
                },
                CurveKind::Table => SeekSpec::Table { points: table.points? },
            })
        };
        read().ok_or_else(missing)
    }
}

/// A duration that may be negative, in nanoseconds: `"-0.2ms"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignedNanos(pub i64);

impl Serialize for SignedNanos {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sign = if self.0 < 0 { "-" } else { "" };
        serializer.collect_str(&format_args!("{sign}{}", Nanos(self.0.unsigned_abs())))
    }
}

impl<'de> Deserialize<'de> for SignedNanos {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<SignedNanos, D::Error> {
        deserializer.deserialize_any(SignedVisitor)
    }
}

struct SignedVisitor;

impl serde::de::Visitor<'_> for SignedVisitor {
    type Value = SignedNanos;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a duration with its unit such as \"0.3ms\" or \"-0.1ms\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SignedNanos, E> {
        let text = text.trim();
        let (negative, size) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let size: Nanos = size.parse().map_err(E::custom)?;
        let size = i64::try_from(size.0).map_err(|_| E::custom("the duration is too large"))?;
        Ok(SignedNanos(if negative { -size } else { size }))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<SignedNanos, E> {
        let zero = (number == 0).then_some(SignedNanos(0));
        zero.ok_or_else(|| E::invalid_type(serde::de::Unexpected::Signed(number), &self))
    }
}
