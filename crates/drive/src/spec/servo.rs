//! How the arm and the platters move: `servo.*`.

use sakiyomi_model::Nanos;
use serde::{Deserialize, Serialize};

/// How the arm and the platters move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServoSpec {
    /// Revolutions a minute.
    pub rpm: f64,
    /// From one head of a cylinder to another, until it is on track.
    pub head_switch: Nanos,
    /// Added to the time until the head is on track, where a write begins anew or goes on to another track.
    #[serde(default)]
    pub write_settle: SignedNanos,
    /// Share of the arm's movements after which it is not yet on track: the sector is taken a turn later.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub lost_turns: f64,
    /// Arm movement, settling for a read included.
    pub seek: SeekSpec,
    /// Arm movement before a write, where it was measured apart; `write_settle` is added to it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek_write: Option<SeekSpec>,
}

/// Seek time over a distance in cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "curve", rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekSpec {
    /// Through the three points of a datasheet (Lee's curve; `docs/model.md`, seek).
    Datasheet {
        /// To the neighbouring cylinder.
        track_to_track: Nanos,
        /// Mean over all pairs of cylinders.
        average: Nanos,
        /// From the first cylinder to the last.
        full_stroke: Nanos,
    },
    /// Square root below a threshold, linear from it on (Ruemmler & Wilkes 1994).
    TwoPiece {
        /// The first distance of the linear piece, in cylinders.
        threshold: u32,
        /// The root piece's constant.
        short_base: Nanos,
        /// Times the square root of the distance.
        short_per_root: Nanos,
        /// The linear piece's constant.
        long_base: Nanos,
        /// Times the distance.
        long_per_cylinder: Nanos,
        /// Times of the first distances, from one cylinder on, measured: they stand in place of the curve.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first: Vec<Nanos>,
    },
    /// Measured points, ascending, with straight lines between. A point for distance 0 is what an access that begins
    /// anew takes where the arm stands already; without one it takes nothing.
    Table {
        /// `[cylinders, "duration"]`.
        points: Vec<(u32, Nanos)>,
    },
}

/// A span that may be negative, in nanoseconds: `"-0.2ms"`.
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
        use serde::de::Error;
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        let (negative, size) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let size: Nanos = size.parse().map_err(D::Error::custom)?;
        let size = i64::try_from(size.0).map_err(|_| D::Error::custom("the duration is too large"))?;
        Ok(SignedNanos(if negative { -size } else { size }))
    }
}
