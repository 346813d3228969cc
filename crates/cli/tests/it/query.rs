//! `sort`, `join`, `aggregate` and `query` on small files: results, refused input, and leftover files.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sakiyomi_testing::skipped;
use serde_json::Value;

use crate::scratch::{Scratch, json, state_home};

/// Creates two tables: seven people, with nulls and quotes, and three cities.
fn with_tables(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    scratch.file(
        "people.csv",
        "id,name,city,height\n3,Cem,10,1.75\n1,\"Ann, Jr.\",20,1.62\n2,Bo,,\n7,Gil,10,1.80\n5,Eve,30,1.58\n4,Dee,99,1.70\n6,\
         Flo,20,1.66\n",
    );
    scratch.file("cities.csv", "city,town\n20,Oslo\n10,Kochi\n30,Rome\n");
    scratch
}

/// Returns the lines of a CSV file after its header.
fn lines(scratch: &Scratch, name: &str) -> Vec<String> {
    let text = fs::read_to_string(scratch.0.join(name)).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

/// Returns the first field of each line of a text.
fn first_fields(text: &str) -> Vec<&str> {
    text.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect()
}

#[test]
fn a_table_is_sorted_by_several_columns_into_every_format() {
    let scratch = with_tables("query_sort");
    for name in ["sorted.csv", "sorted.parquet", "sorted.arrow", "sorted.arrows"] {
        scratch.ok(&format!("sort people.csv --by city:desc,height -o {name}"));
        scratch.ok(&format!("sort {name} --by city:desc,height --stable -o again.csv"));
        let ids: Vec<String> = lines(&scratch, "again.csv")
            .iter()
            .map(|line| line.split(',').next().unwrap().to_owned())
            .collect();
        assert_eq!(ids, ["4", "5", "1", "6", "3", "7", "2"], "{name}");
    }
    let text = scratch.ok("sort people.csv --by name --where height>1.6 --select id,name -o -");
    assert_eq!(text, "id,name\n1,\"Ann, Jr.\"\n3,Cem\n4,Dee\n6,Flo\n7,Gil\n");
}

#[test]
fn the_first_rows_are_shown_without_an_output_file() {
    let scratch = with_tables("query_limit");
    let shown = scratch.ok("sort people.csv --by height:desc --limit 2");
    assert!(shown.contains("Gil") && shown.contains("Cem") && !shown.contains("Flo"), "{shown}");
    let document = json(&scratch.ok("sort people.csv --by height:desc:nulls-first --limit 2 --json"));
    assert_eq!(document["schema"], "sakiyomi.query/1");
    let rows = &document["result"]["rows"]["rows"];
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert_eq!(rows[0], serde_json::json!([2, "Bo", null, null]));
}

#[test]
fn tables_are_joined_in_every_kind() {
    let scratch = with_tables("query_join");
    for (kind, rows) in [("inner", 5), ("left", 7), ("right", 5), ("full", 7), ("semi", 5), ("anti", 2)] {
        scratch.ok(&format!("join people.csv cities.csv --on city --kind {kind} -o joined.csv"));
        assert_eq!(lines(&scratch, "joined.csv").len(), rows, "{kind}");
    }
    let words = "join people.csv cities.csv --on city=city --where town='Oslo' --select id,town -o -";
    let text = scratch.ok(words);
    let mut ids = first_fields(&text);
    ids.sort_unstable();
    assert_eq!(ids, ["1", "6"]);
}

#[test]
fn groups_are_counted_and_summed() {
    let scratch = with_tables("query_aggregate");
    let words =
        "aggregate people.csv --by city --sum height --avg height --min id --max id --distinct name --count";
    let document = json(&scratch.ok(&format!("{words} --json")));
    let rows = document["result"]["rows"]["rows"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 5);
    let group = rows.iter().find(|row| row[0] == 20).unwrap();
    let last = group.as_array().unwrap();
    assert_eq!(last[3..], [1, 6, 2, 2].map(Value::from));
    let shown = scratch.ok("aggregate people.csv --count");
    assert!(shown.contains('7'), "{shown}");
    scratch.ok(&format!("{words} -o groups.csv"));
    assert_eq!(lines(&scratch, "groups.csv").len(), 5);
}

#[test]
fn tpch_tables_are_made_and_queried() {
    let scratch = Scratch::new("query_tpch");
    let made = json(&scratch.ok("query gen --sf 0.01 --shuffle 7 -o tpch --json"));
    let outputs = made["result"]["outputs"].as_array().unwrap().clone();
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    assert_eq!(scratch.names("tpch"), ["lineitem.parquet", "orders.parquet"]);
    scratch.ok("query gen --sf 0.01 --tables orders --shuffle 7 --threads 1 -o again --quiet");
    let read = |directory: &str| fs::read(scratch.0.join(directory).join("orders.parquet")).unwrap();
    assert!(read("tpch") == read("again"), "the same seed makes the same file");
    let rows = made["result"]["output_rows"].as_u64().unwrap();
    assert_eq!(rows, 60_175 + 15_000);
    let q1 = json(&scratch.ok("query q1 tpch/lineitem.parquet --json"));
    let groups = q1["result"]["rows"]["rows"].as_array().unwrap().clone();
    let keys: Vec<String> = groups
        .iter()
        .map(|row| format!("{}{}", row[0].as_str().unwrap(), row[1].as_str().unwrap()))
        .collect();
    assert_eq!(keys, ["AF", "NF", "NO", "RF"]);
    let sort = "sort tpch/lineitem.parquet --by l_partkey,l_suppkey --memory 64MiB -o sorted.parquet --out report --json";
    let sorted = json(&scratch.ok(sort));
    assert_eq!(sorted["result"]["output_rows"], 60_175);
    assert!(!sorted["result"]["phases"].as_array().unwrap().is_empty());
    assert!(sorted["result"]["memory_peak_bytes"].as_u64().unwrap() > 0);
    assert!(fs::read_to_string(scratch.0.join("report/report.html")).unwrap().ends_with("</html>"));
    let join =
        "join tpch/lineitem.parquet tpch/orders.parquet --on l_orderkey=o_orderkey -o joined.arrow --json";
    assert_eq!(json(&scratch.ok(join))["result"]["output_rows"], 60_175);
    let counted =
        json(&scratch.ok("aggregate joined.arrow --sum l_extendedprice,o_totalprice --count --json"));
    assert_eq!(counted["result"]["rows"]["rows"][0][2], 60_175);
}

#[test]
fn a_result_may_replace_its_input() {
    let scratch = with_tables("query_in_place");
    scratch.ok("sort people.csv --by id -o people.csv");
    let text = fs::read_to_string(scratch.0.join("people.csv")).unwrap();
    assert_eq!(first_fields(&text), ["1", "2", "3", "4", "5", "6", "7"]);
    assert_eq!(scratch.names("."), ["cities.csv", "people.csv"]);
}

/// Runs the command with a text on its standard input.
fn fed(scratch: &Scratch, words: &str, text: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.args(words.split(' ')).current_dir(&scratch.0).env("XDG_STATE_HOME", state_home());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(text);
    child.wait_with_output().unwrap()
}

#[test]
fn tables_come_from_standard_input_and_go_to_standard_output() {
    let scratch = with_tables("query_stdin");
    let people = fs::read(scratch.0.join("people.csv")).unwrap();
    let output = fed(&scratch, "sort - --by id --select id -o -", &people);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "id\n1\n2\n3\n4\n5\n6\n7\n");
    for format in ["parquet", "arrow", "arrow-stream"] {
        let output = fed(&scratch, &format!("sort - --by id -o - --format {format}"), &people);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let again = fed(&scratch, "sort - --by id:desc --select id -o -", &output.stdout);
        assert_eq!(String::from_utf8(again.stdout).unwrap(), "id\n7\n6\n5\n4\n3\n2\n1\n", "{format}");
    }
    let output = fed(&scratch, "sort - --by id -o - --json", &people);
    assert_eq!(first_fields(&String::from_utf8(output.stdout).unwrap()).len(), 7);
    let document = json(&String::from_utf8(output.stderr).unwrap());
    assert_eq!(document["result"]["output_rows"], 7, "the result goes to standard error");
}

