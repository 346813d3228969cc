//! `reproduce`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use sakiyomi_reproduce::{Effort, Paper, tasks};
use sakiyomi_testing::{skipped, wait_until};

use crate::fuse::can_mount;
use crate::scratch::{Scratch, state_home};

#[test]
fn figures_of_a_paper_stand_beside_the_published_ones_and_an_interrupted_run_goes_on() {
    let scratch = Scratch::new("reproduce");
    let whole = scratch.ok("reproduce hitachi2013 --simulate-only --out whole --json");
    let json: serde_json::Value = serde_json::from_str(&whole).unwrap();
    let figures = json["result"]["papers"][0]["figures"].as_array().unwrap();
    let hit = figures.iter().find(|figure| figure["id"] == "long.hit").unwrap();
    assert_eq!(hit["published"], 72.4);
    assert!((hit["simulated"]["median"].as_f64().unwrap() - 72.4).abs() < 1.5, "{hit}");
    assert!(!scratch.0.join("whole/simulations.partial").exists(), "a whole run leaves no partial results");

    // An interrupted run, whose last line was cut off.
    let version = scratch.ok("--version");
    let version = version.trim().strip_prefix("sakiyomi ").unwrap();
    fs::create_dir(scratch.0.join("partial")).unwrap();
    let kept = r#"["hitachi2013/run/long#0001",{"hit_percent":72.0,"seeks":123456.0}]"#;
    let partial = format!("sakiyomi {version}\n{kept}\n[\"hitachi2013/run/long#00");
    fs::write(scratch.0.join("partial/simulations.partial"), &partial).unwrap();
    let resumed = scratch.ok("reproduce hitachi2013 --simulate-only --out partial --json");
    assert!(resumed.contains("123456"), "what was kept is not simulated again");

    // One of another version is not used.
    fs::write(scratch.0.join("partial/simulations.partial"), partial.replacen(version, "0.0.1", 1)).unwrap();
    let anew = scratch.ok("reproduce hitachi2013 --simulate-only --out partial --json");
    let result = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["result"].clone();
    assert_eq!(result(&anew), result(&whole));
}

#[test]
fn what_is_kept_of_other_papers_and_of_more_seeds_stays_and_is_not_counted() {
    let scratch = Scratch::new("reproduce_others");
    let version = scratch.ok("--version");
    let others = [
        r#"["hitachi2013/run/long#0050",{"hit_percent":1.0}]"#,
        r#"["kochi2023/allowance/PC1/10/1#0000",{"accuracy":1.0}]"#,
    ];
    fs::create_dir(scratch.0.join("out")).unwrap();
    let partial = scratch.0.join("out/simulations.partial");
    fs::write(&partial, format!("{version}{}\n", others.join("\n"))).unwrap();
    let result = scratch.ok("reproduce hitachi2013 --simulate-only --out out --json");
    let json: serde_json::Value = serde_json::from_str(&result).unwrap();
    let hit = &json["result"]["papers"][0]["figures"][0]["simulated"];
    assert_eq!(hit["runs"], 5, "seeds of --full do not belong to --quick: {hit}");
    let kept = fs::read_to_string(&partial).unwrap();
    assert_eq!(kept, format!("{version}{}\n", others.join("\n")));
}

#[test]
fn a_directory_that_another_run_uses_is_refused() {
    let scratch = Scratch::new("reproduce_claimed");
    fs::create_dir(scratch.0.join("out")).unwrap();
    let claim = sakiyomi_io::Claim::of_directory(scratch.0.join("out")).unwrap();
    let said = scratch.refused("reproduce hitachi2013 --simulate-only --out out");
    assert!(said.contains("another run of sakiyomi uses out"), "{said}");
    drop(claim);
    scratch.ok("reproduce hitachi2013 --simulate-only --out out");
}

/// Live figures stand beside the others where this machine allows it, and else there is a reason.
#[test]
fn a_live_figure_is_measured_or_left_out_with_the_reason() {
    let scratch = Scratch::new("reproduce_live");
    let result = scratch.ok("reproduce hitachi2013 waseda2013 --json");
    let json: serde_json::Value = serde_json::from_str(&result).unwrap();
    for (paper, id) in [(0, "show.throughput"), (0, "query1.aio"), (0, "phase.2"), (1, "long.hit")] {
        let paper = &json["result"]["papers"][paper];
        let figures = paper["figures"].as_array().unwrap();
        let figure = figures.iter().find(|figure| figure["id"] == id).unwrap();
        let sentences: Vec<&str> =
            paper["live"].as_array().unwrap().iter().map(|sentence| sentence.as_str().unwrap()).collect();
        match figure["live"]["median"].as_f64() {
            Some(median) => assert!(median > 0.0 && median.is_finite(), "{figure}"),
            None => assert!(sentences.iter().any(|said| said.starts_with("Left out: ")), "{sentences:?}"),
        }
    }
    let hit = &json["result"]["papers"][1]["figures"][0];
    if let Some(live) = hit["live"]["median"].as_f64() {
        // The median of runs of four hundred commands of 11,500, in real time.
        let simulated = hit["simulated"]["median"].as_f64().unwrap();
        assert!((live - simulated).abs() < 10.0, "{hit}");
    }
}

