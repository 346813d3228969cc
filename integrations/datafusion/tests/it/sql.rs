//! The command `sakiyomi-sql`.

use std::path::Path;
use std::process::{Command, Output};

use sakiyomi_datafusion::spill::{SpillOptions, spill_costs};
use sakiyomi_io::{Access, EngineKind};
use sakiyomi_probe::calibration::{Calibration, Cost, DepthCost, DeviceCosts, Machine, Point, SCHEMA};
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};
use sakiyomi_probe::target::Device;
use sakiyomi_testing::Scratch;
use serde_json::Value;

/// Runs the command in a directory, with its spill files there, and calibrations below `state`.
fn sql(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi-sql"));
    command
        .current_dir(scratch.root())
        .env("XDG_STATE_HOME", scratch.path("state"))
        .env("TMPDIR", scratch.root());
    command.args(arguments).output().unwrap()
}

/// Its output, if it succeeds.
fn printed(scratch: &Scratch, arguments: &[&str]) -> String {
    let output = sql(scratch, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The error that it prints.
fn refused(scratch: &Scratch, arguments: &[&str]) -> String {
    let output = sql(scratch, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A table of numbers in random order.
const TABLE: &str = "select value as id, (value * 7919) % 100003 as key, \
                     concat('text ', cast((value * 31337) % 1000003 as varchar)) as text \
                     from generate_series(1, 200000)";

#[test]
fn files_of_all_formats_are_tables_by_their_paths_and_have_the_same_rows() {
    let scratch = Scratch::new("sql_formats");
    let few = format!("{TABLE} limit 5000");
    let mut results = Vec::new();
    for name in ["a table.parquet", "table.csv", "table.json", "table.arrow"] {
        assert_eq!(printed(&scratch, &["-o", name, &few]), "");
        let statement =
            format!("select count(*) as n, sum(id) as s, max(key) as m, min(text) as t from '{name}'");
        results.push(printed(&scratch, &[&statement]).lines().nth(3).unwrap().to_owned());
        assert_eq!(printed(&scratch, &["--stock", &statement]).lines().nth(3).unwrap(), results[0]);
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    assert!(results[0].contains("5000") && results[0].contains("12502500"), "{results:?}");
    let deep = scratch.path("deep").join("table.parquet");
    std::fs::create_dir(scratch.path("deep")).unwrap();
    std::fs::rename(scratch.path("a table.parquet"), &deep).unwrap();
    let statement = format!("select count(*) as n from '{}' where id <= 10", deep.display());
    assert_eq!(printed(&scratch, &[&statement]), "+----+\n| n  |\n+----+\n| 10 |\n+----+\n");
}

#[test]
fn a_sort_beyond_the_limit_has_the_rows_of_one_without_and_its_figures_say_what_was_spilled() {
    let scratch = Scratch::new("sql_spills");
    printed(&scratch, &["-o", "table.parquet", TABLE]);
    let sorted = "select * from 'table.parquet' order by text, id";
    let analyze = [
        "--memory",
        "24MiB",
        "--threads",
        "1",
        "--operators",
        "stock",
        "--analyze",
        "--json",
        "-o",
        "small.csv",
        "--spill-compression",
    ];
    for level in ["none", "lz4", "auto"] {
        let text = printed(&scratch, &[&analyze[..], &[level, sorted]].concat());
        let figures: Value = serde_json::from_str(&text).unwrap();
        let number = |pointer: &str| figures.pointer(pointer).unwrap().as_u64().unwrap();
        assert_eq!(number("/rows"), 200_000);
        assert_eq!(number("/spill/written_bytes"), number("/operators_spilled_bytes"));
        assert!(number("/spill/written_bytes") > 3_000_000, "{figures:#}");
        assert!(
            level != "lz4" || number("/spill/stored_bytes") < number("/spill/written_bytes"),
            "{figures:#}"
        );
        assert!(figures["predicted"].is_null(), "{figures:#}");
        printed(&scratch, &["--stock", "--memory", "1GiB", "-o", "large.csv", sorted]);
        let read = |name: &str| std::fs::read(scratch.path(name)).unwrap();
        assert!(read("small.csv") == read("large.csv"), "compressed by {level}");
    }
    // Nothing but the files is left.
    let names = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut left: Vec<String> = std::fs::read_dir(scratch.root()).unwrap().map(names).collect();
    left.sort();
    assert_eq!(left, ["large.csv", "small.csv", "table.parquet"]);
}

#[test]
fn our_operators_have_the_rows_of_datafusion_and_their_figures_stand_beside_the_prediction() {
    let scratch = Scratch::new("sql_operators");
    printed(&scratch, &["-o", "table.parquet", TABLE]);
    let statement = "select a.id, b.text from 'table.parquet' a join 'table.parquet' b on a.key = b.id order by b.text, a.id";
    printed(&scratch, &["--stock", "--memory", "1GiB", "-o", "stock.csv", statement]);
    for choice in ["stock", "sakiyomi", "auto"] {
        let arguments = ["--operators", choice, "--memory", "96MiB", "--threads", "2", "-o", "found.csv"];
        let text = printed(&scratch, &[&arguments[..], &["--analyze", "--json", statement]].concat());
        let read = |name: &str| std::fs::read(scratch.path(name)).unwrap();
        assert!(read("found.csv") == read("stock.csv"), "operators: {choice}");
        let figures: Value = serde_json::from_str(&text).unwrap();
        let operators = figures["operators"].as_array().unwrap();
        assert!(operators.is_empty() == (choice == "stock"), "{choice}: {figures:#}");
        for operator in operators {
            let number = |pointer: &str| operator.pointer(pointer).unwrap().as_u64().unwrap();
            assert_eq!(number("/rows"), figures["rows"].as_u64().unwrap());
            assert!(number("/cpu_ns") > 0 && number("/memory_bytes") >= 4 << 20, "{operator:#}");
            assert!(number("/predicted/elapsed_ns") > 0, "{operator:#}");
            assert_eq!(operator["predicted"]["is_calibrated"], false);
        }
    }
    let sorted = "select * from 'table.parquet' order by text, id";
    let arguments = ["--operators", "sakiyomi", "--memory", "24MiB", "--threads", "1"];
    let text = printed(&scratch, &[&arguments[..], &["--analyze", sorted]].concat());
    assert!(text.contains("ExternalSortExec: expr=[text@2") && text.contains("spilled_bytes="), "{text}");
    assert!(text.contains("prediction") && text.contains("of DataFusion's operator"), "{text}");
    let explained = format!("explain verbose {sorted} limit 3");
    let text = printed(&scratch, &["--rows", "1000", &explained]);
    assert!(text.contains("sakiyomi_operators") && text.contains("stock because it is faster"), "{text}");
}

#[test]
fn the_writer_of_a_whole_row_group_has_memory_beside_a_sort() {
    let scratch = Scratch::new("sql_row_group");
    let columns =
        "value as a, value * 3 as b, value % 1009 as c, cast(value as varchar) as d, 'a text ' || value as e";
    let wide = format!("select {columns} from generate_series(1, 500000)");
    printed(&scratch, &["-o", "wide.parquet", &wide]);
    let plain = "datafusion.execution.parquet.compression=uncompressed";
    let arguments = ["--operators", "sakiyomi", "--memory", "96MiB", "--threads", "2", "--set", plain];
    let sorted = "select * from 'wide.parquet' order by c, a";
    printed(&scratch, &[&arguments[..], &["-o", "sorted.parquet", sorted]].concat());
    let count = printed(&scratch, &["select count(*), sum(a), min(c), max(b) from 'sorted.parquet'"]);
    assert!(
        count.contains("500000") && count.contains("125000250000") && count.contains("1500000"),
        "{count}"
    );
}

#[test]
fn errors_are_one_sentence_and_leave_no_file() {
    let scratch = Scratch::new("sql_errors");
    printed(&scratch, &["-o", "table.parquet", TABLE]);
    scratch.file("broken.parquet", "these bytes are no Parquet file at all");
    let sort = "select * from 'table.parquet' order by text, id";
    let small = [
        "--operators",
        "stock",
        "--memory",
        "24MiB",
        "--threads",
        "1",
        "--spill-limit",
        "1MiB",
        "-o",
        "out.parquet",
        sort,
    ];
    for (arguments, expected) in [
        (&["select * from 'absent.parquet'"][..], "absent.parquet: there is no such table or readable file"),
        (&["selec 1"], "the statement is not SQL"),
        (&["select price from 'table.parquet'"], "No field named price"),
        (&["select * from 'broken.parquet'"], "Parquet"),
        (&["--memory", "1MiB", "select 1"], "too small; give at least 16MiB"),
        (&["-o", "out.xlsx", "select 1"], "end the name in .parquet, .csv, .json or .arrow"),
        (&["--spill", "absent", "select 1"], "--spill absent: it is not a directory"),
        (&["--set", "datafusion.absent=1", "select 1"], "absent"),
        (&["-o", "absent/out.csv", "select 1"], "absent is not a directory; create it first"),
        (&["-o", "out.csv", "select 1 / (value - 1) from generate_series(1, 3)"], "Divide by zero"),
        (&small, "of at most 1048576 bytes are on disk; raise the limit of spill files"),
    ] {
        let error = refused(&scratch, arguments);
        assert!(error.contains(expected) && error.starts_with("error: "), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = refused(&scratch, &["--operators", "fast", "select 1"]);
    assert!(error.contains("give stock, sakiyomi or auto"), "{error}");
    assert_eq!(scratch.entries(), 2, "the two tables");
}

#[test]
fn the_first_rows_are_printed_and_a_note_says_that_there_are_more() {
    let scratch = Scratch::new("sql_rows");
    let output = sql(&scratch, &["--rows", "2", "select value from generate_series(1, 3) order by value"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "+-------+\n| value |\n+-------+\n| 1     |\n| 2     |\n+-------+\n");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("the first 2 rows"));
    let empty = printed(&scratch, &["select 1 as one where false"]);
    assert_eq!(empty, "+-----+\n| one |\n+-----+\n+-----+\n");
}

/// A calibration of the device of a directory: bytes a second and CPU time of 512 KiB, by access.
fn calibration(directory: &Path, direct: (f64, f64), buffered: (f64, f64)) -> Calibration {
    let cost = |op: Operation, cache: CacheState, (throughput_bytes_per_s, cpu_ns_per_op): (f64, f64)| Cost {
        engine: EngineKind::Pread,
        op,
        cache,
        random: false,
        buffers: Buffers::Huge,
        depths: vec![DepthCost {
            depth: 4,
            cpu_ns_per_op,
            cpu_ns_per_byte: 0.0,
            points: vec![Point {
                block_bytes: 512 << 10,
                throughput_bytes_per_s,
                cpu_ns_per_op,
                kernel_threads_cpu_ns_per_op: 0.0,
                latency_p50_ns: None,
                latency_p99_ns: None,
                measured_unix_s: 1,
            }],
        }],
    };
    let both = |op| [cost(op, CacheState::Direct, direct), cost(op, CacheState::Cold, buffered)];
    let costs = [both(Operation::Read), both(Operation::Write)].into_iter().flatten().collect();
    let device = Device::of(directory).unwrap();
    let devices = vec![DeviceCosts { target: "path".into(), device, costs }];
    let schema = SCHEMA.to_owned();
    Calibration { schema, measured_unix_s: 1, machine: Machine::current(), devices, cores: Vec::new() }
}

#[test]
fn a_calibration_chooses_the_access_and_predicts_the_cost_of_what_is_spilled() {
    let scratch = Scratch::new("sql_calibration");
    let options = SpillOptions::default();
    let costs = |direct, buffered| {
        spill_costs(&[calibration(scratch.root(), direct, buffered)], scratch.root(), &options).unwrap()
    };
    assert_eq!(costs((1e9, 1e4), (5e8, 2e5)).access, Access::Direct);
    assert_eq!(costs((1e8, 1e4), (5e8, 2e5)).access, Access::Buffered);
    // Both devices are as fast, and the CPU is the bottleneck.
    assert_eq!(costs((1e10, 1e4), (1e10, 1e7)).access, Access::Direct);
    assert_eq!(spill_costs(&[], scratch.root(), &options), None);

    let directory = scratch.path("state/sakiyomi/calibration");
    std::fs::create_dir_all(&directory).unwrap();
    let calibration = calibration(scratch.root(), (1e9, 524_288.0), (1e8, 1e6));
    std::fs::write(directory.join(calibration.file_name()), calibration.to_json()).unwrap();
    printed(&scratch, &["-o", "table.parquet", TABLE]);
    let sorted = "select * from 'table.parquet' order by text, id";
    let arguments = [
        "--operators",
        "stock",
        "--memory",
        "24MiB",
        "--threads",
        "1",
        "--spill-compression",
        "none",
        "--analyze",
    ];
    let text = printed(&scratch, &[&arguments[..], &["--json", sorted]].concat());
    let figures: Value = serde_json::from_str(&text).unwrap();
    let number = |pointer: &str| figures.pointer(pointer).unwrap().as_u64().unwrap();
    // A nanosecond for each byte, of the device and of the CPU.
    let (written, read) = (number("/spill/stored_bytes"), number("/spill/read_bytes"));
    assert!(number("/predicted/write_ns").abs_diff(written) <= 1, "{figures:#}");
    assert!(number("/predicted/read_ns").abs_diff(read) <= 1, "{figures:#}");
    assert!(number("/predicted/io_cpu_ns").abs_diff(written + read) <= 2, "{figures:#}");
    let text = printed(&scratch, &[&arguments[..], &[sorted]].concat());
    assert!(text.contains("SortExec") && text.contains("spilled_bytes="), "{text}");
    assert!(text.contains("device, direct") && text.contains("to read predicted"), "{text}");
}

#[test]
fn the_commands_of_the_documentation_run() {
    let scratch = Scratch::new("sql_docs");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/datafusion.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut count = 0;
    for command in page.lines().filter_map(|line| line.strip_prefix("$ sakiyomi sql ")) {
        let script = format!("exec \"$SQL\" {command}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .env("SQL", env!("CARGO_BIN_EXE_sakiyomi-sql"))
            .env("XDG_STATE_HOME", scratch.path("state"))
            .current_dir(scratch.root())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {errors}");
        count += 1;
    }
    assert!(count >= 5, "{count} commands");
}
