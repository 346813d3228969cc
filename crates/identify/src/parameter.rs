//! The continuous parameters of a drive that identification may change.

use sakiyomi_drive::spec::{DriveSpec, Overhead, SeekSpec, SignedNanos};
use sakiyomi_model::{Bytes, Nanos};

/// Units of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes per second.
    BytesPerSecond,
    /// A share from 0 to 1.
    Share,
    /// Revolutions per minute.
    RevolutionsPerMinute,
}

/// A continuous parameter, or a correction to several values at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    /// Spindle speed.
    Rotation,
    /// Command processing, by kind of command and by the command before it.
    Overhead(Command, Case),
    /// `interface.overhead.reconnect`.
    Reconnect,
    /// `interface.overhead.completion`.
    Completion,
    /// `interface.overhead.completion_write`.
    CompletionWrite,
    /// `interface.link_rate`.
    LinkRate,
    /// `interface.link_rate_write`.
    LinkRateWrite,
    /// `interface.read_watermark`.
    ReadWatermark,
    /// `servo.head_switch`.
    HeadSwitch,
    /// `servo.write_settle`.
    WriteSettle,
    /// `servo.lost_turns`.
    LostTurns,
    /// A part of the seek curve.
    Seek(SeekPart),
}

/// Kinds of command whose processing times differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    ReadHit,
    ReadMiss,
    WriteHit,
    WriteMiss,
    WriteData,
}

/// Cases of an overhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    /// All cases together.
    Any,
    AfterRead,
    AfterWrite,
    InSequence,
}

/// Parts of a seek curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeekPart {
    TrackToTrack,
    Average,
    FullStroke,
    ShortBase,
    ShortPerRoot,
    LongBase,
    LongPerCylinder,
    /// Time of an access without arm movement.
    Zero,
    /// All points of a table.
    Whole,
    /// Points near a share of the range of distances, on a logarithmic scale: knot 0, 1, 2 or 3.
    Knot(u8),
}

/// Knots of the correction of a table, on the logarithmic scale of distances.
const SEEK_KNOTS: u8 = 4;

impl Parameter {
    /// Returns the parameters that a drive has, those that matter most first.
    pub(crate) fn all(spec: &DriveSpec) -> Vec<Parameter> {
        use Parameter as P;
        let commands =
            [Command::ReadMiss, Command::WriteMiss, Command::WriteData, Command::ReadHit, Command::WriteHit];
        let mut all: Vec<P> = commands.map(|command| P::Overhead(command, Case::Any)).to_vec();
        all.extend([
            P::Completion,
            P::CompletionWrite,
            P::Reconnect,
            P::LinkRate,
            P::LinkRateWrite,
            P::ReadWatermark,
            P::WriteSettle,
            P::HeadSwitch,
            P::LostTurns,
            P::Rotation,
        ]);
        all.extend(seek_parts(&spec.servo.seek).into_iter().map(P::Seek));
        for command in commands {
            all.extend(
                [Case::AfterRead, Case::AfterWrite, Case::InSequence].map(|case| P::Overhead(command, case)),
            );
        }
        all
    }

    /// Returns the parameters that a drive has, none of them the sum of others.
    pub(crate) fn distinct(spec: &DriveSpec) -> Vec<Parameter> {
        let is_distinct = |parameter: &Parameter| match parameter {
            Parameter::Overhead(command, case) => match (command.of(spec), case) {
                (Overhead::Same(_), case) => *case == Case::Any,
                (Overhead::After { in_sequence, .. }, Case::InSequence) => in_sequence.is_some(),
                (Overhead::After { .. }, case) => *case != Case::Any,
            },
            Parameter::Seek(part) => *part != SeekPart::Whole,
            Parameter::CompletionWrite => spec.interface.overhead.completion_write.is_some(),
            Parameter::LinkRateWrite => spec.interface.link_rate_write.is_some(),
            _ => true,
        };
        let all = Parameter::all(spec).into_iter().filter(is_distinct);
        let apart = |parameter: &Parameter| {
            !matches!(parameter, Parameter::Overhead(Command::WriteData, _))
                || spec.interface.overhead.write_data.is_some()
        };
        all.filter(apart).collect()
    }

