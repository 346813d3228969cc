//! A made-up query, for the tests and the gallery.

use sakiyomi_report::result::{
    Document, QueryCell, QueryColumn, QueryFile, QueryPhase, QueryResult, QueryRows, Run,
};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// Returns a spilling sort.
pub(crate) fn sorted() -> Document<QueryResult> {
    let phase = |name: &str, mib: u64, elapsed: u64, user: u64, system: u64, waiting: u64| QueryPhase {
        name: name.to_owned(),
        bytes: mib * MIB,
        stored_bytes: 0,
        elapsed_ns: elapsed * MS,
        user_ns: user * MS,
        system_ns: system * MS,
        io_wait_ns: waiting * MS,
        bound: QueryPhase::bound_of(user * MS, system * MS, waiting * MS),
    };
    let file = |path: &str, mib: u64| QueryFile {
        path: path.to_owned(),
        format: "parquet".to_owned(),
        rows: Some(6_001_215),
        size_bytes: Some(mib * MIB),
    };
    let result = QueryResult {
        operation: "sort".to_owned(),
        description: "by l_partkey, l_suppkey desc".to_owned(),
        inputs: vec![file("lineitem.parquet", 220)],
        outputs: vec![file("sorted.parquet", 338)],
        input_rows: 6_001_215,
        output_rows: 6_001_215,
        read_bytes: 220 * MIB,
        written_bytes: 338 * MIB,
        spilled_bytes: 640 * MIB,
        spill_compression: Vec::new(),
        elapsed_ns: 2_750 * MS,
        user_ns: 2_200 * MS,
        system_ns: 180 * MS,
        memory_limit_bytes: 512 * MIB,
        memory_peak_bytes: Some(220 * MIB),
        threads: 2,
        method: "pread:4".to_owned(),
        direct: true,
        plan: vec![
            "Range partitioning into 64 partitions of packed rows, spilled to /var/tmp.".to_owned(),
            "Each partition is read back, sorted by radix, gathered and encoded.".to_owned(),
        ],
        predicted_ns: Some(2_500 * MS),
        phases: vec![
            phase("read and partition", 220, 1_300, 1_000, 60, 40),
            phase("write partitions", 640, 900, 10, 60, 900),
            phase("sort and write", 978, 1_400, 1_190, 60, 200),
        ],
        rows: None,
        notes: vec!["The spill directory's file system does not return space before the end.".to_owned()],
    };
    Document::new(Run::default(), result)
}

/// Returns an aggregation whose rows are shown.
pub(crate) fn aggregated() -> Document<QueryResult> {
    let column = |name: &str, kind: &str| QueryColumn {
        name: name.to_owned(),
        kind: kind.to_owned(),
        is_numeric: kind != "Utf8",
    };
    let row = |flag: &str, sum: &str, mean: f64, rows: i64| {
        let text = |text: &str| QueryCell::Text(text.to_owned());
        vec![text(flag), text(sum), QueryCell::Real(mean), QueryCell::Integer(rows)]
    };
    let mut document = sorted();
    document.result = QueryResult {
        operation: "aggregate".to_owned(),
        description: "by l_returnflag".to_owned(),
        outputs: Vec::new(),
        output_rows: 3,
        rows: Some(QueryRows {
            columns: vec![
                column("l_returnflag", "Utf8"),
                column("sum(l_quantity)", "Decimal128(38, 2)"),
                column("avg(l_discount)", "Float64"),
                column("count", "Int64"),
            ],
            rows: vec![row("A", "37734107.00", 0.05, 1_478_493), row("N", "74476040.00", 0.05, 2_920_374)],
        }),
        ..document.result
    };
    document
}
