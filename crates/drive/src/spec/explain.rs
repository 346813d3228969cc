//! Explanations of all keys of a drive: the text of `drive show --explain`, and the list of keys accepted by `--set`.

/// Explanation of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Path of the key; `*` stands for the number of a zone.
    pub key: &'static str,
    /// Accepted values.
    pub values: &'static str,
    /// Meaning.
    pub meaning: &'static str,
}

impl Explanation {
    /// Returns whether this entry explains `key`: the same path, with any zone number for `*`, or a key in this table.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        let mut parts = key.split('.');
        let same = self.key.split('.').all(|own| {
            parts
                .next()
                .is_some_and(|part| own == part || own == "*" && part.bytes().all(|b| b.is_ascii_digit()))
        });
        same && (parts.next().is_none() || self.values.starts_with("table as"))
    }
}

impl Explanation {
    /// Returns the accepted values as a noun phrase with an example: `a duration such as 1.5ms`.
    #[must_use]
    pub fn expected(&self) -> String {
        let (kind, rest) = self.values.split_once(", 0:").unwrap_or((self.values, ""));
        let rest = if rest.is_empty() { String::new() } else { format!(", or 0:{rest}") };
        let number = |unit: &str, example: &str| format!("a number of {unit}, such as {example}");
        let expected = match kind {
            "text" => "a text, such as \"My drive\"".to_owned(),
            "size" => "a size, such as 256KiB".to_owned(),
            "bytes per second" => "bytes per second, such as 150MB".to_owned(),
            "duration" => "a duration, such as 1.5ms".to_owned(),
            "duration, may be negative" => "a duration, such as 0.3ms or -0.1ms".to_owned(),
            "count" => "a number, such as 16".to_owned(),
            "cylinder" => "a number, such as 1000".to_owned(),
            "cylinders" => number("cylinders", "600"),
            "sectors" => number("sectors", "40"),
            "true, false" => "true or false".to_owned(),
            "list of drives" => "a list of numbers, such as [1]".to_owned(),
            "list of sectors" => "a list of sectors, such as [100, 205]".to_owned(),
            "list of [from, to]" => "a list of [from, to], such as [[100, 90000]]".to_owned(),
            "list of durations" => "a list of durations, such as [\"1ms\", \"1.2ms\"]".to_owned(),
            "list of [cylinders, duration]" => {
                "a list of [cylinders, duration], such as [[1, \"1ms\"], [1000, \"9ms\"]]".to_owned()
            }
            table if table.starts_with("table") => {
                "a table, such as { curve = \"datasheet\", track_to_track = \"1ms\", average = \"8ms\", \
                 full_stroke = \"15ms\" }"
                    .to_owned()
            }
            size if size.ends_with("iB") => format!("a size, {size}"),
            range if range.starts_with(|first: char| first.is_ascii_digit()) => format!("a number, {range}"),
            names => format!("one of {names}"),
        };
        expected + &rest
    }
}

macro_rules! keys {
    ($($key:literal, $values:literal, $meaning:literal;)*) => {
        &[$(Explanation { key: $key, values: $values, meaning: $meaning }),*]
    };
}

/// Returns the explanations of all keys, in the order of the drive's file.
#[must_use]
pub fn explain() -> &'static [Explanation] {
    EXPLANATIONS
}

