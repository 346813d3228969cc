//! The rows of the table of totals: A, B, and what changed.

use crate::number;
use crate::schema::{SimResult, Spread};

/// A quantity with its kind, which says how it is written and compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Count(u64),
    Ratio(f64),
    Time(u64),
    Size(u64),
}

/// Which way a quantity should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    High,
    Low,
    /// It describes the workload, or is good and bad.
    None,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    pub(crate) group: &'static str,
    pub(crate) label: &'static str,
    pub(crate) value: Value,
    pub(crate) aim: Aim,
}

/// How B stands to A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Better,
    Worse,
    Neutral,
}

impl Judgement {
    /// The word for it, which is also the CSS class.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Judgement::Better => "better",
            Judgement::Worse => "worse",
            Judgement::Neutral => "",
        }
    }
}

/// Relative changes below this are not called better or worse.
const NOTICEABLE: f64 = 0.005;

impl Value {
    pub(crate) fn text(self) -> String {
        match self {
            Value::Count(count) => number::count(count),
            Value::Ratio(ratio) => number::percent(ratio),
            Value::Time(ns) => number::duration(ns),
            Value::Size(bytes) => number::bytes(bytes),
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Value::Count(value) | Value::Time(value) | Value::Size(value) => value as f64,
            Value::Ratio(value) => value,
        }
    }

    /// The change from `self` to `to`: per cent, or points where the value is itself a share.
    pub(crate) fn change(self, to: Value) -> String {
        let (from, to, is_ratio) = (self.as_f64(), to.as_f64(), matches!(self, Value::Ratio(_)));
        let difference = to - from;
        if difference == 0.0 {
            return "=".to_owned();
        }
        let sign = if difference < 0.0 { "−" } else { "+" };
        if !difference.is_finite() {
            number::NONE.to_owned()
        } else if is_ratio {
            format!("{sign}{} points", number::percent(difference.abs()).trim_end_matches(" %"))
        } else if from != 0.0 && difference.abs() / from < 0.0005 {
            "≈".to_owned()
        } else if from == 0.0 {
            "from none".to_owned()
        } else if to / from >= 10.0 {
            format!("× {}", number::times(to / from))
        } else {
            format!("{sign}{}", number::percent(difference.abs() / from))
        }
    }
}

impl Total {
    /// Whether going from this row to `to` is an improvement.
    fn judge(&self, to: &Total) -> Judgement {
        let (from, to) = (self.value.as_f64(), to.value.as_f64());
        let noticeable = (to - from).abs() > from.abs().max(to.abs()) * NOTICEABLE;
        match self.aim {
            Aim::High | Aim::Low if !noticeable => Judgement::Neutral,
            Aim::High if to > from => Judgement::Better,
            Aim::Low if to < from => Judgement::Better,
            Aim::High | Aim::Low => Judgement::Worse,
            Aim::None => Judgement::Neutral,
        }
    }
}

/// Whether two results are of the same work: only then is one better than the other.
pub(crate) fn same_workload(a: &SimResult, b: &SimResult) -> bool {
    let work = |of: &SimResult| (of.commands, of.reads, of.writes, of.read_bytes, of.written_bytes);
    a.trace == b.trace && a.replay == b.replay && a.warm_up_ns == b.warm_up_ns || work(a) == work(b)
}

/// The rows of two results side by side, judged where they did the same work.
pub(crate) fn compared(a: &SimResult, b: &SimResult) -> Vec<(Total, Total, Judgement)> {
    let judge = same_workload(a, b);
    let pairs = totals(a).into_iter().zip(totals(b));
    pairs.map(|(a, b)| (a, b, if judge { a.judge(&b) } else { Judgement::Neutral })).collect()
}

/// Every row for a result; two results give the same rows in the same order.
pub(crate) fn totals(result: &SimResult) -> Vec<Total> {
    let mut rows = Rows::default();
    workload(&mut rows, result);
    reads(&mut rows, result);
    rows.group("Seeks");
    rows.count("all", result.seeks.total(), Aim::Low);
    rows.count("read", result.seeks.read, Aim::Low);
    rows.count("read near miss", result.seeks.read_near_miss, Aim::Low);
    rows.count("write", result.seeks.write, Aim::Low);
    rows.spread("Response, all commands", &result.response_ns);
    rows.spread("Response, reads", &result.read_response_ns);
    rows.spread("Response, writes", &result.write_response_ns);
    rows.spread("Time in the device", &result.device_ns);
    rows.group("Host's queue");
    rows.time("mean wait", result.host_queue.wait_mean_ns, Aim::Low);
    rows.time("longest wait", result.host_queue.wait_max_ns, Aim::Low);
    rows.count("most commands waiting", result.host_queue.backlog_max, Aim::Low);
    disk_time(&mut rows, result);
    rows.rows
}