#[test]
fn bad_input_is_one_sentence() {
    let scratch = with_tables("query_refused");
    scratch.file("empty", "");
    scratch.file("text.parquet", "PAR1 this is no table PAR1");
    fs::create_dir(scratch.0.join("none")).unwrap();
    for (words, expected) in [
        ("sort", "required arguments"),
        ("sort people.csv -o x.csv", "--by"),
        ("sort people.csv --by id", "no output for the sorted rows"),
        ("sort people.csv --by id --limit 1001", "no output for the sorted rows"),
        ("sort nowhere.csv --by id -o x.csv", "nowhere.csv"),
        ("sort empty --by id -o x.csv", "empty"),
        ("sort text.parquet --by id -o x.csv", "text.parquet"),
        ("sort none --by id -o x.csv", "none"),
        ("sort people.csv --by ide -o x.csv", "ide"),
        ("sort people.csv --by id:down -o x.csv", "down"),
        ("sort people.csv --by id -o x.txt", "the format does not follow from the name"),
        ("sort people.csv --by id -o nowhere/x.csv", "nowhere"),
        ("sort people.csv --by id -o none --format csv", "none"),
        ("sort people.csv --by id -o x.csv --compression zstd", "CSV is not compressed"),
        ("sort people.csv --by id -o x.arrow --compression snappy", "lz4 and zstd"),
        ("sort people.csv --by id -o x.csv --memory 1MiB", "--memory"),
        ("sort people.csv --by id -o x.csv --memory x", "--memory"),
        ("sort people.csv --by id -o x.csv --method mmap:4", "tables are read and written by"),
        ("sort people.csv --by id -o x.csv --method preads", "is not a method"),
        ("sort people.csv --by id -o x.csv --block 1", "give 4KiB to 2GiB"),
        ("sort people.csv --by id -o x.csv --block 64MiB --threads 4", "--threads 4 needs --memory 1639MiB"),
        ("sort people.csv --by id -o x.csv --spill people.csv", "it is not a directory"),
        ("sort people.csv --by id -o x.csv --threads 0", "1..=1024"),
        ("sort people.csv --by id -o x.csv --where height>", "height>"),
        ("sort people.csv --by id -o x.csv --where heigt>1", "heigt"),
        ("sort people.csv --by id -o x.csv --where name", "name"),
        ("sort people.csv cities.csv --by id -o x.csv", "cities.csv"),
        ("sort people.csv --by id -o x.csv --out people.csv", "--out needs a directory"),
        ("join people.csv cities.csv --on city", "no output for the joined rows"),
        ("join people.csv cities.csv --on town -o x.csv", "town"),
        ("join people.csv cities.csv --on name=city -o x.csv", "name"),
        ("join people.csv cities.csv --on city --kind outer -o x.csv", "outer"),
        ("aggregate people.csv", "no aggregate to compute"),
        ("aggregate people.csv --sum name", "name"),
        ("aggregate people.csv --by town --count", "town"),
        ("query q1 people.csv", "l_"),
        ("query gen --sf 0 -o x", "scale factor of 0"),
        ("query gen --sf NaN -o x", "scale factor of NaN"),
        ("query gen --sf 0.01 --tables line -o x", "line"),
        ("query gen --sf 0.01 --tables orders --columns o_nothing -o x", "none of them"),
        ("query gen --sf 0.01 --tables orders --columns o_orderkey,o_nothing -o x", "o_nothing"),
    ] {
        let said = scratch.refused(words);
        assert!(said.starts_with("sakiyomi: ") && said.contains(expected), "{words}: {said}");
        for jargon in ["panicked", "error:", "os error", "Arrow error", "ParquetError"] {
            assert!(!said.contains(jargon), "{words}: {said}");
        }
    }
    assert_eq!(
        scratch.names("."),
        ["cities.csv", "empty", "none", "people.csv", "text.parquet"],
        "nothing is left"
    );
}

