//! The fields of DiskSim's blocks: each is named once, with what it means (manual CMU-PDL-08-101) and what becomes of it
//! here.
//!
//! A field is read into a struct, or it is *not modelled*: then it has one value or more that say what this simulator
//! does anyway, and any other is answered with a warning; or it is *without effect* on time, whatever it says. Fields
//! that the manual requires may be left out where they have an obvious default.

use std::fmt::Display;

use sakiyomi_model::Nanos;
use sakiyomi_model::suggest::similar;

use super::syntax::{Block, Fault, Field, Value, Word};
use crate::spec::SignedNanos;

/// A field's value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Given<T> {
    /// The field's name in the file.
    pub(super) key: &'static str,
    /// What it says.
    pub(super) value: T,
    /// Its line; that of the block where the field was left out.
    pub(super) line: u32,
}

impl<T> Given<T> {
    /// That this field is at fault.
    pub(super) fn fault(&self, problem: impl Display) -> Fault {
        Fault::new(self.line, format!("{}: {problem}", self.key))
    }
}

impl<T: Display> Given<T> {
    /// `key = value: instead`.
    pub(super) fn warning(&self, instead: impl Display) -> String {
        format!("{} = {}: {instead}", self.key, self.value)
    }
}

/// What can be the value of a field.
pub(super) trait Kind: Sized {
    fn read(value: &Value) -> Result<Self, Fault>;
}

fn number(value: &Value, expected: &str, fits: impl Fn(f64) -> bool) -> Result<f64, Fault> {
    let read = if let Value::Word(word) = value { word.text.parse::<f64>().ok() } else { None };
    read.filter(|number| number.is_finite() && fits(*number))
        .ok_or_else(|| Fault::new(value.line(), format!("{}; expected {expected}", value.describe())))
}

impl Kind for f64 {
    fn read(value: &Value) -> Result<f64, Fault> {
        number(value, "a number", |_| true)
    }
}

impl Kind for u32 {
    fn read(value: &Value) -> Result<u32, Fault> {
        let whole = |number: f64| number >= 0.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX);
        number(value, "a whole number from 0 to 4294967295", whole).map(|number| number as u32)
    }
}

impl Kind for u64 {
    fn read(value: &Value) -> Result<u64, Fault> {
        let whole = |number: f64| number >= 0.0 && number.fract() == 0.0 && number <= 1e15;
        number(value, "a whole number from 0 to 1e15", whole).map(|number| number as u64)
    }
}

impl Kind for bool {
    fn read(value: &Value) -> Result<bool, Fault> {
        number(value, "0 or 1", |number| number == 0.0 || number == 1.0).map(|number| number == 1.0)
    }
}

/// Longer times are wrong units.
const TIME_MAX_MS: f64 = 1e6;

impl Kind for Nanos {
    fn read(value: &Value) -> Result<Nanos, Fault> {
        let time = |number: f64| (0.0..=TIME_MAX_MS).contains(&number);
        number(value, "milliseconds, from 0 to 1000000", time).map(millis)
    }
}

impl Kind for SignedNanos {
    fn read(value: &Value) -> Result<SignedNanos, Fault> {
        let time = |number: f64| number.abs() <= TIME_MAX_MS;
        number(value, "milliseconds", time).map(|number| SignedNanos((number * 1e6).round() as i64))
    }
}

/// DiskSim's times are milliseconds.
pub(super) fn millis(millis: f64) -> Nanos {
    Nanos::from_secs_f64(millis / 1e3)
}

impl Kind for Word {
    fn read(value: &Value) -> Result<Word, Fault> {
        match value {
            Value::Word(word) => Ok(word.clone()),
            other => Err(Fault::new(other.line(), format!("{}; expected a word", other.describe()))),
        }
    }
}

impl Kind for Value {
    fn read(value: &Value) -> Result<Value, Fault> {
        Ok(value.clone())
    }
}

impl<T: Kind> Kind for Vec<T> {
    fn read(value: &Value) -> Result<Vec<T>, Fault> {
        match value {
            Value::List(values, _) => values.iter().map(T::read).collect(),
            other => Err(Fault::new(other.line(), format!("{}; expected a list", other.describe()))),
        }
    }
}

impl<T: Kind> Kind for Option<T> {
    fn read(value: &Value) -> Result<Option<T>, Fault> {
        T::read(value).map(Some)
    }
}

