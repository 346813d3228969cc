//! Published figures beside the reproduced ones.

mod chart;

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::count;
use crate::rows::Rows;
use crate::section::{Cell, Emphasis, Fact, Finding, Glossary, Note, Notes, Present, Section};
use crate::value::Value;

/// A reproduced figure agrees with the published one up to this relative deviation.
const AGREEMENT_RATIO_MAX: f64 = 0.1;

/// Result of `reproduce`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproduceResult {
    /// `quick` or `full`.
    pub effort: String,
    /// The papers.
    pub papers: Vec<ReproducedPaper>,
}

/// A paper whose experiments were repeated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproducedPaper {
    /// Its name on the command line.
    pub name: String,
    /// Authors, place and year, and the subject.
    pub title: String,
    /// All its figures.
    pub figures: Vec<ReproducedFigure>,
    /// Its pictures.
    pub curves: Vec<ReproducedCurve>,
    /// Live measurements, and the reasons why others were left out, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub live: Vec<String>,
}

/// A published figure and the reproduced one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproducedFigure {
    /// Its identifier within the paper.
    pub id: String,
    /// The table, figure or section of the paper.
    pub place: String,
    /// The measured quantity.
    pub what: String,
    /// The unit of all values.
    pub unit: String,
    /// How the reproduced figure should relate to the published one: `exactly`, `about`, `at least`, `at most`,
    /// `more than`.
    pub relation: String,
    /// The published value; the lower end of a range.
    pub published: f64,
    /// The upper end of a published range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_to: Option<f64>,
    /// The figure in virtual time; absent if it is not simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<ReproducedValue>,
    /// The figure measured live on this machine; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<ReproducedValue>,
    /// The figure in virtual time under the conditions of the live experiment; absent if they are the paper's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_conditions: Option<ReproducedValue>,
    /// Relative deviation of the live figure from the published one; absent if it is a figure of this machine, such as the
    /// speed of its storage, which nothing is held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_deviation_ratio: Option<f64>,
    /// Relative deviation of the live figure from that in virtual time under its conditions; of a gain, that of the ratio of
    /// times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_from_simulated_ratio: Option<f64>,
    /// The reason why the live figure may differ from the published one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub live_note: String,
    /// Relative deviation of the figure in virtual time from the published one; absent from a published 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_ratio: Option<f64>,
    /// Whether it is the published value, in the published range, or on the right side of the published bound.
    pub is_met: bool,
    /// Whether a parameter of the simulation was chosen so that it has this figure; all others are predicted.
    #[serde(default)]
    pub is_calibrated: bool,
    /// The reason why it differs, is calibrated, or is absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// How a live figure relates to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveVerdict {
    /// It is near the published one.
    AsPublished,
    /// It is not, but near that in virtual time under the same conditions.
    AsSimulated,
    /// It is near neither.
    Differs,
}

/// A reproduced value: median and range over the seeds or runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproducedValue {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Number of seeds or runs.
    pub runs: u64,
}

/// A line of a redrawn picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReproducedCurve {
    /// The picture: `gain_by_limit`, `time_by_size`, `allowance_by_rate`, `accuracy_by_rate`, `time_by_threads`.
    pub picture: String,
    /// The panel.
    pub panel: String,
    /// The line.
    pub label: String,
    /// Reproduced points, x and y.
    pub points: Vec<(f64, f64)>,
    /// Published points, x and y.
    pub published: Vec<(f64, f64)>,
}

