//! The command on real data: what a user types, and the output.

use std::fs;

use crate::scratch::{Scratch, json, repository};

/// Returns the first requests of a server's volume.
fn real_trace() -> String {
    repository("traces/msr_hm0.csv.gz")
}

#[test]
fn a_real_trace_gives_the_same_result_each_time_and_parts_that_add_up() {
    let scratch = Scratch::new("real_trace");
    let words = format!("sim {} --drive deskstar-7k250 --json", real_trace());
    let (first, second) = (json(&scratch.ok(&words)), json(&scratch.ok(&words)));
    assert_eq!(first["result"], second["result"]);
    let result = &first["result"];
    let number = |key: &str| result[key].as_u64().unwrap_or_else(|| panic!("{key} is missing"));
    assert_eq!((number("commands"), number("reads"), number("writes")), (1000, 508, 492));
    let classes = ["full_hits", "active_hits", "near_misses", "purged_misses", "pure_misses"];
    assert_eq!(classes.iter().map(|class| number(class)).sum::<u64>(), 508);
    let times = result["disk_time_ns"].as_object().unwrap();
    assert_eq!(times.len(), 5);
    assert_eq!(times.values().map(|time| time.as_u64().unwrap()).sum::<u64>(), number("simulated_ns"));
    for key in ["mean", "p50", "p90", "p99", "p999", "max"] {
        assert!(result["response_ns"][key].as_u64().unwrap() > 0, "{key}");
    }
    assert!(first["run"]["wall_ns"].as_u64().unwrap() > 0);
}

#[test]
fn the_published_comparison_comes_out_with_every_sign() {
    let scratch = Scratch::new("published");
    scratch.ok("trace generate pc pc.csv");
    for (out, size) in [("short", "64KiB"), ("long", "384KiB")] {
        let ahead = format!("--set cache.read_ahead.min={size} --set cache.read_ahead.max={size}");
        scratch.ok(&format!("sim pc.csv --drive deskstar-7k250 {ahead} --out {out}"));
    }
    let text = scratch.ok("compare short long --out comparison");
    assert!(text.contains("but\nthe worst rises") || text.contains("but the worst rises"), "{text}");
    let [a, b] = ["short", "long"]
        .map(|out| json(&fs::read_to_string(scratch.0.join(out).join("result.json")).unwrap()));
    let number = |of: &serde_json::Value, path: &str| of["result"].pointer(path).unwrap().as_f64().unwrap();
    let seeks = |of| {
        ["read", "read_near_miss", "write"]
            .iter()
            .map(|kind| number(of, &format!("/seeks/{kind}")))
            .sum::<f64>()
    };
    let (short, long) = (number(&a, "/hit_ratio"), number(&b, "/hit_ratio"));
    assert!((0.37..0.42).contains(&short), "published 39.2 %, here {short}");
    assert!((0.70..0.74).contains(&long), "published 72.4 %, here {long}");
    assert!(seeks(&b) < 0.55 * seeks(&a), "published: 6908 to 3209, here {} to {}", seeks(&a), seeks(&b));
    assert!(number(&b, "/disk_time_ns/idle") > number(&a, "/disk_time_ns/idle"));
    assert!(number(&b, "/response_ns/mean") < number(&a, "/response_ns/mean"));
    assert!(number(&b, "/response_ns/max") > number(&a, "/response_ns/max"), "the worst response gets worse");
    assert!(number(&b, "/near_misses") < 0.2 * number(&a, "/near_misses"));
    assert!(number(&b, "/full_hits") > 2.0 * number(&a, "/full_hits"));
    let report = fs::read_to_string(scratch.0.join("comparison/report.html")).unwrap();
    let markdown = fs::read_to_string(scratch.0.join("comparison/report.md")).unwrap();
    assert!(markdown.starts_with("<!-- sakiyomi ") && markdown.contains("](hits.svg)"), "{markdown}");
    assert!(!report.contains("src=\"http") && !report.contains("href=\"http"), "the page loads nothing");
}