/// Takes the fields of one block, and knows in the end which ones nobody asked for.
struct Reader<'a> {
    block: &'a Block,
    warnings: &'a mut Vec<String>,
    asked: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    /// The block must be of this kind, and have no field twice.
    fn new(kind: &str, block: &'a Block, warnings: &'a mut Vec<String>) -> Result<Reader<'a>, Fault> {
        if block.kind != kind {
            return Err(Fault::new(block.line, format!("a block `{}`; expected `{kind}`", block.kind)));
        }
        let mut seen: Vec<(&str, u32)> =
            block.fields.iter().map(|field| (field.key.as_str(), field.line)).collect();
        seen.sort_unstable();
        match seen.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => {
                let (key, first) = pair[0];
                Err(Fault::new(
                    pair[1].1,
                    format!("{key} is given a second time; the first is on line {first}"),
                ))
            }
            None => Ok(Reader { block, warnings, asked: Vec::new() }),
        }
    }

    fn find(&mut self, key: &'static str) -> Option<&'a Field> {
        self.asked.push(key);
        self.block.fields.iter().find(|field| field.key == key)
    }

    fn field<T: Kind>(&mut self, key: &'static str, default: Option<T>) -> Result<Given<T>, Fault> {
        let (value, line) = match (self.find(key), default) {
            (Some(field), _) => {
                let value = T::read(&field.value)
                    .map_err(|fault| Fault::new(fault.line, format!("{key}: {}", fault.problem)))?;
                (value, field.line)
            }
            (None, Some(default)) => (default, self.block.line),
            (None, None) => {
                let problem = format!("the block `{}` lacks the field {key}; add it", self.block.kind);
                return Err(Fault::new(self.block.line, problem));
            }
        };
        Ok(Given { key, value, line })
    }

    /// A field that is known and not modelled: a warning where it says anything but what is done anyway.
    fn unmodelled(&mut self, key: &'static str, neutral: &[f64], instead: &str) -> Result<(), Fault> {
        let given = self.field::<f64>(key, neutral.first().copied())?;
        if !neutral.contains(&given.value) {
            self.warnings.push(given.warning(instead));
        }
        Ok(())
    }

    /// Every field must have been asked for.
    fn finish(self) -> Result<(), Fault> {
        let unknown = self.block.fields.iter().find(|field| !self.asked.contains(&field.key.as_str()));
        let Some(field) = unknown else { return Ok(()) };
        let near = similar(&field.key, self.asked.iter().copied());
        let advice = near.first().map_or_else(
            || "correct the name, or comment the line out with #".to_owned(),
            |key| format!("did you mean {key}?"),
        );
        let problem = format!("no field of `{}` is called {}; {advice}", self.block.kind, field.key);
        Err(Fault::new(field.line, problem))
    }
}