fn workload(rows: &mut Rows, result: &SimResult) {
    rows.group("Commands");
    rows.count("all", result.commands, Aim::None);
    rows.count("reads", result.reads, Aim::None);
    rows.count("writes", result.writes, Aim::None);
    rows.count("flushes", result.flushes, Aim::None);
    rows.count("discards", result.discards, Aim::None);
    rows.push("read", Value::Size(result.read_bytes), Aim::None);
    rows.push("written", Value::Size(result.written_bytes), Aim::None);
    rows.time("simulated", result.simulated_ns, Aim::None);
}

fn reads(rows: &mut Rows, result: &SimResult) {
    let counts = &result.read_counts;
    rows.group("Cache");
    rows.push("hit rate", Value::Ratio(result.hit_ratio), Aim::High);
    rows.count("full hits", counts.full_hits, Aim::High);
    rows.count("active hits", counts.active_hits, Aim::None);
    rows.count("near misses", counts.near_misses, Aim::Low);
    rows.count("purged misses", counts.purged_misses, Aim::Low);
    rows.count("pure misses", counts.pure_misses, Aim::Low);
    rows.count("writes absorbed", result.writes_absorbed, Aim::High);
    rows.count("writes to the medium", result.writes_media, Aim::Low);
}

fn disk_time(rows: &mut Rows, result: &SimResult) {
    let time = result.disk_time_ns;
    rows.group("Disk time");
    rows.push("idle share", Value::Ratio(time.idle_ratio()), Aim::High);
    rows.time("idle", time.idle, Aim::High);
    rows.time("read seek", time.read_seek, Aim::Low);
    rows.time("read data", time.read_data, Aim::None);
    rows.time("write seek", time.write_seek, Aim::Low);
    rows.time("write data", time.write_data, Aim::None);
}

/// Rows in the making. The group of a row is the last one that was opened.
#[derive(Default)]
struct Rows {
    rows: Vec<Total>,
    group: &'static str,
}

impl Rows {
    fn group(&mut self, name: &'static str) {
        self.group = name;
    }

    fn push(&mut self, label: &'static str, value: Value, aim: Aim) {
        self.rows.push(Total { group: self.group, label, value, aim });
    }

    fn count(&mut self, label: &'static str, count: u64, aim: Aim) {
        self.push(label, Value::Count(count), aim);
    }

    fn time(&mut self, label: &'static str, ns: u64, aim: Aim) {
        self.push(label, Value::Time(ns), aim);
    }

    fn spread(&mut self, group: &'static str, spread: &Spread) {
        self.group(group);
        self.time("mean", spread.mean, Aim::Low);
        self.time("median", spread.p50, Aim::Low);
        self.time("p90", spread.p90, Aim::Low);
        self.time("p99", spread.p99, Aim::Low);
        self.time("p99.9", spread.p999, Aim::Low);
        self.time("longest", spread.max, Aim::Low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_signed_and_in_the_value_s_own_terms() {
        assert_eq!(Value::Ratio(0.392).change(Value::Ratio(0.724)), "+33.2 points");
        assert_eq!(Value::Count(6908).change(Value::Count(3209)), "−53.5 %");
        assert_eq!(Value::Time(1).change(Value::Time(61)), "× 61");
        assert_eq!(Value::Count(0).change(Value::Count(3)), "from none");
        assert_eq!(Value::Count(3).change(Value::Count(3)), "=");
        assert_eq!(Value::Count(10_000).change(Value::Count(10_001)), "≈");
        assert_eq!(Value::Ratio(0.1).change(Value::Ratio(f64::NAN)), number::NONE);
    }

    #[test]
    fn different_work_is_not_judged() {
        let a = SimResult { trace: "a".to_owned(), commands: 9, hit_ratio: 0.9, ..SimResult::default() };
        let b = SimResult { trace: "b".to_owned(), commands: 9, hit_ratio: 0.1, ..SimResult::default() };
        let judged =
            |a: &SimResult, b: &SimResult| compared(a, b).iter().any(|row| row.2 != Judgement::Neutral);
        assert!(judged(&a, &b), "the same work from a trace of another name");
        assert!(!judged(&a, &SimResult { commands: 5, ..b.clone() }));
        assert!(!judged(&a, &SimResult { commands: 5, trace: a.trace.clone(), warm_up_ns: 1, ..b }));
    }

    #[test]
    fn only_a_noticeable_change_is_judged() {
        let row = |value, aim| Total { group: "", label: "", value: Value::Count(value), aim };
        assert_eq!(row(1000, Aim::Low).judge(&row(500, Aim::Low)), Judgement::Better);
        assert_eq!(row(1000, Aim::High).judge(&row(500, Aim::High)), Judgement::Worse);
        assert_eq!(row(1000, Aim::Low).judge(&row(1004, Aim::Low)), Judgement::Neutral);
        assert_eq!(row(1000, Aim::None).judge(&row(1, Aim::None)), Judgement::Neutral);
    }
}
