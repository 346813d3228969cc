//! Mistyped command lines: one prefix, a sentence of sakiyomi's, the nearest name; files of other programs stay
//! intact.

use std::fs;

use crate::scratch::{Scratch, json, repository};

fn trace() -> String {
    repository("traces/msr_hm0.csv.gz")
}

#[test]
fn every_refusal_begins_with_our_name_and_repeats_no_message_of_a_library() {
    let scratch = Scratch::new("mistakes_prefix");
    let sim = format!("sim {}", trace());
    scratch.file("latin.toml", b"name = \"\xff\"\n");
    scratch.file("no.json", "{");
    scratch.file("other.json", "{\"schema\":\"sakiyomi.sim/1\",\"result\":{}}");
    for (words, sentence) in [
        ("frobnicate".to_owned(), "unrecognized subcommand 'frobnicate'"),
        ("swep x".to_owned(), "a similar subcommand exists: 'sweep'"),
        ("sim".to_owned(), "required arguments were not provided"),
        (format!("{sim} --drive deskstar-7k250 --outstanding x"), "expected a whole number, such as 3"),
        (format!("{sim} --drive deskstar-7k250 --time-scale x"), "expected a number, such as 0.5"),
        (format!("{sim} --drive deskstar-7k250 --warm-up 5"), "the unit is missing"),
        (format!("{sim} --drive deskstar-7k250 --format sakyomi"), "; did you mean sakiyomi?"),
        (format!("{sim} --drive deskstar-7k25"), "; did you mean deskstar-7k250?"),
        (format!("{sim} --drive Deskstar-7K250"), "; did you mean deskstar-7k250?"),
        (
            format!("{sim} --drive deskstar-7k250 --set cache.segments.cont=3"),
            "; did you mean cache.segments.count?",
        ),
        (
            format!("{sim} --drive deskstar-7k250 --set servo.rpm=NaN"),
            "servo.rpm=NaN: expected a number, 100 to 100000",
        ),
        (format!("{sim} --drive deskstar-7k250 --set servo.write_settle=-50ms"), "expected -1.1ms or more"),
        (
            format!("{sim} --drive deskstar-7k250 --set geometry.sector=4096"),
            "makes a drive of 2000.475 GB instead of 250.059 GB",
        ),
        (
            format!("sweep {} --drive deskstar-7k250 --vary geometry.sector=512,4096", trace()),
            "makes a drive of",
        ),
        (
            format!("sweep {} --drive deskstar-7k250 --vary queue.dpth=1,2", trace()),
            "; did you mean queue.depth?",
        ),
        (
            format!("sweep {} --drive deskstar-7k250 --vary cache.size=64KiB,65536", trace()),
            "64KiB and 65536 are the same value",
        ),
        (
            format!("sweep {} --drive deskstar-7k250 --vary queue.depth=1,2,1", trace()),
            "the value 1 is given twice",
        ),
        (format!("{sim} --drive deskstar-7k250 --set =5"), "--set =5: the key is missing"),
        (format!("{sim} --drive deskstar-7k250 --set name="), "the drive: name: it is empty"),
        ("drive import mine.toml".to_owned(), "the file is TOML already; pass it to --drive"),
        (format!("{sim} --drive latin.toml"), "cannot read the drive latin.toml: it is not UTF-8 text"),
        (format!("{sim} --drive missing.toml"), "missing.toml: No such file or directory; "),
        (
            "compare no.json no.json".to_owned(),
            "not a result of `sakiyomi sim`: it is not JSON from line 1 on",
        ),
        ("compare other.json other.json".to_owned(), "but not all of its figures; make it again"),
        ("trace info /".to_owned(), "/"),
        ("probe /missing --size 4KiB".to_owned(), "/missing"),
        ("scenario run missing.toml".to_owned(), "missing.toml: No such file or directory"),
        ("probe . --method pred".to_owned(), "; did you mean pread?"),
        ("wc --method urign x".to_owned(), "; did you mean uring?"),
        ("wc --frob".to_owned(), "wc: unexpected argument"),
    ] {
        let output = scratch.run(&words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && !output.status.success(), "{words}");
        assert!(said.starts_with("sakiyomi: ") && said.contains(sentence), "{words}: {said}");
        for jargon in ["error:", "os error", "invalid type", "invalid digit", "f64", "expected value at line"]
        {
            assert!(!said.contains(jargon), "{words}: {said}");
        }
    }
}

