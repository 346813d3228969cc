//! Reports for issues and wikis.

use crate::sample;
use proptest::prelude::*;
use sakiyomi_report::result::{Document, Run};
use sakiyomi_report::{Comparison, Reported, markdown};

fn shown(reported: &impl Reported) -> String {
    markdown::render(&reported.report(), &reported.charts())
}

#[test]
fn one_simulation() {
    insta::assert_snapshot!(shown(&sample::document("long")));
}

#[test]
fn two_simulations() {
    let (a, b) = (sample::document("short"), sample::document("long"));
    insta::assert_snapshot!(shown(&Comparison { a: &a, b: &b }));
}

#[test]
fn an_exploration() {
    insta::assert_snapshot!(shown(&sample::sweep()));
}

#[test]
fn one_probe() {
    insta::assert_snapshot!(shown(&sample::probe()));
}

#[test]
fn one_run() {
    insta::assert_snapshot!(shown(&sample::followed()));
    insta::assert_snapshot!(shown(&sample::explained()));
}

#[test]
fn every_chart_is_linked_by_the_name_of_its_file() {
    let document = sample::document("long");
    let text = shown(&document);
    for chart in document.charts() {
        assert!(text.contains(&format!("]({}.svg)", chart.name)), "{}", chart.name);
    }
}

/// Counts the bars that separate cells.
fn cells(line: &str) -> usize {
    line.replace("\\|", "").matches('|').count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_row_of_a_table_has_as_many_cells_as_its_header(result in sample::any_broken_probe()) {
        let text = shown(&Document::new(Run::default(), result));
        prop_assert!(!text.contains("NaN") && !text.chars().any(|c| c.is_control() && c != '\n'));
        let mut columns = 0;
        for line in text.lines() {
            match line.starts_with('|') {
                true if columns == 0 => columns = cells(line),
                true => prop_assert_eq!(cells(line), columns, "{}", line),
                false => columns = 0,
            }
        }
    }
}