const EXPLANATIONS: &[Explanation] = keys! {
    "name", "text", "Manufacturer and model.";
    "geometry.sector", "256 B to 4 KiB", "Sector size. Unaligned requests of a trace are widened to whole sectors.";
    "geometry.physical_sector", "512 B to 64 KiB", "Size of a sector on the medium, if it is larger than `sector` (512e). A write that covers one partly reads it first and writes it a revolution later, unless the buffer holds the rest. Default: `sector`.";
    "geometry.heads", "1 to 256", "Number of recording surfaces.";
    "geometry.layout", "cylinder, zigzag, serpentine", "Order of tracks: all heads of a cylinder, always from head 0; all heads of a cylinder, in alternating order; or all cylinders of a zone under one head, then back under the next head.";
    "geometry.sectors", "count", "Number of addressable sectors, if the drive offers fewer than its zones hold.";
    "geometry.zones.*.first_cylinder", "cylinder", "First cylinder of the zone. Default: the cylinder after the previous zone.";
    "geometry.zones.*.cylinders", "count", "Number of cylinders in the zone.";
    "geometry.zones.*.sectors_per_track", "count", "Number of physical sectors on a track. It determines the zone's transfer rate.";
    "geometry.zones.*.track_skew", "sectors", "Angle between the first sectors of successive tracks of a cylinder. Default: the sectors that pass during a head switch and `write_settle`. Too small a skew costs a revolution, too large a skew reduces the sustained rate.";
    "geometry.zones.*.cylinder_skew", "sectors", "Angle from the first sector of a cylinder's last track to that of the next cylinder's first track. Default: the sectors that pass during a single-cylinder seek, a head switch and `write_settle`.";
    "geometry.zones.*.offset", "sectors", "Angle of the zone's first sector.";
    "geometry.zones.*.reserved_front", "sectors", "Number of sectors without addresses at the start of the zone, which hold the drive's own data.";
    "geometry.zones.*.spares", "count", "Number of spare sectors in each unit of `spares_per`.";
    "geometry.zones.*.spares_per", "zone, cylinder, track", "Unit that has the spare sectors at its end.";
    "geometry.zones.*.spares_range", "count", "Number of successive cylinders that share their spare sectors, with `spares_per` = cylinder.";
    "geometry.zones.*.slips", "list of sectors", "Defective sectors that the numbering skips, counted from the start of the zone.";
    "geometry.zones.*.remaps", "list of [from, to]", "Defective sectors that are replaced by a spare sector of the zone, which is accessed separately.";
    "servo.rpm", "100 to 100000", "Spindle speed in revolutions per minute.";
    "servo.head_switch", "duration", "Time to switch to another head of the cylinder, including settling.";
    "servo.write_settle", "duration, may be negative", "Additional settle time of a write, when it begins and when it continues on another track.";
    "servo.lost_turns", "0 to 1", "Share of seeks after which the head is not yet on track, so that the access takes one more revolution. These seeks are evenly spread and always the same ones.";
    "servo.seek", "table of the keys below", "Seek curve. All keys of a curve change together.";
    "servo.seek.curve", "datasheet, two_piece, table", "Kind of seek curve.";
    "servo.seek.track_to_track", "duration", "Datasheet curve: seek time to the adjacent cylinder.";
    "servo.seek.average", "duration", "Datasheet curve: mean seek time over all pairs of cylinders.";
    "servo.seek.full_stroke", "duration", "Datasheet curve: seek time from the first cylinder to the last.";
    "servo.seek.threshold", "cylinders", "Two-piece curve: first distance of the linear piece.";
    "servo.seek.short_base", "duration", "Two-piece curve: constant of the square-root piece.";
    "servo.seek.short_per_root", "duration", "Two-piece curve: factor of the square root of the distance.";
    "servo.seek.long_base", "duration", "Two-piece curve: constant of the linear piece.";
    "servo.seek.long_per_cylinder", "duration", "Two-piece curve: factor of the distance.";
    "servo.seek.first", "list of durations", "Two-piece curve: measured times of the shortest distances, from one cylinder on. They replace the curve.";
    "servo.seek.points", "list of [cylinders, duration]", "Measured curve: seek times, linear between the points. A distance of 0 is a new access without a seek.";
    "servo.seek_write", "table as servo.seek", "Seek curve of writes, if it was measured separately.";
    "queue.depth", "1 to 256", "Number of commands that the drive accepts at a time. Further commands wait in the host.";
    "queue.policy", "fcfs, sstf, look, c_look, sptf", "Policy that chooses the next command whenever one completes. Drive makers call SPTF rotational position ordering (RPO).";
    "queue.age_weight", "0 to 1000", "SPTF: factor of a command's waiting time that is deducted from its positioning time (aged SPTF).";
    "queue.age_limit", "duration, 0: none", "Waiting time after which a command is served first, under any policy.";
    "queue.window", "count", "Number of the oldest commands among which the policy chooses. Cheap drives do not consider their whole queue.";
    "queue.rpo_margin", "duration", "SPTF: a command or dirty range whose rotational latency is shorter than this is assumed to miss its sector.";
    "queue.read_preference", "duration", "Advantage of a read over a write, in the policy's own measure of time.";
    "cache.size", "size", "Size of the whole buffer.";
    "cache.segments.mode", "fixed, adaptive", "Size of segments: equal parts of the buffer, or as large as each read needs.";
    "cache.segments.count", "1 to 65536", "Number of segments; the maximum number with `adaptive`.";
    "cache.segments.replacement", "lru, fifo, consumed_first, least_recently_sequential", "Policy that chooses the segment to evict.";
    "cache.segments.consumed", "keep, overwrite, discard", "Fate of sectors that the host has read: those of the last request stay, and read-ahead uses only the rest of the segment; all stay until read-ahead needs their space; or all are discarded at once, so that reading them again is a miss.";
    "cache.read_ahead.mode", "off, track_end, next_track, cylinder_end, fixed, segment", "End of read-ahead, at most `max` after the request. `next_track` is the end of the track after that of the request.";
    "cache.read_ahead.min", "size", "Amount of read-ahead that completes before a waiting command gets the arm.";
    "cache.read_ahead.max", "size", "Maximum amount of read-ahead after the request.";
    "cache.read_ahead.idle_only", "true, false", "Whether read-ahead starts only while no command waits. `min` is then ignored.";
    "cache.read_ahead.after_sequential", "count, 0: always", "Number of sequential commands after which read-ahead starts.";
    "cache.read_ahead.on_arrival", "true, false", "Whether the drive reads the track from where the head settles: sectors before the request are kept, and a request that is already passing is read from its middle.";
    "cache.read_ahead.resume_on_hit", "true, false", "Whether a hit resumes the read-ahead of its segment if the arm is idle.";
    "cache.write.enabled", "true, false", "Whether writes are acknowledged from the cache. FUA writes never are.";
    "cache.write.share", "shared, separate", "Whether dirty data takes space from reads, or has `limit` to itself.";
    "cache.write.limit", "size", "Maximum amount of dirty data. A write that does not fit waits.";
    "cache.write.high_watermark", "0 to 1", "Share of `limit` at which destaging begins.";
    "cache.write.low_watermark", "0 to 1", "Share of `limit` at which destaging ends.";
    "cache.write.idle_delay", "duration, 0: never", "Idle time of the drive after which dirty data is destaged.";
    "cache.write.max_age", "duration, 0: never", "Age at which dirty data is destaged before other commands.";
    "cache.write.window", "1 to 65536", "Number of the oldest dirty ranges among which the nearest one is destaged. The oldest range is passed over at most this many times.";
    "cache.write.coalesce", "true, false", "Whether adjacent and overlapping dirty ranges are merged.";
    "cache.write.destage_max", "size", "Maximum amount that is destaged in one access.";
    "cache.write.on_cached", "invalidate, update", "Effect of a write on cached reads of its sectors.";
    "cache.write.keep", "true, false", "Whether written data stays readable from the cache after it was destaged.";
    "cache.near_window", "size", "Maximum distance after cached data at which a miss is a near miss. Default: the size of one of `count` equal segments, the longest read-ahead that the buffer could hold.";
    "cache.ghosts", "count", "Number of evicted ranges that are remembered, to tell purged misses from pure ones.";
    "interface.link_rate", "bytes per second", "Transfer rate of the link.";
    "interface.link_rate_write", "bytes per second", "Transfer rate from the host to the drive. Default: `link_rate`.";
    "interface.overlap", "true, false", "Whether data is sent to the host while the rest is still read from the medium.";
    "interface.read_watermark", "0 to 1", "With `overlap`: share of the missing sectors that must have been read from the medium before data is sent.";
    "interface.immediate_partial", "true, false", "Whether the cached part of a partial hit is sent to the host at once.";
    "interface.overhead.read_hit", "duration", "Command processing of a read from the cache.";
    "interface.overhead.read_hit.after_read", "duration", "The same time, if the previous command was not a write.";
    "interface.overhead.read_hit.after_write", "duration", "The same time, if the previous command was a write.";
    "interface.overhead.read_hit.in_sequence", "duration", "The same time, if the previous command was of the same kind and ended where this one begins. Default: no exception.";
    "interface.overhead.read_miss", "duration", "Command processing of a read from the medium.";
    "interface.overhead.read_miss.after_read", "duration", "The same time, if the previous command was not a write.";
    "interface.overhead.read_miss.after_write", "duration", "The same time, if the previous command was a write.";
    "interface.overhead.read_miss.in_sequence", "duration", "The same time, if the previous command was of the same kind and ended where this one begins. Default: no exception.";
    "interface.overhead.write_hit", "duration", "Command processing of a write into the cache.";
    "interface.overhead.write_hit.after_read", "duration", "The same time, if the previous command was not a write.";
    "interface.overhead.write_hit.after_write", "duration", "The same time, if the previous command was a write.";
    "interface.overhead.write_hit.in_sequence", "duration", "The same time, if the previous command was of the same kind and ended where this one begins. Default: no exception.";
    "interface.overhead.write_miss", "duration", "Command processing of a write to the medium, until the arm may move.";
    "interface.overhead.write_miss.after_read", "duration", "The same time, if the previous command was not a write.";
    "interface.overhead.write_miss.after_write", "duration", "The same time, if the previous command was a write.";
    "interface.overhead.write_miss.in_sequence", "duration", "The same time, if the previous command was of the same kind and ended where this one begins. Default: no exception.";
    "interface.overhead.write_data", "duration", "Command processing of a write to the medium, until its data is requested. Default: `write_miss`.";
    "interface.overhead.write_data.after_read", "duration", "The same time, if the previous command was not a write.";
    "interface.overhead.write_data.after_write", "duration", "The same time, if the previous command was a write.";
    "interface.overhead.write_data.in_sequence", "duration", "The same time, if the previous command was of the same kind and ended where this one begins. Default: no exception.";
    "interface.overhead.control", "duration", "Command processing of flush and discard.";
    "interface.overhead.control.after_read", "duration", "The same time, if the previous command was not a write.";
    "interface.overhead.control.after_write", "duration", "The same time, if the previous command was a write.";
    "interface.overhead.reconnect", "duration", "Time to reacquire the link for data that a read waited for (reselection).";
    "interface.overhead.completion", "duration", "Time after the last byte of any command.";
    "interface.overhead.completion_write", "duration", "Time after the last byte of a write to the medium. Default: `completion`.";
    "smr.band", "size", "Shingled tracks: consecutive bytes that can be rewritten only together.";
    "smr.media_cache", "size", "Shingled tracks: log at the end of the drive that takes all writes. While it is exhausted, bands are read and rewritten before each further write.";
    "smr.idle_delay", "duration, 0: never", "Shingled tracks: idle time after which bands are cleaned from the media cache.";
    "array.level", "raid0, raid1, raid5, raid6, raid10", "Array of such drives: striped, mirrored, with one or two rotating parity chunks per row, or striped over mirrored pairs.";
    "array.members", "2 to 64", "Number of drives of the array.";
    "array.chunk", "size", "Consecutive bytes on one drive of the array.";
    "array.failed", "list of drives", "Drives of the array that have failed, by number from 0.";
    "array.rebuild", "bytes per second, 0: never", "Rate at which each failed drive is rebuilt on a spare, as far as the drives allow.";
};
