//! Effective parameters of a drive: parameters that others limit or disable are replaced by their effective values.
//!
//! Two settings with equal effective parameters give the same results, to the nanosecond; a sweep reports them. Each
//! rule follows from the model's use of the parameter. A property test runs random drives before and after, which
//! exposes a rule that changes the results.

use std::collections::BTreeMap;

use sakiyomi_model::{Bytes, Nanos};

use super::{
    Consumed, DriveSpec, Overhead, OverheadSpec, QueuePolicy, QueueSpec, ReadAheadMode, ReadAheadSpec,
    SegmentMode, WriteShare, WriteSpec,
};

/// A setting whose effective value differs from its given one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Key.
    pub key: String,
    /// Given value.
    pub value: String,
    /// Effective value; `None` if the setting has no effect.
    pub acts_as: Option<String>,
    /// Keys that limit it.
    pub limited_by: Vec<&'static str>,
}

/// A rule that replaces limited parameters by their effective values.
struct Rule {
    limited_by: fn(&DriveSpec) -> Vec<&'static str>,
    apply: fn(&mut DriveSpec),
    /// Whether the limited settings have no effect at all.
    ignores: bool,
}

/// Ordered so that no rule requires an earlier one to run again.
const RULES: &[Rule] = &[
    Rule { limited_by: |_| vec!["cache.read_ahead.mode"], apply: without_read_ahead, ignores: true },
    Rule { limited_by: |_| vec!["cache.write.enabled"], apply: without_write_cache, ignores: true },
    Rule {
        limited_by: |_| vec!["cache.read_ahead.idle_only"],
        apply: no_least_when_idle_only,
        ignores: true,
    },
    Rule { limited_by: |_| vec!["geometry.sector"], apply: least_in_sectors, ignores: false },
    Rule { limited_by: segment_keys, apply: within_a_segment, ignores: false },
    Rule { limited_by: |_| vec!["cache.segments.consumed"], apply: segment_is_fixed, ignores: false },
    Rule { limited_by: |_| vec!["cache.write.limit"], apply: destage_within_limit, ignores: false },
    Rule { limited_by: |_| vec!["queue.depth"], apply: window_within_depth, ignores: false },
    Rule { limited_by: |_| vec!["queue.depth"], apply: nothing_to_choose, ignores: true },
    Rule { limited_by: |_| vec!["queue.policy"], apply: without_sptf, ignores: true },
    Rule { limited_by: |_| vec!["interface.overlap"], apply: without_overlap, ignores: true },
    Rule { limited_by: |_| vec!["interface.link_rate"], apply: same_link_rate, ignores: false },
    Rule { limited_by: |_| vec!["interface.overhead.write_miss"], apply: same_write_data, ignores: false },
    Rule { limited_by: |_| vec!["interface.overhead.completion"], apply: same_completion, ignores: false },
    Rule { limited_by: |_| vec!["servo.seek"], apply: same_seek, ignores: false },
    Rule {
        limited_by: |_| vec!["cache.size", "cache.segments.count"],
        apply: near_by_default,
        ignores: false,
    },
];

impl DriveSpec {
    /// Returns the effective parameters of a [validated](DriveSpec::check) drive. They are equal for two drives that
    /// give the same results, as far as that is known without running them.
    #[must_use]
    pub fn effective(&self) -> DriveSpec {
        let mut spec = self.clone();
        spec.name.clear();
        RULES.iter().for_each(|rule| (rule.apply)(&mut spec));
        spec
    }

    /// Returns the settings whose effective values differ, with the keys that limit them.
    #[must_use]
    pub fn limits(&self) -> Vec<Limit> {
        let given: BTreeMap<String, String> = self.entries().into_iter().collect();
        let mut limits: Vec<Limit> = Vec::new();
        let mut spec = self.clone();
        for rule in RULES {
            let before = spec.clone();
            (rule.apply)(&mut spec);
            if spec == before {
                continue;
            }
            let after: BTreeMap<String, String> = spec.entries().into_iter().collect();
            for (key, old) in before.entries() {
                let new = after.get(&key);
                let Some(value) = given.get(&key).filter(|_| new != Some(&old)) else { continue };
                let acts_as =
                    if rule.ignores { None } else { Some(new.map_or("the default", String::as_str)) };
                let limit = Limit {
                    key: key.clone(),
                    value: value.clone(),
                    acts_as: acts_as.map(str::to_owned),
                    limited_by: (rule.limited_by)(&before),
                };
                // A later rule overrides an earlier one.
                limits.retain(|earlier| earlier.key != key);
                limits.push(limit);
            }
        }
        limits
    }
}

fn without_read_ahead(spec: &mut DriveSpec) {
    let ahead = &mut spec.cache.read_ahead;
    if ahead.mode == ReadAheadMode::Off {
        // Reading on arrival is independent of the read-ahead mode.
        *ahead = ReadAheadSpec { mode: ahead.mode, on_arrival: ahead.on_arrival, ..ReadAheadSpec::default() };
    }
}

fn without_write_cache(spec: &mut DriveSpec) {
    let write = &mut spec.cache.write;
    if !write.enabled {
        // Cached reads of written sectors are dropped regardless.
        *write = WriteSpec { enabled: false, on_cached: write.on_cached, ..WriteSpec::default() };
        spec.interface.overhead.write_hit = OverheadSpec::default().write_hit;
    }
}

