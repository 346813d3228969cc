//! Runs of many points in shards: merged they are the bytes of a single run, and what is not one run is refused.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use proptest::prelude::*;
use sakiyomi_testing::skipped;

use crate::scratch::{Scratch, json, repository};

/// A sweep of 1,000 points; those without SPTF are of the same drives whatever the weight.
const THOUSAND: &str = "sweep few.csv --wrap --drive small.toml \
     --vary queue.age_weight=0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9 \
     --vary cache.segments.count=1,2,3,4,5,6,7,8,9,10 --vary queue.depth=1,2,3,4,5 --vary queue.policy=sptf,look";
const SMALL: &str =
    "sweep few.csv --wrap --drive small.toml --vary queue.depth=1,2,4 --vary queue.policy=look,sptf";

/// The mechanism of a drive that is made quickly: a thousand points are cheap.
const SMALL_DRIVE: &str = "
    name = 'a small drive'
    [geometry]
    sector = '512B'
    heads = 2
    layout = 'cylinder'
    sectors = 1200000
    zones = [{ cylinders = 1000, sectors_per_track = 600 }]
    [servo]
    rpm = 5400
    head_switch = '1.6ms'
    seek = { curve = 'datasheet', track_to_track = '2.0ms', average = '12.0ms', full_stroke = '21.0ms' }
";

/// Points with and without prefetching, random places, and repetitions.
const SCENARIO: &str = "
    name = 'two programs'
    drive.model = 'deskstar-7k250'
    run.repetitions = 2
    vary = { 'prefetch.limit' = ['off', '4MiB', 'auto'], 'memory.size' = ['16MiB', '64MiB'] }
    [[process]]
    name = 'filter'
    size = '4MiB'
    compute = '37MB'
    [[process]]
    name = 'reader'
    access = 'random'
    size = '8MiB'
    reads = 50
";

fn scratch(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    scratch.ok(&format!("trace convert {} whole.csv", repository("traces/msr_hm0.csv.gz")));
    let whole = fs::read_to_string(scratch.0.join("whole.csv")).unwrap();
    let few: Vec<&str> = whole.lines().take(20).collect();
    scratch.file("few.csv", few.join("\n") + "\n");
    scratch.file("two.toml", SCENARIO);
    let shown = scratch.ok("drive show scorpio-wd1200bevs");
    let queue_and_rest = shown.find("[queue]").unwrap();
    scratch.file("small.toml", SMALL_DRIVE.to_owned() + &shown[queue_and_rest..]);
    scratch
}

fn start(scratch: &Scratch, words: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.args(words.split_whitespace()).current_dir(&scratch.0).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Runs all shards of a run, the last one first.
fn run_shards(scratch: &Scratch, words: &str, count: u32, out: &str) {
    for number in (1..=count).rev() {
        scratch.ok(&format!("{words} --shard {number}/{count} --out {out}"));
    }
}

fn files(scratch: &Scratch, directory: &str) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| {
        let content = fs::read(scratch.0.join(directory).join(&name)).unwrap();
        (name, content)
    };
    scratch.names(directory).into_iter().map(read).collect()
}

/// Asserts that two directories have the same files, byte for byte.
fn assert_same_files(scratch: &Scratch, a: &str, b: &str) {
    let (in_a, in_b) = (files(scratch, a), files(scratch, b));
    assert!(in_a.keys().eq(in_b.keys()), "{:?} {:?}", in_a.keys(), in_b.keys());
    for (name, content) in &in_a {
        assert!(*content == in_b[name], "{a}/{name} and {b}/{name} differ");
    }
}

#[test]
fn a_thousand_points_over_four_processes_are_the_bytes_of_a_single_run() {
    let scratch = scratch("shards_thousand");
    let mut shards: Vec<Child> = (1..=4)
        .map(|number| start(&scratch, &format!("{THOUSAND} --shard {number}/4 --out shards")))
        .collect();
    let single = scratch.ok(&format!("{THOUSAND} --reproducible --out single"));
    assert!(shards.iter_mut().all(|shard| shard.wait().unwrap().success()));
    let merged = scratch.ok("merge shards --reproducible --out merged");
    assert_eq!(merged, single);
    assert_same_files(&scratch, "single", "merged");
    let expected = ["points.csv", "points.parquet", "report.html", "report.md", "result.json"];
    assert!(expected.iter().all(|name| scratch.names("merged").iter().any(|there| there == name)));
    let result = json(&fs::read_to_string(scratch.0.join("merged/result.json")).unwrap());
    let points = result["result"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 1000);
    assert!(points.iter().any(|point| point["undominated"] == true));
    assert!(points.iter().any(|point| !point["same_drive_as_point"].is_null()), "a point of another shard");
    assert_eq!(
        result["run"].as_object().unwrap().keys().find(|key| *key != "version" && *key != "commit"),
        None
    );
}