    /// Returns the value: nanoseconds, bytes per second, a share, or revolutions per minute.
    pub(crate) fn get(self, spec: &DriveSpec) -> f64 {
        let overhead = &spec.interface.overhead;
        match self {
            Parameter::Rotation => spec.servo.rpm,
            Parameter::Overhead(command, case) => case.get(command.of(spec)),
            Parameter::Reconnect => overhead.reconnect.0 as f64,
            Parameter::Completion => overhead.completion.0 as f64,
            Parameter::CompletionWrite => overhead.completion_write.unwrap_or(overhead.completion).0 as f64,
            Parameter::LinkRate => spec.interface.link_rate.0 as f64,
            Parameter::LinkRateWrite => {
                spec.interface.link_rate_write.unwrap_or(spec.interface.link_rate).0 as f64
            }
            Parameter::ReadWatermark => spec.interface.read_watermark,
            Parameter::HeadSwitch => spec.servo.head_switch.0 as f64,
            Parameter::WriteSettle => spec.servo.write_settle.0 as f64,
            Parameter::LostTurns => spec.servo.lost_turns,
            Parameter::Seek(part) => part.get(&spec.servo.seek),
        }
    }

    /// Sets the value, limited to what is possible.
    pub(crate) fn set(self, spec: &mut DriveSpec, value: f64) {
        match self {
            Parameter::Rotation => spec.servo.rpm = value,
            Parameter::Overhead(command, case) => {
                let changed = case.set(command.of(spec), value);
                let overhead = &mut spec.interface.overhead;
                match command {
                    Command::ReadHit => overhead.read_hit = changed,
                    Command::ReadMiss => overhead.read_miss = changed,
                    Command::WriteHit => overhead.write_hit = changed,
                    Command::WriteMiss => overhead.write_miss = changed,
                    Command::WriteData => overhead.write_data = Some(changed),
                }
            }
            Parameter::Reconnect => spec.interface.overhead.reconnect = nanos(value),
            Parameter::Completion => spec.interface.overhead.completion = nanos(value),
            Parameter::CompletionWrite => spec.interface.overhead.completion_write = Some(nanos(value)),
            Parameter::LinkRate => spec.interface.link_rate = rate(value),
            Parameter::LinkRateWrite => spec.interface.link_rate_write = Some(rate(value)),
            Parameter::ReadWatermark => spec.interface.read_watermark = value.clamp(0.0, 1.0),
            Parameter::HeadSwitch => spec.servo.head_switch = nanos(value),
            Parameter::WriteSettle => spec.servo.write_settle = SignedNanos(value.round() as i64),
            Parameter::LostTurns => spec.servo.lost_turns = value.clamp(0.0, 1.0),
            Parameter::Seek(part) => part.set(&mut spec.servo.seek, value),
        }
    }

    /// Returns the first and the last step of a search.
    pub(crate) fn steps(self, spec: &DriveSpec) -> [f64; 2] {
        self.steps_at(self.get(spec))
    }

    /// Returns the first and the last step of a search around a value.
    pub(crate) fn steps_at(self, value: f64) -> [f64; 2] {
        let value = value.abs();
        match self {
            // The nominal speed is right to about a thousandth; over seconds, a millionth shows.
            Parameter::Rotation => [value * 1e-4, value * 1e-6],
            Parameter::LinkRate | Parameter::LinkRateWrite => [value * 0.3, value * 0.003],
            Parameter::ReadWatermark => [0.25, 0.01],
            Parameter::LostTurns => [0.02, 0.001],
            Parameter::Seek(SeekPart::ShortPerRoot | SeekPart::LongPerCylinder) => {
                [value * 0.2, value * 0.001]
            }
            _ => [(value * 0.5).clamp(200_000.0, 1_000_000.0), 5_000.0],
        }
    }