/// Returns the capacity of a segment, in whole sectors.
fn segment(spec: &DriveSpec) -> Bytes {
    let (cache, sector) = (&spec.cache, spec.geometry.sector.0);
    let reserved = match cache.write.share {
        WriteShare::Separate if cache.write.enabled => cache.write.limit,
        _ => Bytes::ZERO,
    };
    let pool = cache.size.saturating_sub(reserved).0 / sector;
    let share = match cache.segments.mode {
        SegmentMode::Fixed => pool / u64::from(cache.segments.count).max(1),
        SegmentMode::Adaptive => pool,
    };
    Bytes(share * sector)
}

fn segment_keys(spec: &DriveSpec) -> Vec<&'static str> {
    let mut keys = vec!["cache.size"];
    if spec.cache.segments.mode == SegmentMode::Fixed {
        keys.push("cache.segments.count");
    }
    if spec.cache.write.enabled && spec.cache.write.share == WriteShare::Separate {
        keys.push("cache.write.limit");
    }
    keys
}

fn within_a_segment(spec: &mut DriveSpec) {
    let (most, sector) = (segment(spec), spec.geometry.sector.0);
    let ahead = &mut spec.cache.read_ahead;
    if ahead.mode != ReadAheadMode::Off {
        // A larger value has no effect, but it must not be less than `min`.
        ahead.max = Bytes(ahead.max.0 / sector * sector).min(most.max(ahead.min));
    }
}

/// Rounds `min` to sectors. `max` does not limit it: after hits, read-ahead extends further beyond the commands'
/// sectors.
fn least_in_sectors(spec: &mut DriveSpec) {
    let sector = spec.geometry.sector.0;
    spec.cache.read_ahead.min = Bytes(spec.cache.read_ahead.min.0 / sector * sector);
}

fn no_least_when_idle_only(spec: &mut DriveSpec) {
    if spec.cache.read_ahead.idle_only {
        spec.cache.read_ahead.min = Bytes::ZERO;
    }
}

/// Reading until the segment is full equals reading up to `max`, unless read-ahead may overwrite sectors already read.
fn segment_is_fixed(spec: &mut DriveSpec) {
    let ahead = &mut spec.cache.read_ahead;
    if ahead.mode == ReadAheadMode::Segment && spec.cache.segments.consumed != Consumed::Overwrite {
        ahead.mode = ReadAheadMode::Fixed;
    }
}

fn destage_within_limit(spec: &mut DriveSpec) {
    let (sector, write) = (spec.geometry.sector.0, &mut spec.cache.write);
    if write.enabled {
        let whole = |size: Bytes| Bytes(size.0 / sector * sector);
        write.destage_max = whole(write.destage_max).min(whole(write.limit));
    }
}

fn window_within_depth(spec: &mut DriveSpec) {
    spec.queue.window = spec.queue.window.min(spec.queue.depth);
}

/// Resets the policy: with one command and no dirty data there is only one choice.
fn nothing_to_choose(spec: &mut DriveSpec) {
    let queue = &mut spec.queue;
    if queue.depth == 1 && !spec.cache.write.enabled {
        queue.policy = QueuePolicy::Fcfs;
        (queue.age_weight, queue.age_limit) = (0.0, QueueSpec::default().age_limit);
        (queue.rpo_margin, queue.read_preference) = (Nanos::ZERO, Nanos::ZERO);
    }
}

fn without_sptf(spec: &mut DriveSpec) {
    let queue = &mut spec.queue;
    if queue.policy != QueuePolicy::Sptf {
        queue.age_weight = 0.0;
        // Destaging uses positioning times under any policy.
        if !spec.cache.write.enabled {
            queue.rpo_margin = Nanos::ZERO;
        }
    }
}

fn without_overlap(spec: &mut DriveSpec) {
    let interface = &mut spec.interface;
    if !interface.overlap {
        (interface.read_watermark, interface.immediate_partial) = (0.0, true);
    }
}

fn same_link_rate(spec: &mut DriveSpec) {
    let interface = &mut spec.interface;
    interface.link_rate_write = interface.link_rate_write.filter(|rate| *rate != interface.link_rate);
}

fn same_write_data(spec: &mut DriveSpec) {
    let overhead = &mut spec.interface.overhead;
    overhead.write_data = overhead.write_data.filter(|time| !is_same(*time, overhead.write_miss));
}

/// Returns whether two overheads are equal after any command.
fn is_same(a: Overhead, b: Overhead) -> bool {
    let spelt_out = |overhead| match overhead {
        Overhead::Same(time) => [Some(time), Some(time), None],
        Overhead::After { after_read, after_write, in_sequence } => {
            let exception = in_sequence.filter(|time| [*time; 2] != [after_read, after_write]);
            [Some(after_read), Some(after_write), exception]
        }
    };
    spelt_out(a) == spelt_out(b)
}

fn same_completion(spec: &mut DriveSpec) {
    let overhead = &mut spec.interface.overhead;
    overhead.completion_write = overhead.completion_write.filter(|time| *time != overhead.completion);
}

fn same_seek(spec: &mut DriveSpec) {
    let servo = &mut spec.servo;
    if servo.seek_write.as_ref() == Some(&servo.seek) {
        servo.seek_write = None;
    }
}

fn near_by_default(spec: &mut DriveSpec) {
    let (cache, sector) = (&spec.cache, spec.geometry.sector.0);
    let reserved = match cache.write.share {
        WriteShare::Separate if cache.write.enabled => cache.write.limit,
        _ => Bytes::ZERO,
    };
    let even = cache.size.saturating_sub(reserved).0 / sector / u64::from(cache.segments.count).max(1);
    spec.cache.near_window = spec.cache.near_window.filter(|window| window.0 / sector != even);
}