#[test]
fn a_check_that_was_asked_for_fails_with_exit_code_1() {
    let scratch = Scratch::new("fail_if");
    for (out, size) in [("a", "64KiB"), ("b", "384KiB")] {
        let trace = real_trace();
        scratch
            .ok(&format!("sim {trace} --drive deskstar-7k250 --set cache.read_ahead.max={size} --out {out}"));
    }
    scratch.ok("compare a b --fail-if hit_ratio<-1% --fail-if seeks.read>0%");
    let output = scratch.run("compare a b --fail-if hit_ratio>+1%");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("sakiyomi: hit_ratio: 0."));
    let said = scratch.refused("compare a b --fail-if hits>1%");
    assert!(said.contains("the results have no figure hits"), "{said}");
}

#[test]
fn a_result_says_how_the_trace_was_replayed() {
    let scratch = Scratch::new("replay");
    let words =
        format!("sim {} --drive deskstar-7k250 --closed-loop --outstanding 8 --wrap --json", real_trace());
    let result = &json(&scratch.ok(&words))["result"];
    assert_eq!(result["replay"].to_string(), r#"["closed loop, 8 outstanding","wrapped"]"#);
    let bounded = format!("sim {} --drive deskstar-7k250 --host-queue 4 --json", real_trace());
    assert!(json(&scratch.ok(&bounded))["result"]["host_queue"]["held_back"].as_u64().unwrap() > 0);
}

#[test]
fn logs_agree_with_the_result_in_both_formats() {
    let scratch = Scratch::new("logs");
    let words = format!("sim {} --drive deskstar-p7k500 --chunk commands=100 --out", real_trace());
    scratch.ok(&format!("{words} text --log csv"));
    scratch.ok(&format!("{words} columns --log parquet"));
    let lines = |name: &str| fs::read_to_string(scratch.0.join("text").join(name)).unwrap();
    let commands = lines("commands.csv");
    assert_eq!(commands.lines().count(), 1001);
    let result = json(&lines("result.json"));
    let full_hits = commands.lines().filter(|line| line.contains(",full_hit,")).count() as u64;
    assert_eq!(result["result"]["full_hits"].as_u64(), Some(full_hits));
    let seeks = &result["result"]["seeks"];
    let seeks: u64 =
        ["read", "read_near_miss", "write"].iter().map(|kind| seeks[kind].as_u64().unwrap()).sum();
    // An access that is still in flight at the end of the last command has started, but is not in a log yet.
    let accesses = lines("disk.csv").lines().count() as u64 - 1;
    assert!(accesses == seeks || accesses + 1 == seeks, "{accesses} accesses, {seeks} seeks");
    assert_eq!(lines("chunks.csv").lines().count(), 11);
    assert!(lines("cache.csv").contains(",fill,"));
    for name in ["commands", "cache", "disk", "chunks"] {
        let packed = fs::read(scratch.0.join("columns").join(format!("{name}.parquet"))).unwrap();
        assert_eq!((&packed[..4], &packed[packed.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]), "{name}");
    }
}

#[test]
fn a_sweep_tries_every_combination_and_marks_the_undominated() {
    let scratch = Scratch::new("sweep");
    let vary = "--vary cache.read_ahead.max=64KiB,256KiB --vary cache.segments.count=4,8,16";
    let document =
        json(&scratch.ok(&format!("sweep {} --drive deskstar-7k250 {vary} --out out --json", real_trace())));
    let points = document["result"]["points"].as_array().unwrap();
    let values: Vec<String> = points.iter().map(|point| point["values"].to_string()).collect();
    assert_eq!(values[..2], [r#"["64KiB","4"]"#, r#"["64KiB","8"]"#]);
    assert_eq!(points.len(), 6);
    assert!(points.iter().any(|point| point["undominated"] == true));
    let names = scratch.names("out");
    assert!(
        ["points.parquet", "report.html", "result.json"].iter().all(|name| names.iter().any(|n| n == name))
    );
}

/// A program that waits as long as it computes, unless its file is prefetched.
const SCENARIO: &str = "
    name = 'a filter on a network drive'
    drive.fixed = 'latency=3.5ms,parallel=64'
    published = [
        { at = { 'prefetch.limit' = 'off' }, elapsed = '0.5s' },
        { at = { 'prefetch.limit' = '4MiB' }, elapsed = '0.25s' },
    ]
    vary = { 'prefetch.limit' = ['off', '4MiB', 'auto'] }
    [[process]]
    name = 'filter'
    size = '16MiB'
    compute = '37MB'
    [queue]
    plug_ticks = 1
    [cpu]
    tick = '10ms'
";

#[test]
fn a_scenario_gives_the_same_result_each_time_with_what_was_published_beside() {
    let scratch = Scratch::new("scenario");
    fs::write(scratch.0.join("filter.toml"), SCENARIO).unwrap();
    let words = "scenario run filter.toml --json --out out";
    let (first, second) = (json(&scratch.ok(words)), json(&scratch.ok(words)));
    assert_eq!(first["schema"], "sakiyomi.scenario/1");
    assert_eq!(first["result"], second["result"]);
    let points = first["result"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    assert_eq!(points[1]["published_speedup_ratio"], 1.0);
    assert_eq!(points[0]["elapsed_ns"], points[1]["plain_elapsed_ns"]);
    assert!(points[1]["speedup_ratio"].as_f64().unwrap() > 0.3, "{}", points[1]);
    let names = scratch.names("out");
    assert_eq!(names, ["report.html", "report.md", "result.json", "times.svg"]);
    let varied = json(
        &scratch
            .ok("scenario run filter.toml --json --vary prefetch.limit=off --vary cpu.cores=1,2 --seed 7"),
    );
    assert_eq!(varied["result"]["varied"].to_string(), r#"["cpu.cores","prefetch.limit"]"#);
    assert_eq!(varied["result"]["points"].as_array().unwrap().len(), 2);
}

/// Four readers, one of which requests a fifth of the drive.
const REGULATED: &str = "
    name = 'four readers'
    run = { repetitions = 2, until = 'first', warm_up = '1s', cool_down = '1s' }
    drive.model = 'scorpio-wd10tpvx'
    vary = { 'case.policy' = ['thesis', 'deadline'], 'process.target.rate' = ['20', '30'] }
    [[process]]
    name = 'target'
    size = '1GiB'
    call = '4KiB'
    access = 'random'
    direct = true
    reads = 200
    [[process]]
    name = 'other'
    count = 3
    size = '1GiB'
    call = '4KiB'
    access = 'random'
    direct = true
    [case.policy.thesis]
    'regulate.policy' = 'thesis'
    [case.policy.deadline]
    'regulate.policy' = 'deadline'
    [[published]]
    at = { 'process.target.rate' = '20' }
    note = 'as exact as can be'
";

#[test]
fn a_scenario_with_regulated_programs_has_figures_and_pictures_of_its_own() {
    let scratch = Scratch::new("regulated");
    fs::write(scratch.0.join("four.toml"), REGULATED).unwrap();
    let words = "scenario run four.toml --json --out out --repetitions 3";
    let (first, second) = (json(&scratch.ok(words)), json(&scratch.ok(words)));
    assert_eq!(first["result"], second["result"]);
    assert_eq!(first["result"]["repetitions"], 3);
    let points = first["result"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    assert_eq!(points[0]["values"].to_string(), r#"["thesis","20"]"#);
    let regulation = &points[0]["regulation"];
    assert_eq!(regulation["published"].to_string(), r#"["as exact as can be"]"#);
    assert_eq!(regulation["formula_allowance"], 4);
    assert_eq!(regulation["allowances"].as_array().unwrap().len(), 3);
    assert_eq!(regulation["owners"][0]["rate_percent"], 20);
    assert_eq!(
        scratch.names("out"),
        [
            "accuracy.svg",
            "course.svg",
            "distribution.svg",
            "report.html",
            "report.md",
            "result.json",
            "spread.svg",
            "throughput.svg"
        ]
    );
    let text = scratch.ok("scenario run four.toml");
    assert!(text.contains("accuracy") && text.contains("as exact as can be"), "{text}");
    let free = json(&scratch.ok("scenario run four.toml --json --vary process.target.rate=0 --seed 4"));
    assert_eq!(free["result"]["points"][0]["regulation"]["owners"].as_array().unwrap().len(), 0);
}

#[test]
fn regulation_that_cannot_be_is_refused_in_words() {
    let scratch = Scratch::new("regulated_refused");
    fs::write(scratch.0.join("four.toml"), REGULATED).unwrap();
    for (words, sentence) in [
        ("--vary process.target.rate=101", "process.0.rate: 1 to 100 percent of the device"),
        ("--vary process.target.rate=80", "the rate of process target: 80 % cannot be kept"),
        ("--vary case.policy=nobodys", "no such case; the cases are deadline, thesis"),
        ("--vary case.color=red", "write a [case.color.red]"),
        ("--vary regulate.allowance=much", "`much` is not an allowance; write `formula`"),
        ("--vary regulate.policy=fair", "regulate.policy=fair: expected one of formula, thesis, deadline"),
        ("--vary run.warm_up=1h", "make them shorter, or the programs longer"),
        ("--vary run.until=all", "never ends; give it `reads`"),
        ("--repetitions 0", "--repetitions"),
    ] {
        let said = scratch.refused(&format!("scenario run four.toml {words} --out out"));
        assert!(said.contains(sentence), "{words}: {said}");
        assert!(!scratch.0.join("out").exists(), "{words} left something behind");
    }
}

/// Two methods on one and four threads, with published times for some.
const TASKS: &str = "name = 'tasks'\n[drive]\nmodel = 'deskstar-7k250'\n[[job]]\nname = 'wc'\nsize = '20MB'\ncompute = '60MB'\n\
                     [vary]\n'job.wc.method' = ['read', 'blocked-io']\n'job.wc.threads' = ['1', '4']\n\
                     [[published]]\nat = { 'job.wc.method' = 'read', 'job.wc.threads' = '1' }\nelapsed = '700ms'\n\
                     [[published]]\nat = { 'job.wc.method' = 'blocked-io', 'job.wc.threads' = '1' }\nelapsed = '400ms'\n";

#[test]
fn a_scenario_of_jobs_has_a_table_and_a_picture_by_threads() {
    let scratch = Scratch::new("scenario_jobs");
    fs::write(scratch.0.join("tasks.toml"), TASKS).unwrap();
    let result = json(&scratch.ok("scenario run tasks.toml --json --out out"));
    let points = result["result"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    let run = |index: usize| &points[index]["jobs"][0]["runs"][0];
    assert!((0..4).all(|index| run(index)["computed_bytes"] == 20_000_000 && run(index)["read_bytes"] == 20_000_000));
    assert!(run(2)["elapsed_ns"].as_u64() < run(0)["elapsed_ns"].as_u64(), "overlapped, on one thread");
    assert_eq!(points[3]["jobs"][0]["method"], "blocked-io");
    assert_eq!(scratch.names("out"), ["report.html", "report.md", "result.json", "threads.svg"]);
    let text = scratch.ok("scenario run tasks.toml");
    assert!(text.contains("Of 1 pair of methods") && text.contains("1 comes out"), "{text}");
    let said = scratch.refused("scenario run tasks.toml --vary job.wc.order=sorted --out out2");
    assert!(said.contains("job.wc.order=sorted: expected one of file, cached-first"), "{said}");
}

#[test]
fn a_scenario_that_cannot_be_run_is_refused_in_words() {
    let scratch = Scratch::new("scenario_refused");
    fs::write(scratch.0.join("filter.toml"), SCENARIO).unwrap();
    fs::write(scratch.0.join("unknown.toml"), format!("{SCENARIO}\ncolor = 1\n")).unwrap();
    fs::write(scratch.0.join("large.toml"), SCENARIO.replace("parallel=64", "size=1MiB")).unwrap();
    for (words, sentence) in [
        (
            "missing.toml",
            "cannot read the experiment missing.toml: No such file or directory; scenarios/ has examples",
        ),
        ("unknown.toml", "unknown.toml:18: cpu.color: unknown key; `cpu` has cores, tick"),
        ("large.toml", "make them smaller, or the device larger"),
        ("filter.toml --vary memory.sice=1GiB", "memory.sice=1GiB: unknown key; did you mean memory.size?"),
        ("filter.toml --vary process.gzip.size=1GiB", "no process is called `gzip`"),
        ("filter.toml --vary memory.size", "there is no `=`"),
        ("filter.toml --vary memory.size=1kB", "memory.size: at least 16 pages"),
        ("filter.toml --vary drive.model=deskstar-7k250", "drive: name one of `model` and `fixed`"),
    ] {
        let said = scratch.refused(&format!("scenario run {words} --out out"));
        assert!(said.starts_with("sakiyomi: ") && said.contains(sentence), "{words}: {said}");
        assert!(!scratch.0.join("out").exists(), "{words} left something behind");
    }
}

#[test]
fn traces_survive_conversion_there_and_back() {
    let scratch = Scratch::new("convert");
    scratch.ok("trace generate zipf z.csv --count 500 --span 1GB --arrival poisson:50 --reads 0.6");
    for other in ["z.parquet", "z.csv.gz", "z.csv.zst"] {
        scratch.ok(&format!("trace convert z.csv {other}"));
        scratch.ok(&format!("trace convert {other} back.csv"));
        assert_eq!(
            fs::read(scratch.0.join("z.csv")).unwrap(),
            fs::read(scratch.0.join("back.csv")).unwrap(),
            "{other}"
        );
    }
    let info = json(&scratch.ok("trace info z.parquet --json"));
    assert_eq!(
        (info["result"]["records"].as_u64(), info["result"]["devices"].as_u64()),
        (Some(500), Some(1))
    );
    let same_seed = |seed: u32, file: &str| {
        scratch.ok(&format!("trace generate random {file} --count 50 --seed {seed}"));
        fs::read(scratch.0.join(file)).unwrap()
    };
    assert_eq!(same_seed(5, "a.csv"), same_seed(5, "b.csv"));
    assert_ne!(same_seed(5, "a.csv"), same_seed(6, "b.csv"));
}

#[test]
fn bad_input_is_one_sentence_with_place_and_remedy_and_leaves_nothing_behind() {
    let scratch = Scratch::new("bad_input");
    let packed = fs::read(real_trace()).unwrap();
    scratch.file("truncated.gz", &packed[..5000]);
    let lines = "time_ns,op,offset_bytes,length_bytes\n0,read,0,4096\n5,write,8192,4096\n";
    scratch.file("good.csv", lines);
    scratch.file("zero.csv", format!("{lines}6,write,4096,0\n"));
    scratch.file("giant.csv", format!("{lines}6,write,4096,99999999999\n"));
    scratch.file("beyond.csv", format!("{lines}6,read,300000000000,4096\n"));
    scratch.file(
        "back.csv",
        "time_ns,op,offset_bytes,length_bytes\n5000000000,read,0,512\n0,read,0,512\n9,read,0,512\n",
    );
    scratch.file("garbage.csv", format!("{lines}seven,read,0,4096\n"));
    scratch.file("noise", b"\x00\xff\x13garbage\n\n\n");
    scratch.file("empty", "");
    let toml = scratch.ok("drive show deskstar-7k250");
    scratch.file("zones.toml", toml.replacen("sectors_per_track = ", "sectors_per_track = 0 # ", 1));
    scratch.file("words.toml", toml.replacen("rpm = 7200", "rpm = \"fast\"", 1));
    let cases = [
        ("sim truncated.gz", "the gzip data ends early after line"),
        ("sim zero.csv", "zero.csv:4: the write has no length"),
        ("sim giant.csv", "giant.csv:4: the write of 99999999999 bytes is longer than any command"),
        (
            "sim beyond.csv",
            "beyond.csv:4: the record ends at byte 300000004096, but the drive holds 250059350016 bytes",
        ),
        ("sim back.csv", "raise --sort-window"),
        ("sim garbage.csv", "at line 4: the column time_ns holds `seven`"),
        ("sim noise", "is not in a known trace format"),
        ("sim empty", "it holds no line"),
        ("sim missing.csv", "cannot open the trace missing.csv"),
        ("sim zero.csv --drive zones.toml", ": geometry.zones.0: sectors_per_track = 0"),
        ("sim zero.csv --drive words.toml", ": servo.rpm: \"fast\"; expected a number, 100 to 100000"),
        ("sim zero.csv --set cache.sized=1", "no setting is called `cache.sized`; did you mean cache.size"),
        ("sim zero.csv --set queue.depth=257", "queue.depth: 257 commands; expected 1 to 256"),
        ("sweep zero.csv --vary cache.size=", "a value is missing"),
        ("sweep - --vary cache.size=1MiB", "stdin can be read only once"),
        ("sim beyond.csv --warm-up 1h --wrap", "no command completed after the warm-up"),
        (
            "sim good.csv --outstanding 8",
            "only a closed loop has a number of outstanding requests; add --closed-loop",
        ),
        ("sim good.csv --time-scale -1", "the time scale is -1, but must be a number of at least 0"),
        (
            "sim good.csv --drive missing.toml",
            "missing.toml: No such file or directory; `sakiyomi drive show NAME` prints one as a starting point",
        ),
        ("sweep good.csv --vary queue.depth=1 --vary queue.depth=2", "--vary queue.depth is given twice"),
    ];
    for (words, sentence) in cases {
        let drive = if words.contains("--drive") { "" } else { "--drive deskstar-7k250" };
        let log = if words.starts_with("sim") { "--log csv" } else { "" };
        let said = scratch.refused(&format!("{words} {drive} --out out {log}"));
        assert!(said.starts_with("sakiyomi: ") && said.contains(sentence), "{words}: {said}");
        assert!(!scratch.0.join("out").exists(), "{words} left something behind: {:?}", scratch.names("out"));
    }
}

#[test]
fn a_failed_run_leaves_the_results_of_the_one_before() {
    let scratch = Scratch::new("kept");
    scratch.ok(&format!("sim {} --drive deskstar-7k250 --out out --log csv", real_trace()));
    let before =
        scratch.names("out").into_iter().map(|name| fs::read(scratch.0.join("out").join(name)).unwrap());
    let before: Vec<Vec<u8>> = before.collect();
    let packed = fs::read(real_trace()).unwrap();
    scratch.file("truncated.gz", &packed[..9000]);
    scratch.refused("sim truncated.gz --drive deskstar-7k250 --out out --log csv");
    let after =
        scratch.names("out").into_iter().map(|name| fs::read(scratch.0.join("out").join(name)).unwrap());
    assert_eq!(before, after.collect::<Vec<_>>());
}

#[test]
fn outputs_that_cannot_be_are_refused_by_name() {
    let scratch = Scratch::new("outputs");
    scratch.file("file", "");
    let sim = format!("sim {} --drive deskstar-7k250 --out file", real_trace());
    assert!(scratch.refused(&sim).contains("file is a file, and --out needs a directory"));
    let packed = scratch.refused("trace generate random twice.parquet.gz --count 1");
    assert!(packed.contains("Parquet packs by itself"), "{packed}");
    assert!(scratch.refused("compare . .").contains("no result.json in ."));
    assert!(scratch.refused("man --out file").contains("file is a file, and --out needs a directory"));
    assert_eq!(scratch.names("."), ["file"]);
}

#[test]
fn what_cannot_be_written_is_known_before_the_work_is_done() {
    let scratch = Scratch::new("early");
    fs::create_dir_all(scratch.0.join("full/result.json")).unwrap();
    // The traces do not exist: a command that opens them first has started to work too early.
    for words in [
        "sim missing --drive deskstar-7k250 --out full",
        "sweep missing --drive deskstar-7k250 --vary queue.depth=1,2 --out full",
        "validate missing --drive deskstar-7k250 --out full",
        "drive fit missing --drive deskstar-7k250 --out full/result.json",
        "probe . --size 4KiB --block 4KiB --calibration full/result.json",
    ] {
        let said = scratch.refused(words);
        assert!(said.contains("cannot write full/result.json: is a directory"), "{words}: {said}");
    }
    assert_eq!(scratch.names("full"), ["result.json"]);
}

#[test]
fn json_is_one_object_with_schema_and_result() {
    let scratch = Scratch::new("json");
    let sim = format!("{} --drive deskstar-7k250", real_trace());
    let sweep = format!("sweep {sim} --vary queue.depth=1,32");
    let info = format!("trace info {}", real_trace());
    scratch.ok(&format!("sim {sim} --out r"));
    let list = ["drive list", "drive show nearline-18tb", "doctor", "trace formats", "compare r r"];
    let generate = "trace generate random r.csv --count 9";
    for words in list.into_iter().chain([&*sweep, &*info, generate]) {
        let document = json(&scratch.ok(&format!("{words} --json")));
        assert!(document["schema"].as_str().is_some_and(|schema| schema.starts_with("sakiyomi.")), "{words}");
        assert!(!document["result"].is_null(), "{words}");
    }
}

#[test]
fn chunks_are_of_a_known_kind_and_a_sensible_size() {
    let scratch = Scratch::new("chunks");
    let refused = |chunk: &str| {
        scratch.refused(&format!("sim {} --drive deskstar-7k250 --chunk {chunk}", real_trace()))
    };
    assert!(refused("time=1us").contains("it must be at least 1ms"));
    assert!(refused("commands=0").contains("it must be more than 0"));
    assert!(refused("events=5").contains("a chunk is given in time, bytes or commands"));
    for chunk in ["time=1ms", "bytes=1MiB", "commands=7"] {
        let words = format!("sim {} --drive deskstar-7k250 --json --chunk {chunk}", real_trace());
        let result = &json(&scratch.ok(&words))["result"];
        let chunks = result["chunks"].as_array().unwrap();
        let sum = |key: &str| chunks.iter().map(|chunk| chunk[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(
            (sum("commands"), sum("full_hits")),
            (1000, result["full_hits"].as_u64().unwrap()),
            "{chunk}"
        );
        assert!(chunks.len() <= 2001);
    }
}

#[test]
fn many_devices_are_asked_about() {
    let scratch = Scratch::new("devices");
    scratch
        .file("two.csv", "time_ns,device,op,offset_bytes,length_bytes\n0,1,read,0,512\n5,2,read,512,512\n");
    let said = scratch.refused("sim two.csv --drive deskstar-7k250");
    assert!(said.contains("--device 1") && said.contains("--map concat"), "{said}");
    let one = json(&scratch.ok("sim two.csv --drive deskstar-7k250 --device 2 --json"));
    let both = json(&scratch.ok("sim two.csv --drive deskstar-7k250 --map concat --json"));
    assert_eq!((one["result"]["commands"].as_u64(), both["result"]["commands"].as_u64()), (Some(1), Some(2)));
}

#[test]
fn the_tools_around_it_work() {
    let scratch = Scratch::new("tools");
    assert!(scratch.ok("completions bash").contains("complete -F _sakiyomi"));
    assert!(scratch.ok("man").starts_with(".TH \"SAKIYOMI\" \"1\""));
    scratch.ok("man --out pages");
    assert!(scratch.names("pages").contains(&"sakiyomi-sim.1".to_owned()));
    assert!(scratch.names("pages").contains(&"sakiyomi-validate.1".to_owned()));
    assert!(json(&scratch.ok("doctor --json"))["result"]["findings"].as_array().unwrap().len() >= 5);
    assert_eq!(json(&scratch.ok("drive list --json"))["result"].as_array().unwrap().len(), 8);
    let toml = scratch.ok("drive show nearline-18tb");
    assert!(toml.contains("# "), "a built-in drive is shown with its sources");
    scratch.file("copy.toml", toml);
    let (own, copy) =
        (scratch.ok("drive show nearline-18tb --json"), scratch.ok("drive show copy.toml --json"));
    assert_eq!(own, copy);
    assert!(scratch.ok("drive show nearline-18tb --explain").contains("servo.rpm = 7200"));
    assert!(scratch.ok("trace formats").lines().count() >= 13);
}
