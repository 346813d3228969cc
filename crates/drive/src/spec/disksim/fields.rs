//! Fields of DiskSim's blocks: each is declared once, with its meaning (manual CMU-PDL-08-101) and its translation.
//!
//! A field is read into a struct, or it is *not modeled*: some values describe what this simulator does anyway, and
//! any other causes a warning; or it has *no effect* on timing. Fields that the manual requires may be omitted if they
//! have an obvious default.

use std::fmt::Display;

use sakiyomi_model::Nanos;
use sakiyomi_model::suggest::similar;

use super::syntax::{Block, Fault, Field, Value, Word};
use crate::spec::SignedNanos;

/// Value of a field, with its position.
#[derive(Clone, Debug)]
pub(super) struct FieldValue<T> {
    /// Name of the field.
    pub(super) key: &'static str,
    /// Value.
    pub(super) value: T,
    /// Line of the field, or of its block if it was omitted.
    pub(super) line: u32,
}

impl<T> FieldValue<T> {
    /// Creates a fault about this field.
    pub(super) fn fault(&self, problem: impl Display) -> Fault {
        Fault::new(self.line, format!("{}: {problem}", self.key))
    }
}

impl<T: Display> FieldValue<T> {
    /// Creates a warning `key = value: instead`.
    pub(super) fn warning(&self, instead: impl Display) -> String {
        format!("{} = {}: {instead}", self.key, self.value)
    }
}

/// A type that the value of a field can have.
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

/// A maximum; -1 in the file stands for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AtMost(pub(super) Option<u32>);

impl Display for AtMost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(most) => most.fmt(f),
            None => f.write_str("-1"),
        }
    }
}

impl Kind for AtMost {
    fn read(value: &Value) -> Result<AtMost, Fault> {
        let whole = |number: f64| number.fract() == 0.0 && (-1.0..=f64::from(u32::MAX)).contains(&number);
        let number = number(value, "a whole number from 0 to 4294967295, or -1 for no limit", whole)?;
        Ok(AtMost((number >= 0.0).then_some(number as u32)))
    }
}

impl Kind for bool {
    fn read(value: &Value) -> Result<bool, Fault> {
        number(value, "0 or 1", |number| number == 0.0 || number == 1.0).map(|number| number == 1.0)
    }
}

/// Maximum time; longer times indicate a wrong unit.
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

/// Converts from milliseconds, the unit of DiskSim's times.
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

/// Reads the fields of one block, and reports the ones that are not declared.
struct Reader<'a> {
    block: &'a Block,
    warnings: &'a mut Vec<String>,
    asked: Vec<&'static str>,
}

impl<'a> Reader<'a> {
    /// Checks that the block has the given kind and no duplicate fields.
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

    fn field<T: Kind>(&mut self, key: &'static str, default: Option<T>) -> Result<FieldValue<T>, Fault> {
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
        Ok(FieldValue { key, value, line })
    }

    /// Reads a field that is not modeled; warns unless its value is one of `neutral`.
    fn unmodelled(&mut self, key: &'static str, neutral: &[f64], instead: &str) -> Result<(), Fault> {
        let given = self.field::<f64>(key, neutral.first().copied())?;
        if !neutral.contains(&given.value) {
            self.warnings.push(given.warning(instead));
        }
        Ok(())
    }