#[test]
fn without_live_experiments_the_result_has_simulated_figures_only() {
    let scratch = Scratch::new("reproduce_simulated");
    let [first, second] = [(); 2].map(|()| {
        let result = scratch.ok("reproduce waseda2013 --simulate-only --json --quiet");
        serde_json::from_str::<serde_json::Value>(&result).unwrap()["result"].clone()
    });
    assert_eq!(first, second);
    let paper = &first["papers"][0];
    assert!(paper.get("live").is_none(), "{paper}");
    assert!(paper["figures"].as_array().unwrap().iter().all(|figure| figure.get("live").is_none()));
}

/// Keeps metrics of all simulations of a paper in `out`, so that a run begins with its live experiments.
fn keep_simulations(scratch: &Scratch, paper: Paper) {
    let version = scratch.ok("--version");
    let lines = tasks(paper, Effort::Quick).into_iter().map(|task| format!("[\"{}\",{{}}]\n", task.key()));
    fs::create_dir(scratch.0.join("out")).unwrap();
    fs::write(scratch.0.join("out/simulations.partial"), version + &lines.collect::<String>()).unwrap();
}

/// Starts a run whose live experiments have their files in the test's directory.
fn begin(scratch: &Scratch, words: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.args(words.split_whitespace()).current_dir(&scratch.0).env("TMPDIR", &scratch.0);
    command.env("XDG_STATE_HOME", state_home()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Directories of live experiments in the test's directory.
fn live_directories(scratch: &Scratch) -> Vec<PathBuf> {
    let names = scratch.names(".").into_iter().filter(|name| name.starts_with("sakiyomi-reproduce-"));
    names.map(|name| scratch.0.join(name)).collect()
}

fn interrupt(child: Child) -> Output {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

/// Returns whether temporary files lie where `TMPDIR` says: a directory in memory is not the first choice.
fn has_directory_on_a_disk(scratch: &Scratch, test: &str) -> bool {
    let able = !sakiyomi_io::file::is_tmpfs(&scratch.0);
    if !able {
        skipped(test, "the directory of tests lies in memory");
    }
    able
}

#[test]
fn an_interruption_of_live_experiments_writes_no_report_and_leaves_no_files() {
    let scratch = Scratch::new("reproduce_interrupted");
    if !has_directory_on_a_disk(&scratch, "an_interruption_of_live_experiments") {
        return;
    }
    keep_simulations(&scratch, Paper::Waseda2013);
    let child = begin(&scratch, "reproduce waseda2013 --out out");
    wait_until("a live experiment", || !live_directories(&scratch).is_empty());
    let output = interrupt(child);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted; out keeps the simulations"), "{said}");
    assert_eq!(scratch.names("out"), ["live-quick.partial", "simulations.partial"]);
    assert_eq!(live_directories(&scratch), Vec::<PathBuf>::new());
}

#[test]
#[ignore = "a process that is killed while it reads its own mount cannot always be ended, and then nothing ends here"]
fn the_mount_of_a_run_that_was_killed_is_removed_by_the_next_run() {
    let scratch = Scratch::new("reproduce_killed");
    let test = "the_mount_of_a_run_that_was_killed";
    if !can_mount(test) || !has_directory_on_a_disk(&scratch, test) {
        return;
    }
    keep_simulations(&scratch, Paper::Hitachi2013);
    let device = fs::metadata(&scratch.0).unwrap().dev();
    let mut child = begin(&scratch, "reproduce hitachi2013 --out out");
    let mount_point = |directory: &PathBuf| directory.join("drive");
    wait_until("a mounted drive", || {
        let mounts = live_directories(&scratch).into_iter().map(|directory| mount_point(&directory));
        mounts.filter_map(|mount| fs::metadata(mount).ok()).any(|found| found.dev() != device)
    });
    // It may have been waiting for its own mount, and then does not end before the next run has aborted that.
    child.kill().unwrap();
    let left = live_directories(&scratch);
    assert_eq!(left.len(), 1, "{left:?}");
    let mut killed = child;
    let child = begin(&scratch, "reproduce hitachi2013 --out out");
    wait_until("the removal of what was left", || !left[0].exists());
    killed.wait().unwrap();
    wait_until("a directory of the second run", || !live_directories(&scratch).is_empty());
    assert_eq!(interrupt(child).status.code(), Some(130));
    assert_eq!(live_directories(&scratch), Vec::<PathBuf>::new());
}

#[test]
fn a_paper_that_is_not_known_is_refused_with_the_names() {
    let scratch = Scratch::new("reproduce_unknown");
    let said = scratch.refused("reproduce hitachi2012");
    assert!(said.contains("hitachi2012") && said.contains("hitachi2013"), "{said}");
}
