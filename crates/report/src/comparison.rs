//! Two simulations side by side: for every figure of either, A, B, and the change.

use serde::Serialize;

use crate::chart::Chart;
use crate::document::Document;
use crate::glossary;
use crate::result::{SimResult, compare, compare_charts, same_workload};
use crate::section::{Cell, Fact, Finding, Group, Present, Report, Reported, Section, Table, Tone, Totals};

/// Two simulations.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Comparison<'a> {
    /// The baseline.
    pub a: &'a Document<SimResult>,
    /// The second.
    pub b: &'a Document<SimResult>,
}

impl Comparison<'_> {
    fn title(&self) -> String {
        let (a, b) = (&self.a.result, &self.b.result);
        if (&a.trace, &a.drive) == (&b.trace, &b.drive) {
            format!("{}: A against B", a.title())
        } else {
            format!("A: {}, B: {}", a.title(), b.title())
        }
    }
}

impl Reported for Comparison<'_> {
    fn report(&self) -> Report<'_> {
        let (a, b) = (&self.a.result, &self.b.result);
        let is_judged = same_workload(a, b);
        let groups = groups(a.sections()).into_iter().zip(groups(b.sections()));
        let groups = groups.map(|(a, b)| {
            let facts = a.facts.into_iter().zip(b.facts);
            Group::new(a.name, facts.map(|(a, b)| compared(a, b, is_judged)))
        });
        Report {
            title: self.title(),
            verdict: Finding::whole(compare(a, b)),
            settings: settings(a.settings(), b.settings()),
            sections: vec![Section::Totals(Totals {
                columns: vec!["A", "B", "change"],
                groups: groups.collect(),
            })],
            runs: vec![("A", &self.a.run), ("B", &self.b.run)],
            glossary: glossary::SIM,
        }
    }

    fn charts(&self) -> Vec<Chart> {
        compare_charts(&self.a.result, &self.b.result)
    }
}

/// Returns all figures; the rows of a table become groups.
fn groups(sections: Vec<Section>) -> Vec<Group> {
    let of_section = |section| match section {
        Section::Totals(totals) => totals.groups,
        Section::Table(table) => rows(&table),
        Section::Notes(_) => Vec::new(),
    };
    sections.into_iter().flat_map(of_section).collect()
}

fn rows(table: &Table) -> Vec<Group> {
    let group = |row: &crate::section::Row| {
        let (name, cells) = row.cells.split_first()?;
        let figures = table.columns.iter().skip(1).zip(cells);
        let facts = figures.map(|(column, cell)| Fact {
            label: column.name.clone(),
            values: vec![cell.clone()],
            aim: column.aim,
            ..Fact::default()
        });
        Some(Group::new(format!("{}, {}", table.heading, name.value.text()), facts))
    };
    table.rows.iter().filter_map(group).collect()
}

/// Combines a figure of both, with the change from A to B.
fn compared(a: Fact, b: Fact, is_judged: bool) -> Fact {
    let (from, to) = (value(&a), value(&b));
    let tone = match a.aim.is_better(&from.value, &to.value).filter(|_| is_judged) {
        Some(true) => Tone::Better,
        Some(false) => Tone::Worse,
        None => Tone::Plain,
    };
    let change = Cell::from(crate::value::Value::from(from.value.change(&to.value))).tone(tone);
    Fact { values: vec![from, to, change], share: None, ..a }
}

fn value(fact: &Fact) -> Cell {
    fact.values.first().cloned().unwrap_or_default()
}

/// Returns the settings of both; those that differ are marked.
fn settings(a: Vec<Fact>, b: Vec<Fact>) -> Vec<Fact> {
    let mut labels: Vec<(String, &'static str)> = Vec::new();
    for fact in a.iter().chain(&b) {
        if !labels.iter().any(|(label, _)| *label == fact.label) {
            labels.push((fact.label.clone(), fact.absent));
        }
    }
    let side = |facts: &[Fact], label: &str, absent: &str| {
        // If a key was set twice, the last value holds.
        let fact = facts.iter().rev().find(|fact| fact.label == label);
        fact.map_or_else(|| Cell::from(crate::value::Value::from(absent)), value)
    };
    let both = labels.into_iter().map(|(label, absent)| {
        let mut values = vec![side(&a, &label, absent), side(&b, &label, absent)];
        if values[0].value != values[1].value {
            values.iter_mut().for_each(|cell| cell.tone = Tone::Differs);
        }
        Fact { label, values, ..Fact::default() }
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Run;

    #[test]
    fn different_work_is_not_judged() {
        let a = SimResult { trace: "a".to_owned(), commands: 9, hit_ratio: 0.9, ..SimResult::default() };
        let b = SimResult { trace: "b".to_owned(), commands: 9, hit_ratio: 0.1, ..SimResult::default() };
        let is_judged = |a: &SimResult, b: &SimResult| {
            let [a, b] = [a, b].map(|result| Document::new(Run::default(), result.clone()));
            let sections = Comparison { a: &a, b: &b }.report().sections;
            let Some(Section::Totals(totals)) = sections.first() else { panic!("{sections:?}") };
            let mut cells = totals.groups.iter().flat_map(|group| &group.facts).flat_map(|fact| &fact.values);
            cells.any(|cell| matches!(cell.tone, Tone::Better | Tone::Worse))
        };
        assert!(is_judged(&a, &b), "the same work from a trace of another name");
        assert!(!is_judged(&a, &SimResult { commands: 5, ..b.clone() }));
        assert!(!is_judged(&a, &SimResult { commands: 5, trace: a.trace.clone(), warm_up_ns: 1, ..b }));
    }

    #[test]
    fn a_setting_of_one_side_stands_beside_what_its_absence_means() {
        let result = |settings: &[&str]| SimResult {
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            ..SimResult::default()
        };
        let both = settings(result(&["a.b=1", "a.b=2"]).settings(), result(&[]).settings());
        let texts: Vec<String> = both[0].values.iter().map(|cell| cell.value.text()).collect();
        assert_eq!(
            (both[0].label.as_str(), texts),
            ("a.b", vec!["2".to_owned(), "the drive's own".to_owned()])
        );
        assert!(both[0].values.iter().all(|cell| cell.tone == Tone::Differs));
    }
}
