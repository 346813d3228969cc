//! `sakiyomi_set_iorate` on a mount.

use std::process::Command;
use std::time::Duration;

use sakiyomi_iorate::Control;
use sakiyomi_iorate::protocol::{Rate, Target};
use sakiyomi_mount::{EmulatedStorage, Options, Regulate, mount};
use sakiyomi_testing::{Scratch, can_mount};

use crate::compile::{Linked, Program};

#[test]
fn the_example_says_why_a_rate_is_not_given() {
    let Some(program) = Program::new("the_example_says_why", "examples/iorate.c", Linked::Shared) else {
        return;
    };
    let own = std::process::id().to_string();
    for (words, sentence) in [
        (
            [&own, "/proc", "20"],
            "/proc is not on a mount of sakiyomi; create one with `sakiyomi mount BACKING DIR --regulate`",
        ),
        (
            [&own, "/nowhere/at/all", "20"],
            "cannot open /nowhere/at/all: No such file or directory (os error 2)",
        ),
        ([&own, "/proc", "120"], "a rate of 120 % is not possible; give 1 to 100, or 0 to clear it"),
        (["-3", "/proc", "20"], "there is no process -3"),
    ] {
        let output = program.run(words);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("{sentence}\n"));
    }
}

#[test]
fn the_example_gives_a_rate_and_takes_it_back() {
    if !can_mount("the_example_gives_a_rate") {
        return;
    }
    let Some(program) = Program::new("the_example_gives", "examples/iorate.c", Linked::Shared) else {
        return;
    };
    let (backing, disk) = (Scratch::new("backing"), Scratch::new("disk"));
    let (backing, disk) = (backing.root(), disk.root());
    let behind = Some(EmulatedStorage::Fixed("fixed:latency=1ms".parse().unwrap()));
    let options = Options { behind, regulate: Some(Regulate::default()), ..Options::default() };
    let mounted = mount(backing, disk, &options).unwrap();
    let pid = std::process::id();
    // A timeout, because a mount that hangs would block the program.
    let set = |percent: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "30"]).arg(program.path()).arg(pid.to_string()).arg(disk).arg(percent);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let rate = || {
        let view = Control::open(disk).unwrap().view(false).unwrap();
        view.owners.iter().map(|owner| (owner.target.clone(), owner.rate)).collect::<Vec<_>>()
    };
    assert_eq!(set("20"), (Some(0), String::new()));
    assert_eq!(rate(), [(Target::Process { pid }, Some(Rate::Percent(20)))]);
    let (code, said) = set("99");
    assert!(code == Some(2) && said.contains("99 % cannot be kept") && said.contains(" % can"), "{said}");
    assert_eq!(rate(), [(Target::Process { pid }, Some(Rate::Percent(20)))]);
    assert_eq!(set("0"), (Some(0), String::new()));
    assert_eq!(rate(), []);
    let (code, said) = set("0");
    assert!(code == Some(2) && said.ends_with(&format!(": process {pid} has no rate\n")), "{said}");
    mounted.finish(Duration::from_secs(5)).unwrap();
}