/// A block's fields as a struct, with the function that reads it.
macro_rules! block {
    (
        $(#[$doc:meta])*
        $name:ident = $kind:literal {
            $($(#[$field_doc:meta])* $field:ident: $type:ty = $key:literal $(or $default:expr)?;)*
        }
        $(unmodelled {
            $($(#[$unmodelled_doc:meta])* $unmodelled:literal = $($neutral:literal)|+ else $instead:literal;)*
        })?
        $(without_effect {
            $($(#[$idle_doc:meta])* $idle:literal;)*
        })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(super) struct $name {
            $($(#[$field_doc])* pub(super) $field: Given<$type>,)*
        }

        impl $name {
            /// Reads the block; what is not modelled is added to `warnings`.
            pub(super) fn read(block: &Block, warnings: &mut Vec<String>) -> Result<$name, Fault> {
                let mut reader = Reader::new($kind, block, warnings)?;
                $($(reader.unmodelled($unmodelled, &[$($neutral),+], $instead)?;)*)?
                $($(reader.find($idle);)*)?
                let fields = $name {
                    $($field: reader.field($key, block!(@default $($default)?))?,)*
                };
                reader.finish()?;
                Ok(fields)
            }
        }
    };
    (@default) => { None };
    (@default $default:expr) => { Some($default) };
}

block! {
    /// A drive: its controller and its buffer.
    DiskFields = "disksim_disk" {
        /// The medium and the mechanism: a `dm_disk` block, or `source FILE`.
        model: Value = "Model";

        /// Processing at the start of any request, on top of the overheads below.
        per_request_overhead: Nanos = "Per-request overhead time" or Nanos::ZERO;
        /// All overheads are multiplied by it.
        overhead_scale: f64 = "Time scale for overheads" or 1.0;
        /// What a block of 512 bytes takes to or from the bus; the slowest of drive, bus and controller counts.
        bulk_sector: Nanos = "Bulk sector transfer time" or Nanos::ZERO;
        /// The bus is held from the first byte of a read to the last, instead of given up while the medium is awaited.
        hold_bus_read: bool = "Hold bus entire read xfer" or false;
        /// The same for a write.
        hold_bus_write: bool = "Hold bus entire write xfer" or false;
        /// The bus is held from the command to its end.
        never_disconnect: bool = "Never disconnect" or false;

        /// A read that the buffer can serve goes ahead of the command that has the mechanism.
        sneaky_full_hits: bool = "Allow sneaky full read hits" or false;
        /// Reads may hit data that was written. Becomes `cache.write.keep`.
        hits_on_written: bool = "Allow read hits on write data" or false;

        /// Commands in the drive at once. Becomes `queue.depth`.
        queue_length: u32 = "Max queue length" or 1;
        /// The order of waiting commands: a block `disksim_ioqueue`.
        scheduler: Value = "Scheduler";

        /// Parts of the buffer. Becomes `cache.segments.count`, a part for writes left out.
        segments: u32 = "Number of buffer segments" or 1;
        /// How many of them may hold written data. Becomes `cache.write.limit`.
        write_segments: u32 = "Maximum number of write segments" or 1;
        /// Sectors in a part. Times their number, becomes `cache.size`.
        segment_sectors: u32 = "Segment size (in blks)";
        /// One part holds written data and nothing else. Becomes `cache.write.share`.
        separate_write_segment: bool = "Use separate write segment" or false;
        /// Where less than this share of a write is left in the buffer the bus is taken again for more. A write's data
        /// comes in one go here, so that there never is more to come.
        low_watermark: f64 = "Low (write) water mark" or 0.0;
        /// Share of a read that must have come from the medium before the bus is taken. Becomes
        /// `interface.read_watermark`.
        high_watermark: f64 = "High (read) water mark" or 0.0;
        /// The shares are of the request, not of the segment.
        watermark_by_request: bool = "Set watermark by reqsize" or true;
        /// Whether data stays in the buffer for later commands: 0 no, 1 yes, 2 until the host has read it. 2 becomes
        /// `cache.segments.consumed` = discard.
        caching: u32 = "Enable caching in buffer" or 1;
        /// What is read ahead: 0 nothing, 1 to the end of the track, 2 of the cylinder, 3 until the segment is full,
        /// 4 to the end of the next track. Becomes `cache.read_ahead.mode`.
        continuous_read: u32 = "Buffer continuous read" or 0;
        /// Sectors read ahead before another command gets the arm. Becomes `cache.read_ahead.min`.
        read_ahead_min: u32 = "Minimum read-ahead (blks)" or 0;
        /// Sectors read ahead at most. Becomes `cache.read_ahead.max`.
        read_ahead_max: u32 = "Maximum read-ahead (blks)" or 0;
        /// Read-ahead goes over what the host asked for, which is then gone: `cache.segments.consumed` = discard. If not,
        /// that stays (= keep), and adaptive read-ahead (4) waits for a second read in sequence.
        over_requested: bool = "Read-ahead over requested" or true;
        /// A hit that finds the drive idle lets read-ahead go on. Becomes `cache.read_ahead.resume_on_hit`.
        read_ahead_on_idle_hit: bool = "Read-ahead on idle hit" or false;
        /// What passes under the head before the request is kept. Becomes `cache.read_ahead.on_arrival`.
        read_any_free: bool = "Read any free blocks" or false;
        /// A read begins with whichever of its sectors passes first. Becomes `cache.read_ahead.on_arrival`.
        immediate_read: bool = "Immediate buffer read" or false;
        /// Writes that end when their data is in the buffer: 0 none, 1 those that go on where the last one ended, 2 all.
        /// Becomes `cache.write.enabled`.
        fast_write: u32 = "Fast write level" or 0;
        /// Writes in sequence become one. Becomes `cache.write.coalesce`.
        combine_writes: bool = "Combine seq writes" or false;
        /// Read-ahead ends when a write is taken into the buffer.
        write_hit_stops_read_ahead: bool = "Write hit stop prefetch" or false;
        /// Of a read that the buffer holds in part, that part goes to the host at once. Becomes
        /// `interface.immediate_partial`.
        immediate_partial: bool = "Immed transfer partial hit" or true;

        /// Command processing of a read that the buffer holds, where a read came before.
        read_hit_after_read: Nanos = "Read hit over. after read" or Nanos::ZERO;
        /// The same, where a write came before.
        read_hit_after_write: Nanos = "Read hit over. after write" or Nanos::ZERO;
        /// Command processing of a read that needs the medium, where a read came before.
        read_miss_after_read: Nanos = "Read miss over. after read" or Nanos::ZERO;
        /// The same, where a write came before.
        read_miss_after_write: Nanos = "Read miss over. after write" or Nanos::ZERO;
        /// Command processing of a write that a segment takes in, where a read came before.
        write_hit_after_read: Nanos = "Write hit over. after read" or Nanos::ZERO;
        /// The same, where a write came before.
        write_hit_after_write: Nanos = "Write hit over. after write" or Nanos::ZERO;
        /// Command processing of any other write, where a read came before.
        write_miss_after_read: Nanos = "Write miss over. after read" or Nanos::ZERO;
        /// The same, where a write came before.
        write_miss_after_write: Nanos = "Write miss over. after write" or Nanos::ZERO;
        /// Between the last byte of a read and its completion message.
        read_completion: Nanos = "Read completion overhead" or Nanos::ZERO;
        /// Between the end of a write and its completion message.
        write_completion: Nanos = "Write completion overhead" or Nanos::ZERO;
        /// Additional processing before data goes over the bus. Part of `interface.overhead.read_hit` and `.reconnect`.
        data_preparation: Nanos = "Data preparation overhead" or Nanos::ZERO;
        /// To take the bus again for the first time in a request: for data. Part of `interface.overhead.reconnect` and
        /// `.write_data`.
        first_reselect: Nanos = "First reselect overhead" or Nanos::ZERO;
        /// To take the bus again after that: for the status of a write. Part of `interface.overhead.completion_write`.
        other_reselect: Nanos = "Other reselect overhead" or Nanos::ZERO;
        /// To give up the bus for a read that needs the medium, where a read came before. Part of
        /// `interface.overhead.read_miss`.
        read_disconnect_after_read: Nanos = "Read disconnect afterread" or Nanos::ZERO;
        /// The same, where a write came before.
        read_disconnect_after_write: Nanos = "Read disconnect afterwrite" or Nanos::ZERO;
        /// To give up the bus for a write. Part of `interface.overhead.write_data`.
        write_disconnect: Nanos = "Write disconnect overhead" or Nanos::ZERO;
        /// Writes that come after a write which they do not continue give up the bus once more. (Of the HP C2247A's 4,884
        /// writes it was exactly these.)
        extra_write_disconnect: bool = "Extra write disconnect" or false;
        /// Command processing of such a write.
        extra_command: Nanos = "Extradisc command overhead" or Nanos::ZERO;
        /// To give up the bus for the first time.
        extra_disconnect: Nanos = "Extradisc disconnect overhead" or Nanos::ZERO;
        /// From there until the bus is taken again.
        extra_delay: Nanos = "Extradisc inter-disconnect delay" or Nanos::ZERO;
        /// To give up the bus for the second time.
        extra_second_disconnect: Nanos = "Extradisc 2nd disconnect overhead" or Nanos::ZERO;
        /// From the end of its command processing until the seek of such a write begins.
        extra_seek_delta: Nanos = "Extradisc seek delta" or Nanos::ZERO;
        /// From a request's arrival until its seek begins, while command processing goes on beside it. Of a read not
        /// earlier than the bus is given up. Becomes `interface.overhead.read_miss` and `.write_miss`.
        minimum_seek_delay: Nanos = "Minimum seek delay" or Nanos::ZERO;
    }
    unmodelled {
        /// A read whose first sector is being read ahead counts as a hit.
        "Allow almost read hits" = 0.0 | 1.0 else "such a read joins the running read-ahead";
        /// The same as "Allow sneaky full read hits", for a read that the buffer holds in part.
        "Allow sneaky partial read hits" = 0.0 else "a read that needs the medium waits its turn";
        /// The same, while the medium is between two parts of another request.
        "Allow sneaky intermediate read hits" = 0.0 else "a read that needs the medium waits its turn";
        /// Data of a waiting write may come before the command ahead of it is over.
        "Allow write prebuffering" = 0.0 else "with the write cache off, a write's data comes when the write has its turn";
        /// The arm may set out for the next command while the one before it still sends its data: 0 no, 1 yes, 2 to it
        /// and on to its sector.
        "Preseeking level" = 0.0 else "the arm sets out as soon as the medium has done its part of the command before";
        /// A read goes straight into a segment that the request before it has not left yet.
        "Read directly to buffer" = 1.0 else "what is read goes into its segment at once";
        /// A write begins with whichever of its sectors passes first.
        "Immediate buffer write" = 0.0 else "a write begins with its first sector";
        /// A write gives up the bus when the arm has to move.
        "Disconnect write if seek" = 0.0 else "the link is free for others whenever no data moves";
    }
    without_effect {
        /// DiskSim's output.
        "Print stats";
        /// A guess for schedulers that map addresses to cylinders; ours know them.
        "Avg sectors per cylinder";
        /// Transfers are computed sector by sector: here always.
        "Calc sector by sector";
        /// Read-ahead may be cut within a sector: here it is cut at the end of one, at most a sector's time later.
        "Stop prefetch in sector";
    }
}

block! {
    /// The order of waiting commands.
    QueueFields = "disksim_ioqueue" {
        /// The number of the policy, 1 to 27. Becomes `queue.policy`.
        policy: u32 = "Scheduling policy" or 1;
        /// How cylinders are guessed from addresses; 5 and 6: not at all. Here policies know cylinders.
        cylinder_mapping: u32 = "Cylinder mapping strategy" or 0;
        /// Requests that waited too long: 0 no such rule, 1 at half time, 2 in full.
        timeout_scheme: u32 = "Scheduling timeout scheme" or 0;
        /// When that is the case, in seconds; of aged policies, the weight of age.
        timeout: f64 = "Timeout time/weight" or 0.0;
        /// The policy among those that waited too long.
        timeout_policy: u32 = "Timeout scheduling" or 1;
        /// Whether requests that somebody waits for go first.
        priority_scheme: u32 = "Scheduling priority scheme" or 0;
        /// The policy among those.
        priority_policy: u32 = "Priority scheduling" or 1;
        /// Bit field: requests in sequence are scheduled together. 0: none.
        sequential_scheme: u32 = "Sequential stream scheme" or 0;
        /// Sectors put together at most.
        concat_max: u32 = "Maximum concat size" or 0;
        /// How far apart requests in sequence may lie.
        sequential_gap_max: u32 = "Sequential stream diff maximum" or 0;
    }
    unmodelled {
        /// Processing before a write is started, for queues in a controller.
        "Write initiation delay" = 0.0 else "no such delay; interface.overhead has all of the processing";
        /// The same for a read.
        "Read initiation delay" = 0.0 else "no such delay; interface.overhead has all of the processing";
        /// Overlapping requests are taken as one.
        "Overlapping request scheme" = 0.0 else "each command is served by itself";
    }
}

block! {
    /// The medium and the mechanism.
    ModelFields = "dm_disk" {
        /// Becomes `geometry.heads`.
        surfaces: u32 = "Number of data surfaces";
        /// Must be what the zones say.
        cylinders: u32 = "Number of cylinders";
        /// Addressable sectors. Becomes `geometry.sectors`.
        block_count: u64 = "Block count";
        /// A block `dm_layout_g1`.
        layout: Value = "Layout Model";
        /// A block `dm_mech_g1`.
        mechanics: Value = "Mechanical Model";
    }
}

block! {
    /// Where sectors lie.
    LayoutFields = "dm_layout_g1" {
        /// 0: all heads of a cylinder, then the next. 1: the order of heads turns at each cylinder of a zone. 2: the same,
        /// counted from the first cylinder of the drive. Becomes `geometry.layout`.
        mapping: u32 = "LBN-to-PBN mapping scheme" or 0;
        /// What spares are counted for, and where they lie. Becomes `spares_per`; see `geometry.rs`.
        sparing: u32 = "Sparing scheme used" or 0;
        /// Cylinders that share spares, for sparing scheme 8. Becomes `spares_range`.
        range: u32 = "Rangesize for sparing" or 1;
        /// Blocks `dm_layout_g1_zone`.
        zones: Vec<Value> = "Zones";
    }
}

block! {
    /// Cylinders with equally many sectors on a track.
    ZoneFields = "dm_layout_g1_zone" {
        /// Becomes `first_cylinder`.
        first: u32 = "First cylinder number";
        /// With the first one, becomes `cylinders`.
        last: u32 = "Last cylinder number";
        /// Becomes `sectors_per_track`.
        track: u32 = "Blocks per track";
        /// Angle of the zone's first sector, in sectors. Becomes `offset`.
        offset: f64 = "Offset of first block" or 0.0;
        /// Sectors at the zone's start that carry no address. Becomes `reserved_front`.
        reserved: u64 = "Empty space at zone front" or 0;
        /// In sectors. Becomes `track_skew`.
        track_skew: f64 = "Skew for track switch";
        /// In sectors. Becomes `cylinder_skew`.
        cylinder_skew: f64 = "Skew for cylinder switch";
        /// Sectors, or tracks with sparing scheme 1. Becomes `spares`.
        spares: u32 = "Number of spares" or 0;
        /// Sectors that the numbering passes over, from the zone's start; tracks with sparing scheme 1. Becomes `slips`.
        slips: Vec<u64> = "slips" or Vec::new();
        /// Sectors replaced by others, from the zone's start, in pairs of bad and good; tracks with sparing scheme 1.
        /// Becomes `remaps`.
        defects: Vec<Value> = "defects" or Vec::new();
    }
}

block! {
    /// How the arm and the platters move.
    MechanicsFields = "dm_mech_g1" {
        /// Only `trackSwitchPlusRotation`, which is the truth, can be had.
        access: Word = "Access time type";
        /// `extracted`, `hpl`, `hplplus10`, `curve`, `linear` or `constant`. Says which of the following count.
        seek: Word = "Seek type";
        /// Of `linear` and `curve`: to the neighbouring cylinder.
        single: Option<Nanos> = "Single cylinder seek time" or None;
        /// Of `curve`: mean over all pairs of cylinders. Of `constant`: over any distance.
        average: Option<Nanos> = "Average seek time" or None;
        /// Of `linear` and `curve`: from the first cylinder to the last.
        full: Option<Nanos> = "Full strobe seek time" or None;
        /// Of `extracted`: the file with the measured times.
        curve: Option<Word> = "Full seek curve" or None;
        /// Of `hpl` and `hplplus10`: the first distance of the linear piece, constant and factor of the root piece and of
        /// the linear one, and the time over a single cylinder, or -1.
        equation: Option<Vec<f64>> = "HPL seek equation values" or None;
        /// Of `hplplus10`: times over 1 to 10 cylinders.
        first_ten: Option<Vec<Nanos>> = "First ten seek times" or None;
        /// Added before a write; may be negative. Becomes `servo.write_settle`.
        write_settle: SignedNanos = "Add. write settling delay" or SignedNanos(0);
        /// Becomes `servo.head_switch`.
        head_switch: Nanos = "Head switch time";
        /// Becomes `servo.rpm`.
        rpm: f64 = "Rotation speed (in rpms)";
    }
    unmodelled {
        /// How far the true speed may be off.
        "Percent error in rpms" = 0.0 else "the speed is exactly that of Rotation speed (in rpms)";
    }
}

block! {
    /// A bus.
    BusFields = "disksim_bus" {
        /// 1: one transfer at a time. 2: as many as there are.
        sharing: u32 = "type" or 1;
        /// What it takes to get hold of the bus.
        arbitration: Nanos = "Arbitration time" or Nanos::ZERO;
        /// A block of 512 bytes on its way to the host.
        read_block: Nanos = "Read block transfer time" or Nanos::ZERO;
        /// A block of 512 bytes on its way to the drive.
        write_block: Nanos = "Write block transfer time" or Nanos::ZERO;
    }
    without_effect {
        /// Who gets the bus of several: 1 by place, 2 by time. Here one drive is alone on it.
        "Arbitration type";
        /// DiskSim's output.
        "Print stats";
    }
}

block! {
    /// A controller between host and drive.
    ControllerFields = "disksim_ctlr" {
        /// 1: passes commands on; 2: the same, with an own view of them; 3: queues and caches.
        kind: u32 = "type" or 1;
        /// Its own processing times are multiplied by it; 0: it takes no time.
        scale: f64 = "Scale for delays" or 0.0;
        /// What a block of 512 bytes takes through the controller.
        bulk_sector: Nanos = "Bulk sector transfer time" or Nanos::ZERO;
        /// Its queue and cache, of kinds 2 and 3.
        scheduler: Option<Value> = "Scheduler" or None;
        /// Its cache, of kind 3.
        cache: Option<Value> = "Cache" or None;
    }
    without_effect {
        /// Commands in the controller at once: the host's bounds are those of the replay.
        "Maximum queue length";
        /// The same, for each drive.
        "Max per-disk pending count";
        /// DiskSim's output.
        "Print stats";
    }
}
