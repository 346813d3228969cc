//! The cases of a group in rows and columns.

use super::{Group, method, verdict};
use crate::number::{self, cpu_per_gb, duration, rate, rate_range, round_bytes, whole_percent};
use crate::schema::{ProbeCase, ProbeLatency, ProbeVerdict};

/// A group as a table; what all of its cases share has no column.
pub(crate) struct Cases {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    /// So many of the columns are text.
    pub(crate) text_columns: usize,
}

impl Cases {
    /// Leaves out the column of numbers with this head.
    pub(crate) fn remove(&mut self, head: &str) {
        if let Some(column) = self.header.iter().position(|&name| name == head) {
            self.header.remove(column);
            self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
}

/// Columns of [`Cases`] that may have nothing to tell apart.
const BLOCK: usize = 1;
const BUFFERS: usize = 2;

/// What the marks and columns of [`Cases`] mean.
pub(crate) const LEGEND: &str = "* fastest, + least CPU of those within 5 % of it. Range: slowest and fastest run. \
                                 CPU: user and system, 100 % is one core.";

/// A group as a table.
pub(crate) fn table(group: &Group<'_>) -> Cases {
    const HEADER: [&str; 10] =
        ["method", "block", "buffers", "rate", "range", "CPU", "s/GB", "p50", "p99", "limit"];
    let is_shown = |column: usize| match column {
        BLOCK => group.block_sizes_differ(),
        BUFFERS => group.buffers_differ(),
        _ => true,
    };
    let header = (0..HEADER.len()).filter(|&column| is_shown(column)).map(|column| HEADER[column]);
    let shown = |row: [String; HEADER.len()]| {
        let cells = row.into_iter().enumerate().filter(|&(column, _)| is_shown(column));
        cells.map(|(_, cell)| cell).collect()
    };
    Cases {
        header: header.collect(),
        rows: group.cases.iter().map(|case| shown(row(group, case))).collect(),
        text_columns: (0..=BUFFERS).filter(|&column| is_shown(column)).count(),
    }
}

fn row(group: &Group<'_>, case: &ProbeCase) -> [String; 10] {
    let range = case.throughput_range_bytes_per_s;
    let latency = |of: fn(ProbeLatency) -> u64| {
        case.latency_ns.map_or(number::NONE.to_owned(), |latency| duration(of(latency)))
    };
    [
        method(case) + group.mark(case),
        round_bytes(case.block_bytes),
        case.buffers.clone(),
        rate(case.throughput_bytes_per_s),
        rate_range(case.throughput_bytes_per_s, range.min, range.max),
        whole_percent(case.user_ratio + case.system_ratio),
        cpu_per_gb(case.cpu_ns_per_byte),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        limit(case.verdict).to_owned(),
    ]
}

/// A verdict under the head `limit`.
fn limit(of: ProbeVerdict) -> &'static str {
    verdict(of).trim_end_matches("-bound")
}