impl ReproducedFigure {
    /// Returns whether it is simulated and agrees with the published figure. A published bound has no tolerance.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let is_near = self.deviation_ratio.is_some_and(|ratio| ratio.abs() <= AGREEMENT_RATIO_MAX);
        self.simulated.is_some() && (self.is_met || is_near && !self.is_bound())
    }

    fn is_bound(&self) -> bool {
        matches!(self.relation.as_str(), "at least" | "at most" | "more than")
    }

    /// Returns what a live figure is held against, if it is held against anything, and whether it agrees with that.
    #[must_use]
    pub fn live_verdict(&self) -> Option<LiveVerdict> {
        self.live?;
        let ratio = self.live_deviation_ratio?;
        let tolerance = if self.is_bound() { 0.0 } else { AGREEMENT_RATIO_MAX };
        let is_near = |ratio: &f64| ratio.abs() <= AGREEMENT_RATIO_MAX;
        Some(match self.live_from_simulated_ratio.filter(is_near) {
            _ if ratio.abs() <= tolerance => LiveVerdict::AsPublished,
            Some(_) => LiveVerdict::AsSimulated,
            None => LiveVerdict::Differs,
        })
    }

    /// The meaning of the live figure in two or three words.
    fn live_meaning(&self) -> String {
        let percent = |ratio: Option<f64>| Value::Change(ratio.unwrap_or_default()).text();
        match self.live_verdict() {
            None => "of this machine".to_owned(),
            Some(LiveVerdict::AsPublished) if self.live_deviation_ratio == Some(0.0) => {
                "as published".to_owned()
            }
            Some(LiveVerdict::AsPublished) => format!("near, {}", percent(self.live_deviation_ratio)),
            Some(LiveVerdict::AsSimulated) => {
                format!("as simulated, {}", percent(self.live_from_simulated_ratio))
            }
            Some(LiveVerdict::Differs) => format!("differs, {}", percent(self.live_deviation_ratio)),
        }
    }

    /// The meaning of the reproduced figures in two or three words.
    fn meaning(&self) -> String {
        match (self.simulated, self.deviation_ratio) {
            (None, _) if self.live.is_some() => "only live".to_owned(),
            (None, _) => "not reproduced".to_owned(),
            _ if self.is_calibrated => "calibrated".to_owned(),
            _ if self.is_met => "as published".to_owned(),
            (Some(_), Some(ratio)) => {
                let percent = Value::Change(ratio).text();
                let is_off = !self.agrees();
                if is_off { format!("differs, {percent}") } else { format!("near, {percent}") }
            }
            (Some(_), None) => "differs".to_owned(),
        }
    }

    fn published_text(&self) -> String {
        let value = self.number(self.published);
        let relation = match self.relation.as_str() {
            "about" => "~",
            "at least" => "≥ ",
            "at most" => "≤ ",
            "more than" => "> ",
            _ => "",
        };
        let to = self.published_to.map(|to| format!("–{}", self.number(to))).unwrap_or_default();
        format!("{relation}{value}{to}")
    }

    fn number(&self, value: f64) -> String {
        let decimals = match self.unit.as_str() {
            "s" | "ms" | "ratio" if self.published.abs() < 100.0 => 2,
            "%" | "decades" => 1,
            _ => 0,
        };
        Value::Number(value, decimals).text()
    }
}

impl Present for ReproduceResult {
    const SCHEMA: &'static str = "sakiyomi.reproduce/1";

    fn title(&self) -> String {
        "Published figures, and their reproduction in virtual time and live".to_owned()
    }

    fn verdict(&self) -> Vec<Finding> {
        self.papers.iter().map(verdict).collect()
    }

    fn settings(&self) -> Vec<Fact> {
        vec![Fact::new("Effort", self.effort.as_str())]
    }

    fn sections(&self) -> Vec<Section> {
        let tables = self.papers.iter().flat_map(|paper| [Some(table(paper)), live_table(paper)]);
        tables.flatten().chain([notes(&self.papers), live_notes(&self.papers)]).collect()
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(self)
    }

    fn glossary(&self) -> Glossary {
        glossary::REPRODUCE
    }
}

