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
            "bytes a second" => "bytes a second, such as 150MB".to_owned(),
            "duration" => "a duration, such as 1.5ms".to_owned(),
            "duration, may be negative" => "a duration, such as 0.3ms or -0.1ms".to_owned(),
            "count" => "a number, such as 16".to_owned(),
            "cylinder" => "a number, such as 1000".to_owned(),
            "cylinders" => number("cylinders", "600"),
            "sectors" => number("sectors", "40"),
            "true, false" => "true or false".to_owned(),
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
    "name", "text", "Maker and model.";
    "geometry.sector", "256 B to 4 KiB", "Bytes in a sector. Requests of a trace that are not aligned to it are widened.";
    "geometry.heads", "1 to 256", "Recording surfaces.";
    "geometry.layout", "cylinder, zigzag, serpentine", "In which order tracks are numbered: all heads of a cylinder in the same order; in turning order; or all cylinders of a zone under one head, then back under the next.";
    "geometry.sectors", "count", "Addressable sectors, where the drive offers fewer than its zones hold.";
    "geometry.zones.*.first_cylinder", "cylinder", "Where the zone begins; by default after the zone before.";
    "geometry.zones.*.cylinders", "count", "Cylinders in the zone.";
    "geometry.zones.*.sectors_per_track", "count", "Physical sectors on a track: the zone's transfer rate.";
    "geometry.zones.*.track_skew", "sectors", "Angle between successive tracks of one cylinder; by default what passes during a head switch, `write_settle` included. Too small costs a revolution, too large costs sustained rate.";
    "geometry.zones.*.cylinder_skew", "sectors", "The same between cylinders; by default what passes while the arm moves on by one and the head changes, `write_settle` included.";
    "geometry.zones.*.offset", "sectors", "Angle of the zone's first sector.";
    "geometry.zones.*.reserved_front", "sectors", "Sectors at the zone's start that carry no address: the drive's own data.";
    "geometry.zones.*.spares", "count", "Sectors held back as spares.";
    "geometry.zones.*.spares_per", "zone, cylinder, track", "What `spares` counts for; spares lie at its end.";
    "geometry.zones.*.spares_range", "count", "Successive cylinders that share their spares, with `spares_per` = cylinder.";
    "geometry.zones.*.slips", "list of sectors", "Defects passed over by the numbering, in physical sectors from the zone's start.";
    "geometry.zones.*.remaps", "list of [from, to]", "Defects replaced later by a sector elsewhere in the zone, reached by an access of its own.";
    "servo.rpm", "100 to 100000", "Revolutions a minute.";
    "servo.head_switch", "duration", "From one head of a cylinder to another, until it is on track.";
    "servo.write_settle", "duration, may be negative", "Added until the head is on track, where a write begins anew or goes on to another track.";
    "servo.lost_turns", "0 to 1", "Share of the arm's movements to another cylinder after which it is not yet on track, so that the sector is taken a turn later. They are spread evenly, always in the same way.";
    "servo.seek", "table of the keys below", "The whole curve: where its kind changes, all its keys change together.";
    "servo.seek.curve", "datasheet, two_piece, table", "How seek time follows from distance.";
    "servo.seek.track_to_track", "duration", "Datasheet curve: to the neighbouring cylinder.";
    "servo.seek.average", "duration", "Datasheet curve: mean over all pairs of cylinders.";
    "servo.seek.full_stroke", "duration", "Datasheet curve: from the first cylinder to the last.";
    "servo.seek.threshold", "cylinders", "Two-piece curve: first distance of the linear piece.";
    "servo.seek.short_base", "duration", "Two-piece curve: constant of the root piece.";
    "servo.seek.short_per_root", "duration", "Two-piece curve: times the square root of the distance.";
    "servo.seek.long_base", "duration", "Two-piece curve: constant of the linear piece.";
    "servo.seek.long_per_cylinder", "duration", "Two-piece curve: times the distance.";
    "servo.seek.first", "list of durations", "Two-piece curve: times of the first distances, from one cylinder on, measured, in place of the curve.";
    "servo.seek.points", "list of [cylinders, duration]", "Measured curve, straight lines between the points. A point for 0 cylinders is what an access that begins anew takes where the arm stands already.";
    "servo.seek_write", "table as servo.seek", "Arm movement before a write, where measured apart.";
    "queue.depth", "1 to 256", "Commands the drive accepts at once; a further one is refused and waits in the host.";
    "queue.policy", "fcfs, sstf, look, c_look, sptf", "Which waiting command is next, chosen anew at every command end. SPTF is what drive makers call RPO.";
    "queue.age_weight", "0 to 1000", "SPTF: how much of its waiting time counts for a command against its positioning time (aged SPTF).";
    "queue.age_limit", "duration, 0: none", "A command that waited longer goes first, whatever the policy.";
    "queue.window", "count", "Only so many of the oldest commands are looked at: cheap drives do not weigh their whole queue.";
    "queue.rpo_margin", "duration", "SPTF: a sector that would come round within this time after the arm arrives is taken to be missed; dirty data likewise.";
    "queue.read_preference", "duration", "How much worse a read may be than a write, in the policy's own measure of time, and still go first.";
    "cache.size", "size", "The whole buffer.";
    "cache.segments.mode", "fixed, adaptive", "Equal parts, or each as large as its read needs.";
    "cache.segments.count", "1 to 65536", "How many segments; with `adaptive`, at most.";
    "cache.segments.replacement", "lru, fifo, consumed_first, least_recently_sequential", "Which segment makes room.";
    "cache.segments.consumed", "keep, overwrite, discard", "What becomes of sectors that the host has read: what was asked for last stays, and read-ahead takes only the rest of the segment; they stay until read-ahead needs their room; or they are given up at once, so that to read them again is a miss.";
    "cache.read_ahead.mode", "off, track_end, next_track, cylinder_end, fixed, segment", "How far read-ahead goes, at most `max`: `next_track` to the end of the track after that of the request.";
    "cache.read_ahead.min", "size", "Read before a waiting command gets the arm.";
    "cache.read_ahead.max", "size", "Read beyond the request at most.";
    "cache.read_ahead.idle_only", "true, false", "Begun only while no command waits; `min` does not hold then.";
    "cache.read_ahead.after_sequential", "count, 0: always", "Begun only after so many commands in sequence.";
    "cache.read_ahead.on_arrival", "true, false", "The track is read from where the head comes down: what passes before the request is kept, and a request that is already passing is taken from its middle.";
    "cache.read_ahead.resume_on_hit", "true, false", "A hit that finds the arm idle lets its segment's read-ahead go on.";
    "cache.write.enabled", "true, false", "Writes are acknowledged from the cache. FUA writes never are.";
    "cache.write.share", "shared, separate", "Dirty data takes room from reads, or has `limit` to itself.";
    "cache.write.limit", "size", "Dirty data held at most; a write that does not fit waits.";
    "cache.write.high_watermark", "0 to 1", "Share of `limit` at which writing to the medium begins.";
    "cache.write.low_watermark", "0 to 1", "Share of `limit` at which it ends.";
    "cache.write.idle_delay", "duration, 0: never", "Dirty data is written when the drive was idle this long.";
    "cache.write.max_age", "duration, 0: never", "Data dirty for longer is written ahead of other commands.";
    "cache.write.window", "1 to 65536", "Of so many of the oldest dirty ranges, the one that the arm reaches soonest is written first; the oldest is passed over as often at most.";
    "cache.write.coalesce", "true, false", "Adjacent and overlapping dirty ranges become one.";
    "cache.write.destage_max", "size", "Written to the medium in one go at most.";
    "cache.write.on_cached", "invalidate, update", "What a write does to cached reads of its sectors.";
    "cache.write.keep", "true, false", "Written data stays readable from the cache after it went to the medium.";
    "cache.near_window", "size", "A read this near after something cached is a near miss; by default the size of a segment (of `count` equal ones), the longest read-ahead that the buffer could hold.";
    "cache.ghosts", "count", "Evicted ranges remembered, to tell purged misses from pure ones.";
    "interface.link_rate", "bytes a second", "Link rate.";
    "interface.link_rate_write", "bytes a second", "The same from the host to the drive; by default as `link_rate`.";
    "interface.overlap", "true, false", "Data goes to the host while the rest comes from the medium.";
    "interface.read_watermark", "0 to 1", "With `overlap`: share of what a read waits for that must have come from the medium before it goes to the host.";
    "interface.immediate_partial", "true, false", "The cached part of a partial hit goes to the host at once.";
    "interface.overhead.read_hit", "duration", "Command processing of a read found in the cache.";
    "interface.overhead.read_hit.after_read", "duration", "The same, after a command that was no write.";
    "interface.overhead.read_hit.after_write", "duration", "The same, after a write.";
    "interface.overhead.read_hit.in_sequence", "duration", "The same, where the command goes on where the one before it, of the same kind, ended; by default no exception.";
    "interface.overhead.read_miss", "duration", "Command processing of a read that needs the medium.";
    "interface.overhead.read_miss.after_read", "duration", "The same, after a command that was no write.";
    "interface.overhead.read_miss.after_write", "duration", "The same, after a write.";
    "interface.overhead.read_miss.in_sequence", "duration", "The same, where the command goes on where the one before it, of the same kind, ended; by default no exception.";
    "interface.overhead.write_hit", "duration", "Command processing of a write taken into the cache.";
    "interface.overhead.write_hit.after_read", "duration", "The same, after a command that was no write.";
    "interface.overhead.write_hit.after_write", "duration", "The same, after a write.";
    "interface.overhead.write_hit.in_sequence", "duration", "The same, where the command goes on where the one before it, of the same kind, ended; by default no exception.";
    "interface.overhead.write_miss", "duration", "Command processing of a write that goes to the medium.";
    "interface.overhead.write_miss.after_read", "duration", "The same, after a command that was no write.";
    "interface.overhead.write_miss.after_write", "duration", "The same, after a write.";
    "interface.overhead.write_miss.in_sequence", "duration", "The same, where the command goes on where the one before it, of the same kind, ended; by default no exception.";
    "interface.overhead.write_data", "duration", "Until the data of a write that goes to the medium is asked for; by default when its arm may set out.";
    "interface.overhead.write_data.after_read", "duration", "The same, after a command that was no write.";
    "interface.overhead.write_data.after_write", "duration", "The same, after a write.";
    "interface.overhead.write_data.in_sequence", "duration", "The same, where the command goes on where the one before it, of the same kind, ended; by default no exception.";
    "interface.overhead.control", "duration", "Command processing of flush and discard.";
    "interface.overhead.control.after_read", "duration", "The same, after a command that was no write.";
    "interface.overhead.control.after_write", "duration", "The same, after a write.";
    "interface.overhead.reconnect", "duration", "Until the link is taken again for data that a read had to wait for: reselection and its preparation.";
    "interface.overhead.completion", "duration", "After the last byte, of any command.";
    "interface.overhead.completion_write", "duration", "The same of a write that went to the medium; by default as `completion`.";
};