/// Runs a shell line that contains the command.
fn shell(scratch: &Scratch, line: &str) -> Output {
    let line = line.replace("sakiyomi ", concat!(env!("CARGO_BIN_EXE_sakiyomi"), " "));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(line).current_dir(&scratch.0).env("XDG_STATE_HOME", state_home());
    shell.output().unwrap()
}

#[test]
fn a_closed_pipe_is_not_an_error_and_a_closed_output_is_one() {
    let scratch = with_tables("query_pipe");
    let many: String = (0..200_000).map(|id| format!("{},x{id}\n", id * 7919 % 200_000)).collect();
    scratch.file("many.csv", format!("id,name\n{many}"));
    let output = shell(&scratch, "sakiyomi sort many.csv --by id -o - | head -n 2");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "id,name\n0,x0\n");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = shell(&scratch, "sakiyomi sort people.csv --by id -o - >&-");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("sakiyomi: ") && said.contains("standard output"), "{said}");
}

#[test]
fn a_result_that_does_not_fit_leaves_nothing() {
    let scratch = with_tables("query_full");
    let output = shell(&scratch, "ulimit -f 0; sakiyomi sort people.csv --by id -o sorted.parquet");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("sakiyomi: ") && said.contains("sorted.parquet"), "{said}");
    assert_eq!(scratch.names("."), ["cities.csv", "people.csv"]);
}