fn verdict(paper: &ReproducedPaper) -> Finding {
    let simulated = paper.figures.iter().filter(|figure| figure.simulated.is_some()).count();
    let agreeing = paper.figures.iter().filter(|figure| figure.agrees()).count();
    let sentence = if simulated == 0 {
        format!("Not simulated: {} published figures.", count(paper.figures.len() as u64))
    } else {
        format!(
            "{} of {} simulated figures agree with the published ones.",
            count(agreeing as u64),
            count(simulated as u64)
        )
    };
    let sentences =
        [Some(sentence), calibrated_or_live(paper), furthest(paper)].into_iter().flatten().collect();
    Finding { about: paper.title.clone(), sentences, is_alarm: false }
}

/// Returns a sentence about how many figures are calibrated, and how many were measured live.
fn calibrated_or_live(paper: &ReproducedPaper) -> Option<String> {
    let many = |is: fn(&ReproducedFigure) -> bool| paper.figures.iter().filter(|figure| is(figure)).count();
    let calibrated = many(|figure| figure.is_calibrated && figure.simulated.is_some());
    let live = many(|figure| figure.live.is_some());
    let verb = |many: usize, one: &'static str, several: &'static str| if many == 1 { one } else { several };
    let calibrated = (calibrated > 0)
        .then(|| format!("{} {} calibrated", count(calibrated as u64), verb(calibrated, "is", "are")));
    let live = (live > 0).then(|| {
        format!("{} {} measured live{}", count(live as u64), verb(live, "was", "were"), live_agreement(paper))
    });
    let both: Vec<String> = [calibrated, live].into_iter().flatten().collect();
    (!both.is_empty()).then(|| {
        format!("Of the {} published figures, {}.", count(paper.figures.len() as u64), both.join(" and "))
    })
}

