//! The terminal.

use crate::sample;
use proptest::prelude::*;
use sakiyomi_report::result::{
    Document, IorateResult, ProbeResult, Run, SimResult, SweepResult, ValidateResult,
};
use sakiyomi_report::text::*;
use sakiyomi_report::{Comparison, Reported};

/// Renders a report for the terminal.
fn shown(reported: &impl Reported, style: Style) -> String {
    render(&reported.report(), style)
}

fn compared(a: &Document<SimResult>, b: &Document<SimResult>, style: Style) -> String {
    shown(&Comparison { a, b }, style)
}

const PLAIN: Style = Style { width: 100, color: false };

#[test]
fn one_scenario() {
    insta::assert_snapshot!(shown(&sample::scenario(), PLAIN));
}

#[test]
fn jobs_of_an_experiment() {
    insta::assert_snapshot!(shown(&sample::jobs(), PLAIN));
}

#[test]
fn one_experiment_with_regulated_programs() {
    insta::assert_snapshot!(shown(&sample::regulated(), PLAIN));
    let mut alone = sample::regulated();
    alone.result.points.truncate(1);
    insta::assert_snapshot!(shown(&alone, PLAIN));
}

#[test]
fn one_search_for_the_best_allowance() {
    insta::assert_snapshot!(shown(&sample::searched(), PLAIN));
}

#[test]
fn one_simulation() {
    insta::assert_snapshot!(shown(&sample::document("long"), PLAIN));
}

#[test]
fn two_simulations() {
    insta::assert_snapshot!(compared(&sample::document("short"), &sample::document("long"), PLAIN));
}

#[test]
fn an_exploration() {
    insta::assert_snapshot!(shown(&sample::sweep(), PLAIN));
}

#[test]
fn one_validation() {
    insta::assert_snapshot!(shown(&sample::validation(), PLAIN));
}

#[test]
fn one_reproduction() {
    insta::assert_snapshot!(shown(&sample::reproduction(), PLAIN));
}

#[test]
fn one_probe() {
    insta::assert_snapshot!(shown(&sample::probe(), PLAIN));
}

#[test]
fn one_probe_on_a_narrow_terminal() {
    let text = shown(&sample::probe(), Style { width: 80, ..PLAIN });
    insta::assert_snapshot!(text.split("\n\n").nth(6).unwrap());
}

#[test]
fn one_run() {
    let document = sample::followed();
    let mut watched = document.clone();
    watched.result.dry_run = true;
    watched.result.could_save_ns = Some(240_000_000);
    watched.result.storage_bytes_per_s = Some(200_000_000);
    let mut idle = document.clone();
    idle.result.prefetched_bytes = 0;
    insta::assert_snapshot!([document, watched, idle].map(|document| shown(&document, PLAIN)).join("\n"));
}

#[test]
fn one_stream() {
    insta::assert_snapshot!(shown(&Document::new(Run::default(), sample::stream::run()), PLAIN));
    let plans = [sample::stream::plan(), sample::stream::shortfall()];
    let plans = plans.map(|plan| shown(&Document::new(Run::default(), plan), PLAIN));
    insta::assert_snapshot!(plans.join("\n"));
    insta::assert_snapshot!(shown(&Document::new(Run::default(), sample::stream::topology()), PLAIN));
    insta::assert_snapshot!(shown(&Document::new(Run::default(), sample::stream::simulated()), PLAIN));
}

#[test]
fn one_query() {
    insta::assert_snapshot!(
        [sample::sorted(), sample::aggregated()].map(|document| shown(&document, PLAIN)).join("\n")
    );
}

#[test]
fn a_regulated_device() {
    let mut result = sample::iorate();
    let mut texts = vec![shown(&result, PLAIN), iorate_lines(&result)];
    result.owners.clear();
    result.device.bypass = Some(sakiyomi_report::result::IorateBypass {
        device: "sda".to_owned(),
        requests_per_s: 120.4,
        share_ratio: 0.55,
    });
    texts.push(shown(&result, PLAIN));
    insta::assert_snapshot!(texts.join("\n--\n"));
}