#[test]
fn without_being_reproducible_the_result_is_the_same_and_the_run_says_what_it_took() {
    let scratch = scratch("shards_run");
    let single = json(&scratch.ok(&format!("{SMALL} --json")));
    run_shards(&scratch, SMALL, 3, "shards");
    let merged = json(
        &scratch
            .ok("merge shards/shard-3-of-3.jsonl shards/shard-1-of-3.jsonl shards/shard-2-of-3.jsonl --json"),
    );
    assert_eq!(merged["result"], single["result"]);
    assert_eq!(merged["schema"], single["schema"]);
    assert_eq!(merged["run"]["machine"], single["run"]["machine"]);
    assert!(merged["run"]["wall_ns"].as_u64() > Some(0));
    assert!(merged["run"]["commands_per_s"].as_f64() > Some(0.0));
    assert_eq!(merged["run"]["command"][1], "merge");
    // The output of a shard is about its file.
    let shard = json(&scratch.ok(&format!("{SMALL} --shard 2/3 --out shards --json")));
    assert_eq!(shard["schema"], "sakiyomi.shard-summary/1");
    assert_eq!(shard["result"]["file"], "shards/shard-2-of-3.jsonl");
    assert_eq!(
        (shard["result"]["first_point"].as_u64(), shard["result"]["points"].as_u64()),
        (Some(2), Some(2))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_number_of_shards_gives_the_same_bytes(sweep_shards in 1u32..12, scenario_shards in 1u32..9) {
        let scratch = scratch("shards_any");
        for (words, count) in [(SMALL, sweep_shards), ("scenario run two.toml --seed 5", scenario_shards)] {
            let single = scratch.ok(&format!("{words} --reproducible --json --out single --force"));
            run_shards(&scratch, words, count, "shards");
            let merged = scratch.ok("merge shards --reproducible --json --out merged --force");
            prop_assert_eq!(&merged, &single);
            assert_same_files(&scratch, "single", "merged");
            for directory in ["shards", "single", "merged"] {
                fs::remove_dir_all(scratch.0.join(directory)).unwrap();
            }
        }
    }
}

#[test]
fn shards_that_are_not_those_of_one_run_are_refused_in_a_sentence_that_names_them() {
    let scratch = scratch("shards_refused");
    run_shards(&scratch, SMALL, 2, "a");
    let other = |words: &str, out: &str| scratch.ok(&format!("{words} --shard 2/2 --out {out}"));
    other(&format!("{SMALL} --warm-up 1ms"), "warm");
    other(&SMALL.replace("1,2,4", "1,2,8"), "values");
    other(&format!("{SMALL} --set cache.segments.count=3"), "set");
    other("scenario run two.toml", "scenario");
    other("scenario run two.toml --seed 9", "seed");
    scratch.ok(&format!("{SMALL} --shard 3/3 --out three"));
    scratch.ok("scenario run two.toml --shard 1/2 --out first");
    // The trace now has one more command under the same path.
    let few = fs::read_to_string(scratch.0.join("few.csv")).unwrap();
    let last = few.lines().last().unwrap();
    scratch.file("few.csv", format!("{few}{last}\n"));
    other(SMALL, "content");
    scratch.file("few.csv", &few);
    fs::create_dir(scratch.0.join("empty")).unwrap();
    scratch.file("foreign.jsonl", "{}\n");
    fs::copy(scratch.0.join("a/shard-2-of-2.jsonl"), scratch.0.join("copy.jsonl")).unwrap();
    let one = "a/shard-1-of-2.jsonl";
    for (words, sentence) in [
        (format!("{one} warm/shard-2-of-2.jsonl"), "they differ in how the trace is read and replayed"),
        (format!("{one} values"), "they differ in the varied keys"),
        (format!("{one} set"), "they differ in the settings of the drive"),
        (format!("{one} content"), "they differ in the content of the trace"),
        (format!("{one} scenario"), "one is of `sweep`, the other of `scenario run`"),
        (format!("{one} three"), "one is of 2 shards, the other of 3"),
        ("first seed".to_owned(), "they differ in the experiment, its seed or its repetitions"),
        (
            one.to_owned(),
            "shard 2/2 is missing beside a/shard-1-of-2.jsonl; run the missing shards with --shard",
        ),
        ("three".to_owned(), "shard 1/3, 2/3 are missing beside three/shard-3-of-3.jsonl"),
        (
            "a copy.jsonl".to_owned(),
            "a/shard-2-of-2.jsonl and copy.jsonl are both shard 2 of 2; leave one out",
        ),
        ("empty".to_owned(), "empty has no shards"),
        ("foreign.jsonl".to_owned(), "foreign.jsonl is not a shard of a run"),
        ("few.csv".to_owned(), "few.csv is not a shard of a run"),
        ("nowhere".to_owned(), "cannot read nowhere: No such file or directory"),
    ] {
        let said = scratch.refused(&format!("merge {words} --out merged"));
        assert!(said.starts_with("sakiyomi: ") && said.contains(sentence), "{words}: {said}");
        assert_eq!(said.lines().count(), 1, "{words}: {said}");
        assert!(!scratch.0.join("merged").exists(), "{words}");
    }
    for (words, sentence) in [
        ("--shard 3/2 --out x", "write it like 2/4, the second of four shards"),
        ("--shard 1/2", "--out <DIR>"),
        ("--shard 1/2 --out few.csv", "few.csv is a file, and --out needs a directory"),
    ] {
        let said = scratch.refused(&format!("{SMALL} {words}"));
        assert!(said.contains(sentence), "{words}: {said}");
    }
}

#[test]
fn a_shard_that_was_cut_off_or_damaged_is_refused_and_one_that_was_interrupted_left_nothing() {
    let scratch = scratch("shards_damaged");
    run_shards(&scratch, SMALL, 2, "shards");
    let path = scratch.0.join("shards/shard-1-of-2.jsonl");
    let whole = fs::read(&path).unwrap();
    let refused = |content: &[u8]| {
        fs::write(&path, content).unwrap();
        let said = scratch.refused("merge shards");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("shards/shard-1-of-2.jsonl"), "{said}");
        said
    };
    let line_ends: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] == b'\n').collect();
    assert_eq!(line_ends.len(), 6, "a header, three points, what they took and a checksum");
    assert!(refused(&whole[..=line_ends[2]]).contains("ends after 2 of 3 points; run --shard 1/2 again"));
    assert!(refused(&whole[..line_ends[2] - 9]).contains("ends after 1 of 3 points"));
    assert!(refused(&whole[..=line_ends[3]]).contains("ends before its checksum"));
    assert!(refused(&whole[..=line_ends[4]]).contains("ends before its checksum"));
    assert!(refused(&whole[..whole.len() - 1]).contains("ends before its checksum"));
    assert!(refused(&[&whole[..], b"\n"].concat()).contains("has been changed"));
    assert!(refused(b"").contains("is not a shard"));
    // Whichever byte is another one, nothing is merged.
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        refused(&damaged);
    }
    // A process that is killed leaves what was there before.
    fs::remove_file(&path).unwrap();
    let mut killed = start(&scratch, &format!("{THOUSAND} --shard 1/2 --out shards"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(scratch.names("shards"), ["shard-2-of-2.jsonl"]);
    assert!(
        scratch.refused("merge shards").contains("shard 1/2 is missing beside shards/shard-2-of-2.jsonl")
    );
    fs::write(&path, &whole).unwrap();
    scratch.ok("merge shards");
    // A file of another program stays.
    scratch.file("shards/shard-1-of-2.jsonl", "mine");
    let said = scratch.refused(&format!("{SMALL} --shard 1/2 --out shards"));
    assert!(said.contains("exists and was not written by sakiyomi"), "{said}");
    scratch.ok(&format!("{SMALL} --shard 1/2 --out shards --force"));
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 6);
}