    /// Returns a typical value, for one that is zero.
    pub(crate) fn typical(self) -> f64 {
        match self {
            Parameter::Rotation | Parameter::LinkRate | Parameter::LinkRateWrite => 0.0,
            Parameter::Seek(SeekPart::ShortPerRoot | SeekPart::LongPerCylinder) => 0.0,
            Parameter::ReadWatermark => 1.0,
            Parameter::LostTurns => 0.05,
            _ => 1_000_000.0,
        }
    }

    /// Limits an interval to possible values.
    pub(crate) fn bounded(self, [low, high]: [f64; 2]) -> [f64; 2] {
        match self {
            Parameter::WriteSettle => [low, high],
            Parameter::ReadWatermark | Parameter::LostTurns => [low.max(0.0), high.min(1.0)],
            _ => [low.max(0.0), high],
        }
    }

    /// Returns the key, with the part of it that is meant.
    pub(crate) fn key(self) -> String {
        match self {
            Parameter::Rotation => "servo.rpm".to_owned(),
            Parameter::Overhead(command, case) => {
                format!("interface.overhead.{}{}", command.name(), case.suffix())
            }
            Parameter::Reconnect => "interface.overhead.reconnect".to_owned(),
            Parameter::Completion => "interface.overhead.completion".to_owned(),
            Parameter::CompletionWrite => "interface.overhead.completion_write".to_owned(),
            Parameter::LinkRate => "interface.link_rate".to_owned(),
            Parameter::LinkRateWrite => "interface.link_rate_write".to_owned(),
            Parameter::ReadWatermark => "interface.read_watermark".to_owned(),
            Parameter::HeadSwitch => "servo.head_switch".to_owned(),
            Parameter::WriteSettle => "servo.write_settle".to_owned(),
            Parameter::LostTurns => "servo.lost_turns".to_owned(),
            Parameter::Seek(part) => format!("servo.seek.{}", part.name()),
        }
    }

    pub(crate) fn unit(self) -> Unit {
        match self {
            Parameter::Rotation => Unit::RevolutionsPerMinute,
            Parameter::LinkRate | Parameter::LinkRateWrite => Unit::BytesPerSecond,
            Parameter::ReadWatermark | Parameter::LostTurns => Unit::Share,
            _ => Unit::Nanoseconds,
        }
    }

    /// Returns the requests that would identify it.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Parameter::Rotation => {
                "writes or uncached reads of the same sectors, with pauses of known length"
            }
            Parameter::Overhead(Command::ReadHit, _) => {
                "reads of sectors that are in the buffer, of several sizes"
            }
            Parameter::Overhead(Command::WriteHit, _) => "small writes with pauses, of several sizes",
            Parameter::Overhead(Command::ReadMiss, _) => "random reads all over the drive",
            Parameter::Overhead(Command::WriteMiss | Command::WriteData, _) => {
                "random writes all over the drive"
            }
            Parameter::Reconnect | Parameter::Completion => "uncached reads and cached reads of equal sizes",
            Parameter::CompletionWrite => "uncached writes of several sizes",
            Parameter::LinkRate | Parameter::ReadWatermark => "reads of several sizes, cached and uncached",
            Parameter::LinkRateWrite => "writes of several sizes",
            Parameter::HeadSwitch => {
                "requests that cross tracks, and reads on other tracks of the same cylinder"
            }
            Parameter::WriteSettle => "uncached writes on the track of the request before",
            Parameter::LostTurns => "random reads all over the drive",
            Parameter::Seek(_) => {
                "reads at several distances from the request before, from one cylinder to all"
            }
        }
    }
}

