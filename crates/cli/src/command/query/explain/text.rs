//! An explanation as text: the plan as a tree, its phases, the rejected plans, the measured figures.

use std::fmt::Write as _;

use sakiyomi_query::cost::Explanation;
use sakiyomi_query::cost::explain::{AnalyzedPhase, Errors};
use sakiyomi_report::number::{bytes, duration};

use sakiyomi_tables::{Calibrations, describe as tree};

/// Maximum number of rejected plans in the text; JSON has all.
const REJECTED_MAX: usize = 8;

pub(super) fn describe(explanation: &Explanation, calibrations: &Calibrations) -> String {
    let (choice, prediction) = (&explanation.choice, &explanation.choice.prediction);
    let mut text = "Plan\n".to_owned();
    let mut lines = Vec::new();
    tree(&explanation.tree, 1, &mut lines);
    lines.iter().for_each(|line| text.extend([line.replace('\u{a0}', " "), "\n".to_owned()]));
    let plan = &choice.plan;
    let _ = writeln!(
        text,
        "  by {} and {} threads; {} of memory at its peak\n",
        plan.engine,
        plan.threads,
        bytes(prediction.memory_bytes)
    );
    let _ = writeln!(
        text,
        "Predicted: {}{}, CPU time {} (user) + {} (system){}, {} transferred",
        duration(prediction.elapsed_ns),
        within(prediction.uncertainty.map(|uncertainty| uncertainty.elapsed_ratio)),
        duration(prediction.user_ns),
        duration(prediction.system_ns),
        within(prediction.uncertainty.map(|uncertainty| uncertainty.cpu_ratio)),
        bytes(prediction.bytes)
    );
    let comparison = &prediction.comparison;
    if prediction.uncertainty.is_some() {
        let _ = writeln!(
            text,
            "  without corrections {}, CPU time {}",
            duration(comparison.uncorrected_ns),
            duration(comparison.uncorrected_cpu_ns)
        );
    }
    let _ = writeln!(
        text,
        "  storage alone {}, bytes and rounds (REMOP) {}\n",
        duration(comparison.storage_only_ns),
        duration(comparison.remop_ns)
    );
    phases(explanation, &mut text);
    rejected(explanation, &mut text);
    analysis(explanation, &mut text);
    let uncorrected = prediction.uncertainty.is_none().then(|| UNCORRECTED.to_owned());
    let notes = prediction.assumptions.iter().cloned().chain(uncorrected);
    for note in notes.chain(calibrations.difference()) {
        let _ = writeln!(text, "\n{note}");
    }
    text
}

/// A note about a prediction without corrections.
const UNCORRECTED: &str = "The prediction is not corrected, because `query calibrate` found no calibration of a device for its jobs: \
                           run `sakiyomi probe DIR`, then `sakiyomi query calibrate --dir DIR`.";

/// Returns the uncertainty of a time: about two thirds of the jobs of the calibration were within it.
fn within(uncertainty_ratio: Option<f64>) -> String {
    uncertainty_ratio.map_or_else(String::new, |ratio| format!(" \u{b1} {:.0} %", 100.0 * ratio))
}

fn phases(explanation: &Explanation, text: &mut String) {
    let phases = &explanation.choice.prediction.phases;
    let width = phases.iter().map(|phase| phase.name.chars().count()).max().unwrap_or(0).max(5);
    let _ = writeln!(
        text,
        "{:width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  bound by",
        "Phase", "time", "bytes", "user", "system", "device"
    );
    for phase in phases {
        let _ = writeln!(
            text,
            "{:width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {}{}",
            phase.name,
            duration(phase.elapsed_ns),
            bytes(phase.bytes),
            duration(phase.user_ns),
            duration(phase.system_ns),
            duration(phase.device_ns),
            phase.bound.name(),
            phase.uncertainty.map_or_else(String::new, |uncertainty| format!(
                "; time{}",
                within(Some(uncertainty.elapsed_ratio))
            ))
        );
    }
}

fn rejected(explanation: &Explanation, text: &mut String) {
    let rejected = explanation.rejected();
    if rejected.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nRejected");
    for plan in rejected.iter().take(REJECTED_MAX) {
        let (time, ratio) = (duration(plan.elapsed_ns), plan.elapsed_ratio);
        let _ = writeln!(text, "  {time:>9}  {ratio:.2} x  {}", plan.difference);
    }
    if rejected.len() > REJECTED_MAX {
        let _ = writeln!(text, "  and {} more, in --json", rejected.len() - REJECTED_MAX);
    }
}

fn analysis(explanation: &Explanation, text: &mut String) {
    let Some(analysis) = &explanation.analysis else { return };
    let measured = &analysis.measured;
    let _ = writeln!(
        text,
        "\nMeasured: {}, CPU time {} (user) + {} (system)",
        duration(measured.elapsed_ns),
        duration(measured.user_ns),
        duration(measured.system_ns)
    );
    let _ = writeln!(text, "  {}", errors(&analysis.errors));
    let width = analysis.phases.iter().map(|phase| phase.name.chars().count()).max().unwrap_or(0).max(5);
    let time = |ns: u64| if ns > 0 { duration(ns) } else { "\u{2013}".to_owned() };
    for AnalyzedPhase {
        name,
        predicted_elapsed_ns,
        measured_elapsed_ns,
        measured_bound,
        errors: of_phase,
        ..
    } in &analysis.phases
    {
        let _ = writeln!(
            text,
            "  {name:width$}  {:>9} predicted  {:>9} measured{}{}",
            time(*predicted_elapsed_ns),
            time(*measured_elapsed_ns),
            measured_bound.map_or_else(String::new, |bound| format!(", bound by {}", bound.name())),
            of_phase.map_or_else(String::new, |of| format!(", {}", errors(&of)))
        );
    }
}

/// Relative errors of the models.
fn errors(errors: &Errors) -> String {
    let part = |name: &str, ratio: Option<f64>| ratio.map(|ratio| format!("{name} {:+.0} %", 100.0 * ratio));
    let corrected = |before: Option<f64>, after: Option<f64>| before.filter(|_| before != after);
    let parts = [
        part("error", errors.elapsed_error_ratio),
        part("CPU time", errors.cpu_error_ratio),
        part("without corrections", corrected(errors.uncorrected_error_ratio, errors.elapsed_error_ratio)),
        part("CPU time without", corrected(errors.uncorrected_cpu_error_ratio, errors.cpu_error_ratio)),
        part("storage alone", errors.storage_only_error_ratio),
        part("REMOP", errors.remop_error_ratio),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