#[test]
fn a_live_view_in_windows_of_all_sizes() {
    let mut result = sample::iorate();
    let view = |result: &IorateResult, columns, rows| {
        let frame = top(result, Window { columns, rows }, false).join("\n");
        format!("{columns} x {rows}\n{frame}\n")
    };
    let mut frames = vec![view(&result, 120, 24), view(&result, 60, 24), view(&result, 30, 7)];
    result.device.bypass = Some(sakiyomi_report::result::IorateBypass {
        device: "sda".to_owned(),
        requests_per_s: 120.4,
        share_ratio: 0.55,
    });
    frames.push(view(&result, 100, 8));
    insta::assert_snapshot!(frames.join("\n"));
    let colored = top(&result, Window { columns: 100, rows: 24 }, true);
    // Bypassing traffic, and a rate that is not met, are highlighted.
    assert!(
        colored[3].starts_with("\x1b[1;31mBYPASSED") && colored[6].starts_with("\x1b[33m4712"),
        "{colored:#?}"
    );
}

#[test]
fn nothing_at_all() {
    assert!(!shown(&Document::new(Run::default(), ProbeResult::default()), PLAIN).is_empty());
    assert!(!shown(&Document::new(Run::default(), ValidateResult::default()), PLAIN).is_empty());
    insta::assert_snapshot!(shown(&Document::new(Run::default(), SimResult::default()), PLAIN));
    assert!(!shown(&Document::new(Run::default(), SweepResult::default()), PLAIN).is_empty());
}

#[test]
fn color_only_where_asked_for() {
    let document = sample::document("long");
    assert!(!shown(&document, PLAIN).contains('\x1b'));
    assert!(shown(&document, Style { color: true, ..PLAIN }).contains('\x1b'));
}

#[test]
fn points_of_one_drive_are_marked_with_what_limits_them() {
    let mut document = sample::sweep();
    let plain = Style { width: 100, color: false };
    let before = shown(&document, plain);
    assert!(!before.contains("same drive as"), "{before}");
    let point = &mut document.result.points[2];
    point.same_drive_as_point = Some(1);
    point.limits = vec![sakiyomi_report::result::SweepLimit {
        key: "cache.read_ahead.max".to_owned(),
        value: "512KiB".to_owned(),
        acts_as: Some("256KiB".to_owned()),
        limited_by: vec!["cache.size".to_owned(), "cache.segments.count".to_owned()],
    }];
    let text = shown(&document, plain);
    let row = text.lines().find(|line| line.contains("512KiB")).unwrap();
    assert!(row.trim_end().ends_with("256KiB"), "{text}");
    assert!(text.contains("One combination has the same effective drive as an earlier one."), "{text}");
    let told = "cache.read_ahead.max = 512KiB acts as 256KiB: cache.size and cache.segments.count limit it";
    assert!(text.contains(told), "{text}");
    let page = sakiyomi_report::html::render(&document.report(), &document.charts());
    assert!(page.contains("same drive as") && page.contains(told), "{page}");
}

proptest! {
    #[test]
    fn any_result_has_a_text(a in sample::any_result(), b in sample::any_result(), width: usize) {
        let (a, b) = (Document::new(Run::default(), a), Document::new(Run::default(), b));
        let style = Style { width, color: true };
        prop_assert!(!shown(&a, style).is_empty() && !compared(&a, &b, style).is_empty());
    }

    #[test]
    fn any_validation_has_a_text(result in sample::any_validation(), width: usize) {
        let text = shown(&Document::new(Run::default(), result), Style { width, color: false });
        prop_assert!(!text.is_empty() && !text.contains("NaN"));
    }

    #[test]
    fn any_probe_has_a_text(result in sample::any_broken_probe(), width: usize) {
        let text = shown(&Document::new(Run::default(), result), Style { width, color: false });
        prop_assert!(!text.contains("NaN") && !text.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn any_scenario_has_a_text(result in sample::any_scenario(), width: usize) {
        let text = shown(&Document::new(Run::default(), result), Style { width, color: false });
        prop_assert!(!text.contains("NaN") && !text.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn any_regulated_device_has_a_text(result in sample::any_iorate(), width: usize) {
        let style = Style { width, color: false };
        for text in [shown(&result, style), iorate_lines(&result)] {
            prop_assert!(!text.contains("NaN") && !text.chars().any(|c| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn any_live_view_fits_its_window(result in sample::any_iorate(), columns in 0usize..200, rows in 0usize..40) {
        let frame = top(&result, Window { columns, rows }, false);
        prop_assert!(frame.len() <= rows);
        for line in frame {
            prop_assert!(line.chars().count() <= columns && !line.chars().any(char::is_control), "{line:?}");
        }
    }

    #[test]
    fn any_exploration_has_a_text(result in sample::any_sweep(), width: usize) {
        let text = shown(&Document::new(Run::default(), result), Style { width, color: false });
        prop_assert!(!text.is_empty());
    }
}