    /// Checks that every field of the block is declared.
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

/// Declares a block's fields as a struct with a function that reads it.
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
            $($(#[$field_doc])* pub(super) $field: FieldValue<$type>,)*
        }

        impl $name {
            /// Reads the block; adds warnings about values that are not modeled.
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
    /// A drive's controller and buffer.
    DiskFields = "disksim_disk" {
        /// Medium and mechanism: a `dm_disk` block, or `source FILE`.
        model: Value = "Model";

        /// Processing time at the start of every request, in addition to the overheads below.
        per_request_overhead: Nanos = "Per-request overhead time" or Nanos::ZERO;
        /// Factor of all overheads.
        overhead_scale: f64 = "Time scale for overheads" or 1.0;
        /// Transfer time of 512 bytes on the bus; the slowest of drive, bus and controller applies.
        bulk_sector: Nanos = "Bulk sector transfer time" or Nanos::ZERO;
        /// Hold the bus from the first byte of a read to the last, instead of disconnecting while waiting for the
        /// medium.
        hold_bus_read: bool = "Hold bus entire read xfer" or false;
        /// Hold the bus during a whole write.
        hold_bus_write: bool = "Hold bus entire write xfer" or false;
        /// Hold the bus from the command to its completion.
        never_disconnect: bool = "Never disconnect" or false;

        /// Serve a full read hit ahead of the command that uses the mechanism.
        sneaky_full_hits: bool = "Allow sneaky full read hits" or false;
        /// Allow read hits on written data. Becomes `cache.write.keep`.
        hits_on_written: bool = "Allow read hits on write data" or false;

        /// Maximum number of commands in the drive. Becomes `queue.depth`.
        queue_length: AtMost = "Max queue length" or AtMost(Some(1));
        /// Scheduling of waiting commands: a block `disksim_ioqueue`.
        scheduler: Value = "Scheduler";

        /// Number of buffer segments. Becomes `cache.segments.count`, without the segment for writes.
        segments: u32 = "Number of buffer segments" or 1;
        /// Number of segments that may hold written data. Becomes `cache.write.limit`.
        write_segments: AtMost = "Maximum number of write segments" or AtMost(Some(1));
        /// Sectors per segment. Times their number, becomes `cache.size`.
        segment_sectors: u32 = "Segment size (in blks)";
        /// Reserve one segment for written data. Becomes `cache.write.share`.
        separate_write_segment: bool = "Use separate write segment" or false;
        /// Share of a write below which remaining data is requested over the bus again. Here a write's data always
        /// arrives in one transfer.
        low_watermark: f64 = "Low (write) water mark" or 0.0;
        /// Share of a read that must have come from the medium before the bus is requested. Becomes
        /// `interface.read_watermark`.
        high_watermark: f64 = "High (read) water mark" or 0.0;
        /// Watermarks are shares of the request, not of the segment.
        watermark_by_request: bool = "Set watermark by reqsize" or true;
        /// Retention of data in the buffer for later commands: 0 no, 1 yes, 2 until the host has read it. 2 becomes
        /// `cache.segments.consumed` = discard.
        caching: u32 = "Enable caching in buffer" or 1;
        /// Extent of read-ahead: 0 none, 1 to the end of the track, 2 of the cylinder, 3 until the segment is full, 4
        /// to the end of the next track. Becomes `cache.read_ahead.mode`.
        continuous_read: u32 = "Buffer continuous read" or 0;
        /// Minimum read-ahead in sectors before another command gets the arm. Becomes `cache.read_ahead.min`.
        read_ahead_min: u32 = "Minimum read-ahead (blks)" or 0;
        /// Maximum read-ahead in sectors. Becomes `cache.read_ahead.max`.
        read_ahead_max: AtMost = "Maximum read-ahead (blks)" or AtMost(Some(0));
        /// Read-ahead may overwrite the requested sectors (`cache.segments.consumed` = discard). Otherwise they stay (=
        /// keep), and adaptive read-ahead (4) starts after a second sequential read.
        over_requested: bool = "Read-ahead over requested" or true;
        /// A hit on an idle drive resumes read-ahead. Becomes `cache.read_ahead.resume_on_hit`.
        read_ahead_on_idle_hit: bool = "Read-ahead on idle hit" or false;
        /// Keep sectors that pass under the head before the request. Becomes `cache.read_ahead.on_arrival`.
        read_any_free: bool = "Read any free blocks" or false;
        /// Begin a read with whichever of its sectors passes first. Becomes `cache.read_ahead.on_arrival`.
        immediate_read: bool = "Immediate buffer read" or false;
        /// Writes acknowledged from the buffer: 0 none, 1 those that continue the previous write, 2 all. Becomes
        /// `cache.write.enabled`.
        fast_write: u32 = "Fast write level" or 0;
        /// Merge sequential writes. Becomes `cache.write.coalesce`.
        combine_writes: bool = "Combine seq writes" or false;
        /// Stop read-ahead when a write enters the buffer.
        write_hit_stops_read_ahead: bool = "Write hit stop prefetch" or false;
        /// Send the cached part of a partial hit to the host at once. Becomes `interface.immediate_partial`.
        immediate_partial: bool = "Immed transfer partial hit" or true;

        /// Command processing of a read hit after a read.
        read_hit_after_read: Nanos = "Read hit over. after read" or Nanos::ZERO;
        /// Command processing of a read hit after a write.
        read_hit_after_write: Nanos = "Read hit over. after write" or Nanos::ZERO;
        /// Command processing of a read miss after a read.
        read_miss_after_read: Nanos = "Read miss over. after read" or Nanos::ZERO;
        /// Command processing of a read miss after a write.
        read_miss_after_write: Nanos = "Read miss over. after write" or Nanos::ZERO;
        /// Command processing of a write into a segment, after a read.
        write_hit_after_read: Nanos = "Write hit over. after read" or Nanos::ZERO;
        /// Command processing of a write into a segment, after a write.
        write_hit_after_write: Nanos = "Write hit over. after write" or Nanos::ZERO;
        /// Command processing of any other write, after a read.
        write_miss_after_read: Nanos = "Write miss over. after read" or Nanos::ZERO;
        /// Command processing of any other write, after a write.
        write_miss_after_write: Nanos = "Write miss over. after write" or Nanos::ZERO;
        /// Time between the last byte of a read and its completion message.
        read_completion: Nanos = "Read completion overhead" or Nanos::ZERO;
        /// Time between the end of a write and its completion message.
        write_completion: Nanos = "Write completion overhead" or Nanos::ZERO;
        /// Additional processing before data is sent over the bus. Part of `interface.overhead.read_hit` and
        /// `.reconnect`.
        data_preparation: Nanos = "Data preparation overhead" or Nanos::ZERO;
        /// First reselection of a request, for data. Part of `interface.overhead.reconnect` and `.write_data`.
        first_reselect: Nanos = "First reselect overhead" or Nanos::ZERO;
        /// Later reselections, for the status of a write. Part of `interface.overhead.completion_write`.
        other_reselect: Nanos = "Other reselect overhead" or Nanos::ZERO;
        /// Disconnection of a read miss after a read. Part of `interface.overhead.read_miss`.
        read_disconnect_after_read: Nanos = "Read disconnect afterread" or Nanos::ZERO;
        /// Disconnection of a read miss after a write.
        read_disconnect_after_write: Nanos = "Read disconnect afterwrite" or Nanos::ZERO;
        /// Disconnection of a write. Part of `interface.overhead.write_data`.
        write_disconnect: Nanos = "Write disconnect overhead" or Nanos::ZERO;
        /// Disconnect once more during a write that follows a write which it does not continue. (In the trace of the HP
        /// C2247A these are exactly the writes that do, of 4,884.)
        extra_write_disconnect: bool = "Extra write disconnect" or false;
        /// Command processing of such a write.
        extra_command: Nanos = "Extradisc command overhead" or Nanos::ZERO;
        /// First disconnection of such a write.
        extra_disconnect: Nanos = "Extradisc disconnect overhead" or Nanos::ZERO;
        /// Time from there until the reselection.
        extra_delay: Nanos = "Extradisc inter-disconnect delay" or Nanos::ZERO;
        /// Second disconnection of such a write.
        extra_second_disconnect: Nanos = "Extradisc 2nd disconnect overhead" or Nanos::ZERO;
        /// Time from the end of its command processing until its seek begins.
        extra_seek_delta: Nanos = "Extradisc seek delta" or Nanos::ZERO;
        /// Time from a request's arrival until its seek begins, in parallel with command processing. For a read not
        /// before the disconnection. Becomes `interface.overhead.read_miss` and `.write_miss`.
        minimum_seek_delay: Nanos = "Minimum seek delay" or Nanos::ZERO;
    }
    unmodelled {
        /// Count a read whose first sector is being read ahead as a hit.
        "Allow almost read hits" = 0.0 | 1.0 else "such a read joins the running read-ahead";
        /// "Allow sneaky full read hits", for partial hits.
        "Allow sneaky partial read hits" = 0.0 else "a read that needs the medium waits in the queue";
        /// "Allow sneaky full read hits", while the medium is between two parts of another request.
        "Allow sneaky intermediate read hits" = 0.0 else "a read that needs the medium waits in the queue";
        /// Accept the data of a waiting write before the previous command has finished.
        "Allow write prebuffering" = 0.0 else "with the write cache off, the data of a write is transferred when the write is served";
        /// Move the arm for the next command while the previous one still transfers data: 0 no, 1 seek, 2 seek and
        /// rotation.
        "Preseeking level" = 0.0 else "the arm starts as soon as the media transfer of the previous command ends";
        /// Read directly into a segment that the previous request still uses.
        "Read directly to buffer" = 1.0 else "data is stored in its segment as it is read";
        /// Begin a write with whichever of its sectors passes first.
        "Immediate buffer write" = 0.0 else "a write begins with its first sector";
        /// Disconnect a write if the arm has to move.
        "Disconnect write if seek" = 0.0 else "the link is released whenever no data is transferred";
    }
    without_effect {
        /// Statistics output.
        "Print stats";
        /// Estimate for schedulers that map addresses to cylinders; here the exact mapping is known.
        "Avg sectors per cylinder";
        /// Compute transfers sector by sector, as is always done here.
        "Calc sector by sector";
        /// Stop read-ahead within a sector; here it stops at the sector's end, at most one sector time later.
        "Stop prefetch in sector";
    }
}

block! {
    /// Scheduling of waiting commands.
    QueueFields = "disksim_ioqueue" {
        /// Number of the policy, 1 to 27. Becomes `queue.policy`.
        policy: u32 = "Scheduling policy" or 1;
        /// Estimation of cylinders from addresses; 5 and 6: none. Here policies know the cylinders.
        cylinder_mapping: u32 = "Cylinder mapping strategy" or 0;
        /// Handling of requests that exceed the timeout: 0 none, 1 at half the timeout, 2 at the timeout.
        timeout_scheme: u32 = "Scheduling timeout scheme" or 0;
        /// Timeout in seconds; for aged policies, the weight of age.
        timeout: f64 = "Timeout time/weight" or 0.0;
        /// Policy among timed-out requests.
        timeout_policy: u32 = "Timeout scheduling" or 1;
        /// Whether time-critical requests go first.
        priority_scheme: u32 = "Scheduling priority scheme" or 0;
        /// Policy among time-critical requests.
        priority_policy: u32 = "Priority scheduling" or 1;
        /// Bit field: schedule sequential requests together. 0: none.
        sequential_scheme: u32 = "Sequential stream scheme" or 0;
        /// Maximum size of merged sequential requests, in sectors.
        concat_max: AtMost = "Maximum concat size" or AtMost(Some(0));
        /// Maximum distance between sequential requests.
        sequential_gap_max: AtMost = "Sequential stream diff maximum" or AtMost(Some(0));
    }
    unmodelled {
        /// Processing before a write is started, for queues in a controller.
        "Write initiation delay" = 0.0 else "no separate delay; interface.overhead includes all processing";
        /// Processing before a read is started, for queues in a controller.
        "Read initiation delay" = 0.0 else "no separate delay; interface.overhead includes all processing";
        /// Treat overlapping requests as one.
        "Overlapping request scheme" = 0.0 else "commands are served separately";
    }
}

block! {
    /// Medium and mechanism.
    ModelFields = "dm_disk" {
        /// Becomes `geometry.heads`.
        surfaces: u32 = "Number of data surfaces";
        /// Must be consistent with the zones.
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
    /// Layout of the sectors.
    LayoutFields = "dm_layout_g1" {
        /// 0: all heads of a cylinder, then the next. 1: the order of heads alternates from cylinder to cylinder of a
        /// zone. 2: as 1, counted from the first cylinder of the drive. Becomes `geometry.layout`.
        mapping: u32 = "LBN-to-PBN mapping scheme" or 0;
        /// Unit and position of spares. Becomes `spares_per`; see `geometry.rs`.
        sparing: u32 = "Sparing scheme used" or 0;
        /// Number of cylinders that share spares, for sparing scheme 8. Becomes `spares_range`.
        range: u32 = "Rangesize for sparing" or 1;
        /// Blocks `dm_layout_g1_zone`.
        zones: Vec<Value> = "Zones";
    }
}

block! {
    /// Cylinders with the same number of sectors per track.
    ZoneFields = "dm_layout_g1_zone" {
        /// Becomes `first_cylinder`.
        first: u32 = "First cylinder number";
        /// With the first cylinder, becomes `cylinders`.
        last: u32 = "Last cylinder number";
        /// Becomes `sectors_per_track`.
        track: u32 = "Blocks per track";
        /// Angle of the zone's first sector, in sectors. Becomes `offset`.
        offset: f64 = "Offset of first block" or 0.0;
        /// Reserved sectors at the zone's start, without addresses. Becomes `reserved_front`.
        reserved: u64 = "Empty space at zone front" or 0;
        /// In sectors. Becomes `track_skew`.
        track_skew: f64 = "Skew for track switch";
        /// In sectors. Becomes `cylinder_skew`.
        cylinder_skew: f64 = "Skew for cylinder switch";
        /// Sectors, or tracks with sparing scheme 1. Becomes `spares`.
        spares: u32 = "Number of spares" or 0;
        /// Sectors that the numbering skips, from the zone's start; tracks with sparing scheme 1. Becomes `slips`.
        slips: Vec<u64> = "slips" or Vec::new();
        /// Pairs of defective and replacing sectors, from the zone's start; tracks with sparing scheme 1. Becomes
        /// `remaps`.
        defects: Vec<Value> = "defects" or Vec::new();
    }
}

block! {
    /// Timing of the arm and the platters.
    MechanicsFields = "dm_mech_g1" {
        /// Only `trackSwitchPlusRotation`, the realistic one, is accepted.
        access: Word = "Access time type";
        /// `extracted`, `hpl`, `hplplus10`, `curve`, `linear` or `constant`. Determines which of the following fields
        /// apply.
        seek: Word = "Seek type";
        /// For `linear` and `curve`: single-cylinder seek time.
        single: Option<Nanos> = "Single cylinder seek time" or None;
        /// For `curve`: mean over all pairs of cylinders. For `constant`: time over any distance.
        average: Option<Nanos> = "Average seek time" or None;
        /// For `linear` and `curve`: full-stroke seek time.
        full: Option<Nanos> = "Full strobe seek time" or None;
        /// For `extracted`: file with the measured times.
        curve: Option<Word> = "Full seek curve" or None;
        /// For `hpl` and `hplplus10`: first distance of the linear piece, constant and factor of the square root piece
        /// and of the linear one, and the time over a single cylinder, or -1.
        equation: Option<Vec<f64>> = "HPL seek equation values" or None;
        /// For `hplplus10`: times over 1 to 10 cylinders.
        first_ten: Option<Vec<Nanos>> = "First ten seek times" or None;
        /// Added before a write; may be negative. Becomes `servo.write_settle`.
        write_settle: SignedNanos = "Add. write settling delay" or SignedNanos(0);
        /// Becomes `servo.head_switch`.
        head_switch: Nanos = "Head switch time";
        /// Becomes `servo.rpm`.
        rpm: f64 = "Rotation speed (in rpms)";
    }
    unmodelled {
        /// Deviation of the rotation speed in percent.
        "Percent error in rpms" = 0.0 else "the speed is exactly that of Rotation speed (in rpms)";
    }
}

block! {
    /// A bus.
    BusFields = "disksim_bus" {
        /// 1: one transfer at a time. 2: any number in parallel.
        sharing: u32 = "type" or 1;
        /// Arbitration time.
        arbitration: Nanos = "Arbitration time" or Nanos::ZERO;
        /// Transfer time of 512 bytes to the host.
        read_block: Nanos = "Read block transfer time" or Nanos::ZERO;
        /// Transfer time of 512 bytes to the drive.
        write_block: Nanos = "Write block transfer time" or Nanos::ZERO;
    }
    without_effect {
        /// Arbitration among several devices: 1 by slot, 2 by time. Here the drive is the only device.
        "Arbitration type";
        /// Statistics output.
        "Print stats";
    }
}

block! {
    /// A controller between host and drive.
    ControllerFields = "disksim_ctlr" {
        /// 1: passes commands on; 2: passes commands on, with its own view of the drives; 3: queues and caches.
        kind: u32 = "type" or 1;
        /// Factor of its processing times; 0: none.
        scale: f64 = "Scale for delays" or 0.0;
        /// Transfer time of 512 bytes through the controller.
        bulk_sector: Nanos = "Bulk sector transfer time" or Nanos::ZERO;
        /// Queue of kinds 2 and 3.
        scheduler: Option<Value> = "Scheduler" or None;
        /// Cache of kind 3.
        cache: Option<Value> = "Cache" or None;
    }
    without_effect {
        /// Maximum number of commands in the controller; the replay has limits of its own.
        "Maximum queue length";
        /// Maximum number of commands per drive.
        "Max per-disk pending count";
        /// Statistics output.
        "Print stats";
    }
}
