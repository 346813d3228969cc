//! Sentences about results.

use crate::sample;
use sakiyomi_report::result::{Document, ProbeResult, Run, SimResult, SweepResult, ValidateResult};
use sakiyomi_report::{Comparison, Present, Reported};

/// Returns all sentences.
fn sentences(reported: &impl Reported) -> Vec<String> {
    reported.report().verdict.into_iter().flat_map(|finding| finding.sentences).collect()
}

#[test]
fn verdicts_read_well() {
    let (short, long) = (sample::document("short"), sample::document("long"));
    let comparison = Comparison { a: &short, b: &long };
    let all = [
        sentences(&long),
        sentences(&comparison),
        sentences(&sample::sweep()),
        sentences(&sample::validation()),
    ];
    insta::assert_snapshot!(all.map(|sentences| sentences.join("\n")).join("\n\n"));
}

#[test]
fn findings_read_well() {
    let findings = sample::probe().result.verdict();
    let text: Vec<String> =
        findings.iter().map(|of| format!("{}\n{}", of.about, of.sentences.join("\n"))).collect();
    insta::assert_snapshot!(text.join("\n\n"));
}

#[test]
fn an_empty_result_has_a_verdict() {
    let only = |result: &dyn Fn() -> Vec<sakiyomi_report::section::Finding>| {
        let findings = result();
        findings[0].sentences.join(" ")
    };
    let empty = Document::new(Run::default(), SimResult::default());
    assert_eq!(only(&|| SimResult::default().verdict()), "No command completed.");
    assert!(sentences(&Comparison { a: &empty, b: &empty })[0].contains("nothing to compare"));
    assert_eq!(only(&|| SweepResult::default().verdict()), "No settings were simulated.");
    assert_eq!(only(&|| ValidateResult::default().verdict()), "No request was compared.");
    assert_eq!(only(&|| ProbeResult::default().verdict()), "No method was measured.");
}