impl Command {
    fn of(self, spec: &DriveSpec) -> Overhead {
        let overhead = &spec.interface.overhead;
        match self {
            Command::ReadHit => overhead.read_hit,
            Command::ReadMiss => overhead.read_miss,
            Command::WriteHit => overhead.write_hit,
            Command::WriteMiss => overhead.write_miss,
            Command::WriteData => overhead.write_data.unwrap_or(overhead.write_miss),
        }
    }
}

/// Times after a read, after a write, and in sequence.
fn cases(overhead: Overhead) -> (Nanos, Nanos, Option<Nanos>) {
    match overhead {
        Overhead::Same(time) => (time, time, None),
        Overhead::After { after_read, after_write, in_sequence } => (after_read, after_write, in_sequence),
    }
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Command::ReadHit => "read_hit",
            Command::ReadMiss => "read_miss",
            Command::WriteHit => "write_hit",
            Command::WriteMiss => "write_miss",
            Command::WriteData => "write_data",
        }
    }
}

impl Case {
    fn suffix(self) -> &'static str {
        match self {
            Case::Any => "",
            Case::AfterRead => ".after_read",
            Case::AfterWrite => ".after_write",
            Case::InSequence => ".in_sequence",
        }
    }

    fn get(self, overhead: Overhead) -> f64 {
        let (after_read, after_write, in_sequence) = cases(overhead);
        match self {
            Case::Any => (after_read.0 as f64 + after_write.0 as f64) / 2.0,
            Case::AfterRead => after_read.0 as f64,
            Case::AfterWrite => after_write.0 as f64,
            // Without an exception, commands in sequence are of one kind.
            Case::InSequence => in_sequence.unwrap_or(after_read).0 as f64,
        }
    }

    fn set(self, overhead: Overhead, value: f64) -> Overhead {
        let (mut after_read, mut after_write, mut in_sequence) = cases(overhead);
        match self {
            Case::Any => {
                let by = value - self.get(overhead);
                let later = |time: Nanos| nanos(time.0 as f64 + by);
                if let Overhead::Same(time) = overhead {
                    return Overhead::Same(later(time));
                }
                (after_read, after_write, in_sequence) =
                    (later(after_read), later(after_write), in_sequence.map(later));
            }
            Case::AfterRead => after_read = nanos(value),
            Case::AfterWrite => after_write = nanos(value),
            Case::InSequence => in_sequence = Some(nanos(value)),
        }
        Overhead::After { after_read, after_write, in_sequence }
    }
}

fn seek_parts(seek: &SeekSpec) -> Vec<SeekPart> {
    use SeekPart as S;
    match seek {
        SeekSpec::Datasheet { .. } => vec![S::TrackToTrack, S::Average, S::FullStroke],
        SeekSpec::TwoPiece { .. } => vec![S::ShortBase, S::ShortPerRoot, S::LongBase, S::LongPerCylinder],
        SeekSpec::Table { .. } => {
            [S::Whole, S::Zero].into_iter().chain((0..SEEK_KNOTS).map(S::Knot)).collect()
        }
    }
}