#[test]
fn a_foreign_file_in_the_directory_of_a_result_is_not_overwritten_unasked() {
    let scratch = Scratch::new("mistakes_out");
    let trace = trace();
    let sim = format!("sim {trace} --drive deskstar-7k250 --quiet");
    let put = |name: &str, text: &str| {
        fs::create_dir_all(scratch.0.join(name).parent().unwrap()).unwrap();
        scratch.file(name, text)
    };
    let theirs = "<!DOCTYPE html><html><head><title>Balance sheet</title></head></html>";
    put("page/report.html", theirs);
    put("markdown/report.md", "# Balance sheet\n");
    put("result/result.json", "{\"total\": 3}");
    put("picture/seeks.svg", "<svg/>");
    put("log/commands.csv", "a,b\n");
    put("points/points.parquet", "PAR1");
    // The trace does not exist: a command that reports that first has started to work too early.
    let missing = "missing --drive deskstar-7k250";
    for (words, file) in [
        (format!("sim {missing} --out page"), "page/report.html"),
        (format!("sim {missing} --out markdown"), "markdown/report.md"),
        (format!("sim {missing} --out result"), "result/result.json"),
        (format!("sim {missing} --out picture"), "picture/seeks.svg"),
        (format!("sim {missing} --out log --log csv"), "log/commands.csv"),
        (format!("sweep {missing} --vary queue.depth=1,2 --out points"), "points/points.parquet"),
        (format!("validate {missing} --out result"), "result/result.json"),
        ("probe . --size 4KiB --block 4KiB --out page".to_owned(), "page/report.html"),
    ] {
        let said = scratch.refused(&words);
        let told = format!("sakiyomi: {file} exists and was not written by sakiyomi; name another directory");
        assert!(said.starts_with(&told) && said.contains("--force"), "{words}: {said}");
    }
    assert_eq!(fs::read_to_string(scratch.0.join("page/report.html")).unwrap(), theirs);
    assert_eq!(scratch.names("page"), ["report.html"]);
    // Files that the command does not write are not checked.
    scratch.ok(&format!("{sim} --out log"));
    assert_eq!(fs::read_to_string(scratch.0.join("log/commands.csv")).unwrap(), "a,b\n");
    // Files that sakiyomi wrote are overwritten, including their logs; with --force, all files are.
    scratch.ok(&format!("{sim} --out own --log csv"));
    scratch.ok(&format!("{sim} --out own --log csv"));
    scratch.ok(&format!("{sim} --out page --force"));
    assert!(fs::read_to_string(scratch.0.join("page/report.html")).unwrap().contains("name=\"generator\""));
    assert!(scratch.refused(&format!("{sim} --force")).contains("--out <DIR>"));
}

#[test]
fn combinations_that_come_to_the_same_drive_are_marked_with_the_limit() {
    let scratch = Scratch::new("mistakes_same");
    let words = format!(
        "sweep {} --drive deskstar-7k250 --set cache.segments.count=32 --vary cache.read_ahead.max=64KiB,256KiB,512KiB",
        trace()
    );
    let result = json(&scratch.ok(&format!("{words} --json --out out")))["result"].clone();
    let points = result["points"].as_array().unwrap();
    assert!(points[0].get("same_drive_as_point").is_none() && points[0].get("limits").is_none());
    assert_eq!(points[2]["same_drive_as_point"], 1);
    let limit = &points[2]["limits"][0];
    assert_eq!(
        (limit["key"].as_str(), limit["acts_as"].as_str()),
        (Some("cache.read_ahead.max"), Some("256KiB"))
    );
    assert_eq!(limit["limited_by"].to_string(), r#"["cache.size","cache.segments.count"]"#);
    assert_eq!(points[1]["response_mean_ns"], points[2]["response_mean_ns"]);
    let text = scratch.ok(&words);
    assert!(
        text.contains("same drive as") && text.contains("512KiB acts as 256KiB: cache.size and"),
        "{text}"
    );
    let page = fs::read_to_string(scratch.0.join("out/report.html")).unwrap();
    assert!(page.contains("same drive as") && page.contains("512KiB acts as 256KiB"));
}