fn ends_soon(child: &mut Child) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn ctrl_c_ends_a_job_and_leaves_nothing() {
    let scratch = Scratch::new("query_interrupted");
    for (words, name) in [
        ("query gen --sf 100 --shuffle 1 --tables lineitem -o made --out report", "made"),
        ("sort - --by id -o sorted.csv --out report", "report"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command.args(words.split(' ')).arg("--spill").arg(&scratch.0).current_dir(&scratch.0);
        command.env("XDG_STATE_HOME", state_home()).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let begun = Instant::now();
        while !scratch.0.join(name).exists() && begun.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        ends_soon(&mut child);
        drop(input);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(130), "{words}: {said}");
        assert!(scratch.names(".").is_empty(), "{words}: {:?}", scratch.names("."));
    }
}

/// The command with calibrations of its own.
fn calibrated(scratch: &Scratch, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.args(words.split_whitespace()).current_dir(&scratch.0);
    command.env("XDG_STATE_HOME", scratch.0.join("state")).output().unwrap()
}

#[test]
fn jobs_of_a_calibration_correct_predictions_if_the_storage_was_measured_before() {
    let scratch = with_tables("query_calibrated");
    let system = Command::new("stat").args(["-f", "-c", "%T", "."]).current_dir(&scratch.0).output();
    if system.is_ok_and(|system| system.stdout == b"tmpfs\n") {
        // Nothing is written cold there, so that `probe` cannot measure what a prediction needs.
        return skipped("jobs_of_a_calibration", "needs a writable directory that is not a tmpfs");
    }
    let ok = |words: &str| {
        let output = calibrated(&scratch, words);
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{words}: {stderr}");
        (stdout, stderr)
    };
    let refused = calibrated(&scratch, "query calibrate --glance --dir .");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("sakiyomi probe . --op read,write"), "{said}");
    ok(
        "probe . --op read,write --method read,pread:2 --block 64KiB,1MiB --size 4MiB --buffered --cached --runtime 20ms \
        --repetitions 1 --no-control-runs --quiet",
    );
    let (document, _) = ok("query calibrate --glance --dir . --quiet --json");
    let corrections = &json(&document)["result"]["operators"]["corrections"];
    assert!(corrections["jobs"].as_u64().unwrap() > 0, "{corrections}");
    let (text, _) = ok("query explain --analyze sort people.csv --by id --spill . -o sorted.csv");
    assert!(text.contains("\u{b1}") && text.contains("without corrections"), "{text}");
    let (document, _) = ok("query explain sort people.csv --by id --spill . -o sorted.csv --json");
    let prediction = &json(&document)["result"]["prediction"];
    for phase in prediction["phases"].as_array().unwrap().iter().chain([prediction]) {
        assert!(phase["uncertainty"]["elapsed_ratio"].as_f64().unwrap() >= 0.0, "{phase}");
        assert!(phase["comparison"]["uncorrected_ns"].is_u64(), "{phase}");
    }
    assert_eq!(scratch.names("."), ["cities.csv", "people.csv", "sorted.csv", "state"]);
}