/// The blocks of a page that are of `language`.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    page.split(&*begin).skip(1).map(|rest| &rest[..rest.find("```").unwrap()]).collect()
}

fn has(program: &str) -> bool {
    let script = format!("command -v {program}");
    Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).status().unwrap().success()
}

#[test]
fn what_the_page_says_about_shards_can_be_typed() {
    let page = fs::read_to_string(repository("docs/how-to/shards.md")).unwrap();
    let scratch = Scratch::new("shards_page");
    symlink(fs::canonicalize(repository("traces")).unwrap(), scratch.0.join("traces")).unwrap();
    fs::create_dir(scratch.0.join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_sakiyomi"), scratch.0.join("bin/sakiyomi")).unwrap();
    let single = scratch.ok(
        "sweep traces/msr_hm0.csv.gz --drive deskstar-7k250 --vary queue.depth=1,8,32 --vary queue.policy=look,sptf \
         --reproducible",
    );
    let path = format!("{}:{}", scratch.0.join("bin").display(), std::env::var("PATH").unwrap());
    let run = |program: &str, script: &str, variables: &[(&str, String)]| {
        scratch.file("script", script);
        let mut command = Command::new(program);
        command.arg("script").current_dir(&scratch.0).env("PATH", &path).stdout(Stdio::null());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        assert!(command.status().unwrap().success(), "{program}: {script}");
    };
    let check = |what: &str| {
        assert_eq!(scratch.ok("merge shards --reproducible"), single, "{what}");
        fs::remove_dir_all(scratch.0.join("shards")).unwrap();
    };
    let shell = blocks(&page, "sh");
    let the = |mark: &str| *shell.iter().find(|block| block.contains(mark)).unwrap();
    if has("parallel") {
        run("bash", the("parallel -j"), &[]);
        check("GNU parallel");
    } else {
        skipped("GNU parallel", "it is not installed");
    }
    run("bash", the("xargs"), &[]);
    check("xargs");
    // The script does not need the scheduler, but what that sets for each job.
    let array = the("#SBATCH --array=1-8");
    (1..=8).for_each(|job| run("bash", array, &[("SLURM_ARRAY_TASK_ID", job.to_string())]));
    check("a job array");
    if has("python3") {
        run("python3", blocks(&page, "python")[0], &[]);
        check("Python");
    } else {
        skipped("executors of Python", "there is no python3");
    }
}