impl SeekPart {
    fn name(self) -> &'static str {
        match self {
            SeekPart::TrackToTrack => "track_to_track",
            SeekPart::Average => "average",
            SeekPart::FullStroke => "full_stroke",
            SeekPart::ShortBase => "short_base",
            SeekPart::ShortPerRoot => "short_per_root",
            SeekPart::LongBase => "long_base",
            SeekPart::LongPerCylinder => "long_per_cylinder",
            SeekPart::Zero => "points (no distance)",
            SeekPart::Whole => "points",
            SeekPart::Knot(0) => "points (shortest distances)",
            SeekPart::Knot(1) => "points (short distances)",
            SeekPart::Knot(2) => "points (long distances)",
            SeekPart::Knot(_) => "points (longest distances)",
        }
    }

    fn get(self, seek: &SeekSpec) -> f64 {
        use SeekPart as S;
        let value = match (self, seek) {
            (S::TrackToTrack, SeekSpec::Datasheet { track_to_track, .. }) => *track_to_track,
            (S::Average, SeekSpec::Datasheet { average, .. }) => *average,
            (S::FullStroke, SeekSpec::Datasheet { full_stroke, .. }) => *full_stroke,
            (S::ShortBase, SeekSpec::TwoPiece { short_base, .. }) => *short_base,
            (S::ShortPerRoot, SeekSpec::TwoPiece { short_per_root, .. }) => *short_per_root,
            (S::LongBase, SeekSpec::TwoPiece { long_base, .. }) => *long_base,
            (S::LongPerCylinder, SeekSpec::TwoPiece { long_per_cylinder, .. }) => *long_per_cylinder,
            (S::Zero, SeekSpec::Table { points }) => {
                points.first().filter(|point| point.0 == 0).map_or(Nanos::ZERO, |point| point.1)
            }
            (S::Whole, SeekSpec::Table { points }) => {
                points.iter().find(|point| point.0 > 0).map_or(Nanos::ZERO, |point| point.1)
            }
            (S::Knot(knot), SeekSpec::Table { points }) => {
                let nearest = points
                    .iter()
                    .filter(|point| point.0 > 0)
                    .max_by(|a, b| weight(points, a.0, knot).total_cmp(&weight(points, b.0, knot)));
                nearest.map_or(Nanos::ZERO, |point| point.1)
            }
            _ => Nanos::ZERO,
        };
        value.0 as f64
    }

    fn set(self, seek: &mut SeekSpec, value: f64) {
        use SeekPart as S;
        let by = value - self.get(seek);
        match (self, seek) {
            (S::TrackToTrack, SeekSpec::Datasheet { track_to_track, .. }) => *track_to_track = nanos(value),
            (S::Average, SeekSpec::Datasheet { average, .. }) => *average = nanos(value),
            (S::FullStroke, SeekSpec::Datasheet { full_stroke, .. }) => *full_stroke = nanos(value),
            (S::ShortBase, SeekSpec::TwoPiece { short_base, .. }) => *short_base = nanos(value),
            (S::ShortPerRoot, SeekSpec::TwoPiece { short_per_root, .. }) => *short_per_root = nanos(value),
            (S::LongBase, SeekSpec::TwoPiece { long_base, .. }) => *long_base = nanos(value),
            (S::LongPerCylinder, SeekSpec::TwoPiece { long_per_cylinder, .. }) => {
                *long_per_cylinder = nanos(value)
            }
            (S::Zero, SeekSpec::Table { points }) => match points.first_mut() {
                Some(point) if point.0 == 0 => point.1 = nanos(value),
                _ => points.insert(0, (0, nanos(value))),
            },
            (S::Whole, SeekSpec::Table { points }) => {
                points.iter_mut().for_each(|point| point.1 = nanos(point.1.0 as f64 + by));
            }
            (S::Knot(knot), SeekSpec::Table { points }) => {
                let weights: Vec<f64> = points.iter().map(|point| weight(points, point.0, knot)).collect();
                points
                    .iter_mut()
                    .zip(weights)
                    .for_each(|(point, weight)| point.1 = nanos(point.1.0 as f64 + by * weight));
            }
            _ => {}
        }
    }
}

/// Returns the weight of a knot at a distance: 1 at the knot, falling linearly in ln(distance) to 0 at its neighbors.
fn weight(points: &[(u32, Nanos)], distance: u32, knot: u8) -> f64 {
    let longest = points.last().map_or(1, |point| point.0).max(2);
    if distance == 0 {
        return 0.0;
    }
    let place = f64::from(distance).ln() / f64::from(longest).ln() * f64::from(SEEK_KNOTS - 1);
    (1.0 - (place - f64::from(knot)).abs()).max(0.0)
}

fn nanos(value: f64) -> Nanos {
    Nanos(value.round().max(0.0) as u64)
}

fn rate(value: f64) -> Bytes {
    Bytes(value.round().max(1000.0) as u64)
}
