//! `iorate` as a user meets it: refusals, programs with rates on a real mount, and what is told of them. How well rates
//! are kept is not looked at here.

mod fuse;
#[expect(dead_code, reason = "other tests use more of it")]
mod scratch;

use scratch::{Scratch, json};

#[test]
fn what_cannot_be_asked_is_refused_in_a_sentence() {
    let scratch = Scratch::new("iorate_refused");
    let not_here = ". is not on a mount of sakiyomi's; `sakiyomi mount BACKING DIR --regulate` makes one";
    for (words, sentence) in [
        ("iorate set 1 . 20", not_here),
        ("iorate set 1 . --every 40ms", not_here),
        ("iorate set --group /batch . 20", not_here),
        ("iorate clear 1 .", not_here),
        ("iorate clear --all .", not_here),
        ("iorate list .", not_here),
        ("iorate top . --count 1", not_here),
        ("iorate top . --prometheus --out file", not_here),
        ("iorate list missing", "cannot open missing: "),
        ("iorate set 1 .", "there is no PERCENT (or --every TIME)"),
        (
            "iorate set . 20",
            ". is not a process's number; write: sakiyomi iorate set PID DIR PERCENT|--every TIME",
        ),
        ("iorate set 1 . 0", "a rate of 0 is not possible; give 1 to 100, percent of the device"),
        ("iorate top . --interval 0s", "--interval 0: give a time"),
    ] {
        let said = scratch.refused(words);
        assert!(said.contains(sentence) && said.lines().count() == 1, "{words}: {said}");
    }
    for words in [
        "iorate",
        "iorate set",
        "iorate set 1 . --every 40",
        "iorate set 1 . 20 --children --group /a",
        "iorate top . --out file",
        "iorate top . --prometheus --json",
        "iorate top . --count 0",
    ] {
        scratch.refused(words);
    }
    assert_eq!(scratch.names("."), [""; 0]);
}

#[test]
fn a_program_that_cannot_have_its_rate_is_not_run_and_its_code_tells_so() {
    let scratch = Scratch::new("iorate_not_run");
    for (words, sentence) in [
        ("iorate run 20 . -- touch file", "is not on a mount of sakiyomi's"),
        ("iorate run 20 . --children -- touch file", "is not on a mount of sakiyomi's"),
        ("iorate run 20 missing -- touch file", "cannot open missing: "),
        ("iorate run . -- touch file", "a rate of . is not possible"),
        ("iorate run 20 . touch file", "unexpected value 'file'"),
        ("iorate run 20 .", "required"),
    ] {
        let output = scratch.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{words}: {said}");
        assert!(said.contains(sentence) && output.stdout.is_empty(), "{words}: {said}");
    }
    assert_eq!(scratch.names("."), [""; 0]);
}

#[test]
fn the_doctor_knows_whether_rates_can_be_kept_here() {
    let scratch = Scratch::new("iorate_doctor");
    let told = json(&scratch.ok("doctor --json"));
    let findings = told["result"]["findings"].as_array().unwrap();
    let regulation = findings.iter().find(|finding| finding["what"] == "regulation").unwrap();
    assert!(regulation["available"] == true || !fuse::can_mount("the_doctor"), "{regulation}");
}