/// Returns how many of the live figures agree with others, of those that are held against any.
fn live_agreement(paper: &ReproducedPaper) -> String {
    let verdicts: Vec<LiveVerdict> =
        paper.figures.iter().filter_map(ReproducedFigure::live_verdict).collect();
    let many = |verdict| verdicts.iter().filter(|other| **other == verdict).count() as u64;
    let words = [
        (LiveVerdict::AsPublished, "as published"),
        (LiveVerdict::AsSimulated, "only as simulated"),
        (LiveVerdict::Differs, "differing from both"),
    ];
    let words = words.map(|(verdict, words)| (many(verdict), words));
    let words: Vec<String> = words
        .iter()
        .filter(|(many, _)| *many > 0)
        .map(|(many, words)| format!("{} {words}", count(*many)))
        .collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// Returns a sentence about the figure with the greatest deviation among those that do not agree.
fn furthest(paper: &ReproducedPaper) -> Option<String> {
    let off = |figure: &&ReproducedFigure| figure.deviation_ratio.map_or(0.0, f64::abs);
    let differing = paper.figures.iter().filter(|figure| figure.simulated.is_some() && !figure.agrees());
    let worst = differing.max_by(|a, b| off(a).total_cmp(&off(b)))?;
    let value = worst.simulated?.median;
    let unit = if worst.unit == "ratio" { "" } else { worst.unit.as_str() };
    let text = format!(
        "Largest deviation: {}, published {} {unit}, simulated {} {unit}",
        worst.what,
        worst.published_text(),
        worst.number(value)
    );
    Some(format!("{}.", text.trim_end().replace("  ", " ").replace(" ,", ",")))
}

fn table(paper: &ReproducedPaper) -> Section {
    let has_ranges = paper.figures.iter().any(|figure| is_several(figure.simulated));
    // The comparison comes first: a phone shows no more without scrolling.
    let mut table = Rows::new(&paper.name, "Figures", &paper.figures)
        .text("figure", |figure| Cell::from(figure.what.as_str()).note(&figure.note))
        .figure("published", |figure| figure.published_text())
        .figure("in virtual time", |figure| median(figure, figure.simulated))
        .text("unit", |figure| figure.unit.as_str())
        .text("what it means", |figure| figure.meaning())
        .when(has_ranges, |rows| {
            rows.figure("range over seeds", |figure| range(figure, figure.simulated)).spare(1)
        })
        .text("in the paper", |figure| figure.place.as_str())
        .detail()
        .emphasis(|figure| match figure.simulated {
            Some(_) if !figure.agrees() => Emphasis::Off,
            _ => Emphasis::None,
        })
        .table();
    table.caption = (paper.title.clone(), String::new());
    Section::Table(table)
}

/// Returns the figures that were measured live, if there are any, beside those that they are held against.
fn live_table(paper: &ReproducedPaper) -> Option<Section> {
    let live: Vec<&ReproducedFigure> = paper.figures.iter().filter(|figure| figure.live.is_some()).collect();
    let has_ranges = live.iter().any(|figure| is_several(figure.live));
    let mut table = Rows::new(&format!("{}-live", paper.name), "Live", &live)
        .text("figure", |figure| Cell::from(figure.what.as_str()).note(&figure.live_note))
        .figure("published", |figure| figure.published_text())
        .figure("in virtual time", |figure| median(figure, figure.live_conditions.or(figure.simulated)))
        .figure("here live", |figure| median(figure, figure.live))
        .text("unit", |figure| figure.unit.as_str())
        .text("what it means", |figure| figure.live_meaning())
        .when(has_ranges, |rows| rows.figure("range live", |figure| range(figure, figure.live)).spare(1))
        .emphasis(|figure| match figure.live_verdict() {
            Some(LiveVerdict::Differs) => Emphasis::Off,
            _ => Emphasis::None,
        })
        .table();
    table.caption = (format!("{}, live", paper.title), String::new());
    (!live.is_empty()).then_some(Section::Table(table))
}

fn is_several(value: Option<ReproducedValue>) -> bool {
    value.is_some_and(|value| value.runs > 1)
}

fn median(figure: &ReproducedFigure, value: Option<ReproducedValue>) -> Value {
    Value::known(value, |value| Value::Text(figure.number(value.median)))
}

fn range(figure: &ReproducedFigure, value: Option<ReproducedValue>) -> Value {
    Value::known(value.filter(|value| value.runs > 1), |value| {
        Value::Text(format!("{} … {}", figure.number(value.min), figure.number(value.max)))
    })
}

/// Returns the notes of all figures; each note once, with the figures that it is about.
fn notes(papers: &[ReproducedPaper]) -> Section {
    let mut notes: Vec<Note> = Vec::new();
    for paper in papers {
        for figure in &paper.figures {
            add_note(&mut notes, paper, figure, &figure.note);
            if figure.live_verdict().is_some_and(|verdict| verdict != LiveVerdict::AsPublished) {
                add_note(&mut notes, paper, figure, &figure.live_note);
            }
        }
    }
    Section::Notes(Notes { heading: "Calibrations, assumptions and differences", notes })
}

/// Adds the note of a figure, or the figure to the same note of another one.
fn add_note(notes: &mut Vec<Note>, paper: &ReproducedPaper, figure: &ReproducedFigure, text: &str) {
    if text.is_empty() {
        return;
    }
    let label = Value::from(paper.name.as_str());
    let is_known =
        |note: &&mut Note| note.text == text && note.label.as_ref().is_some_and(|known| known.value == label);
    match notes.iter_mut().find(is_known) {
        Some(note) => {
            // One line for all: some notes are about a dozen figures.
            note.details.iter_mut().for_each(|figures| {
                figures.push_str("; ");
                figures.push_str(&figure.what);
            });
        }
        None => notes.push(Note {
            label: Some(Cell::from(paper.name.as_str())),
            text: text.to_owned(),
            details: vec![figure.what.clone()],
        }),
    }
}

/// Returns what was measured live, and what was not.
fn live_notes(papers: &[ReproducedPaper]) -> Section {
    let notes = papers.iter().flat_map(|paper| {
        paper.live.iter().map(|sentence| Note {
            label: Some(Cell::from(paper.name.as_str())),
            text: sentence.clone(),
            details: Vec::new(),
        })
    });
    Section::Notes(Notes { heading: "Live on this machine", notes: notes.collect() })
}
