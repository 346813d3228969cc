//! Contents of a report, described once by its result: figures, tables and notes, which every renderer draws in its
//! own way.

use serde::Serialize;

use crate::chart::Chart;
use crate::document::{Document, Machine, Run};
use crate::value::{Aim, Value};

/// Terms and their meanings.
pub type Glossary = &'static [(&'static str, &'static str)];

/// A result that describes its report.
pub trait Present {
    /// Name and version of its JSON.
    const SCHEMA: &'static str;

    /// Returns the subject of the measurement or simulation.
    fn title(&self) -> String;

    /// Returns the verdict, in sentences.
    fn verdict(&self) -> Vec<Finding>;

    /// Returns the settings of the measurement or simulation.
    fn settings(&self) -> Vec<Fact>;

    /// Returns its figures, in reading order; empty sections are omitted from the report.
    fn sections(&self) -> Vec<Section>;

    /// Returns its charts, the most informative first.
    fn charts(&self, machine: &Machine) -> Vec<Chart>;

    /// Returns the terms that it uses.
    fn glossary(&self) -> Glossary;

    /// Returns the report of a result without the circumstances of its run.
    fn alone(&self) -> Report<'static> {
        Report {
            title: self.title(),
            verdict: self.verdict(),
            settings: self.settings(),
            sections: self.sections().into_iter().filter(|section| !section.is_empty()).collect(),
            runs: Vec::new(),
            glossary: self.glossary(),
        }
    }
}

/// Contents of a report of one or more results, without the charts, which not every renderer draws.
pub struct Report<'a> {
    /// Subject of the measurement or simulation.
    pub title: String,
    /// The verdict.
    pub verdict: Vec<Finding>,
    /// Settings of the run.
    pub settings: Vec<Fact>,
    /// The figures, in reading order.
    pub sections: Vec<Section>,
    /// The runs of the results, each with its name; empty for a queried state.
    pub runs: Vec<(&'static str, &'a Run)>,
    /// The terms that are used.
    pub glossary: Glossary,
}

/// A document, a comparison of documents, or a state.
pub trait Reported: Serialize {
    /// Returns the report without the charts.
    fn report(&self) -> Report<'_>;

    /// Returns the charts.
    fn charts(&self) -> Vec<Chart>;
}

impl<R: Present> Document<R> {
    /// Creates a document of a result.
    #[must_use]
    pub fn new(run: Run, result: R) -> Self {
        Document { schema: R::SCHEMA.to_owned(), run, result }
    }
}

impl<R: Present + Serialize> Reported for Document<R> {
    fn report(&self) -> Report<'_> {
        Report { runs: vec![("", &self.run)], ..self.result.alone() }
    }

    fn charts(&self) -> Vec<Chart> {
        self.result.charts(&self.run.machine)
    }
}

/// Sentences about a part of a result, or about the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The part; empty for the whole.
    pub about: String,
    /// The most important first.
    pub sentences: Vec<String>,
    /// Whether it is an alarm, which must not be overlooked.
    pub is_alarm: bool,
}

impl Finding {
    /// Creates a finding about the whole result.
    pub(crate) fn whole(sentences: Vec<String>) -> Vec<Finding> {
        vec![Finding { sentences, ..Finding::default() }]
    }
}

/// A part of a report.
#[derive(Clone, Debug)]
pub enum Section {
    /// Named figures, in groups.
    Totals(Totals),
    /// Rows and columns.
    Table(Table),
    /// Sentences.
    Notes(Notes),
}

impl Section {
    fn is_empty(&self) -> bool {
        match self {
            Section::Totals(totals) => totals.groups.is_empty(),
            Section::Table(table) => table.rows.is_empty(),
            Section::Notes(notes) => notes.notes.is_empty(),
        }
    }
}

/// Groups of figures.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Names of the values of each fact, if it has several.
    pub columns: Vec<&'static str>,
    /// The groups.
    pub groups: Vec<Group>,
}

/// Figures that belong together.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Their common subject.
    pub name: String,
    /// The figures.
    pub facts: Vec<Fact>,
}

impl Group {
    pub(crate) fn new(name: impl Into<String>, facts: impl IntoIterator<Item = Fact>) -> Group {
        Group { name: name.into(), facts: facts.into_iter().collect() }
    }
}

/// A named figure.
#[derive(Clone, Debug, Default)]
pub struct Fact {
    /// Its name.
    pub label: String,
    /// Its value; those of several results side by side.
    pub values: Vec<Cell>,
    /// The direction in which it should go.
    pub aim: Aim,
    /// Its share of its group, if it is a part of it.
    pub share: Option<f64>,
    /// In a comparison, the text for a result without such a fact.
    pub(crate) absent: &'static str,
}

impl Fact {
    pub(crate) fn new(label: impl Into<String>, value: impl Into<Value>) -> Fact {
        Fact { label: label.into(), values: vec![Cell::from(value.into())], ..Fact::default() }
    }

    pub(crate) fn count(label: &'static str, count: u64) -> Fact {
        Fact::new(label, Value::Count(count))
    }

    pub(crate) fn time(label: &'static str, ns: u64) -> Fact {
        Fact::new(label, Value::Time(ns))
    }

    pub(crate) fn size(label: &'static str, bytes: u64) -> Fact {
        Fact::new(label, Value::Size(bytes))
    }

    /// Sets the direction in which it should go.
    pub(crate) fn aim(self, aim: Aim) -> Fact {
        Fact { aim, ..self }
    }

    /// Makes it a part of `whole`.
    pub(crate) fn of(self, whole: u64) -> Fact {
        let part = match self.values.first().map(|cell| &cell.value) {
            Some(&(Value::Count(part) | Value::Time(part) | Value::Size(part))) => part,
            _ => 0,
        };
        Fact { share: Some(crate::number::ratio(part, whole)), ..self }
    }

    /// Sets the text for a result without such a fact.
    pub(crate) fn or(self, absent: &'static str) -> Fact {
        Fact { absent, ..self }
    }
}

/// Returns a fact for each changed setting: `cache.read_ahead.max=1MiB`.
pub(crate) fn changed(settings: &[String]) -> impl Iterator<Item = Fact> + '_ {
    settings.iter().map(|setting| {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        Fact::new(key.trim(), value.trim()).or("the drive's own")
    })
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// File name of its CSV, without the extension.
    pub name: String,
    /// Subject of the rows; consecutive tables with the same heading are grouped.
    pub heading: &'static str,
    /// If there are several tables under a heading, the name of this one, and the settings that its rows share.
    pub caption: (String, String),
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has at most as many cells as there are columns.
    pub rows: Vec<Row>,
    /// Meaning of marks and columns.
    pub legend: String,
    /// Whether a summary can omit it.
    pub is_detail: bool,
    /// Whether its cells are the user's data, which are never broken over lines, however wide the table becomes.
    pub is_data: bool,
}

/// A column of a table.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Its header.
    pub name: String,
    /// Whether it holds text; text columns precede those of figures.
    pub is_text: bool,
    /// Whether a summary can omit it.
    pub is_detail: bool,
    /// If there is no room for all columns, those of the highest rank are omitted first; columns of rank 0 stay.
    pub spare: u8,
    /// The direction in which its figures should go.
    pub aim: Aim,
}

/// A row of a table.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its cells.
    pub cells: Vec<Cell>,
    /// Its emphasis.
    pub emphasis: Emphasis,
}

/// The emphasis of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// None.
    #[default]
    None,
    /// Better than the others.
    Best,
    /// Not as it should be.
    Off,
}

/// A value with its annotations.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The value.
    pub value: Value,
    /// Its meaning, for colors and marks.
    pub tone: Tone,
    /// Tooltip text.
    pub note: String,
}

impl Cell {
    /// Sets the meaning.
    pub(crate) fn tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }

    /// Sets the tooltip text.
    pub(crate) fn note(self, note: &str) -> Cell {
        Cell { note: note.to_owned(), ..self }
    }
}

impl<V: Into<Value>> From<V> for Cell {
    fn from(value: V) -> Cell {
        Cell { value: value.into(), ..Cell::default() }
    }
}

/// Meaning of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// None.
    #[default]
    Plain,
    /// An improvement.
    Better,
    /// A deterioration.
    Worse,
    /// It differs from the value beside it.
    Differs,
    /// The storage is the limit.
    StorageBound,
    /// The CPU is the limit.
    CpuBound,
    /// Latency is the limit.
    LatencyBound,
    /// The limit is unknown.
    Undecided,
}

/// Notes under a heading.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// Their subject.
    pub heading: &'static str,
    /// The notes.
    pub notes: Vec<Note>,
}

/// A sentence, and the cases that it applies to.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// A label of one word, if any.
    pub label: Option<Cell>,
    /// The sentence.
    pub text: String,
    /// The cases that it applies to.
    pub details: Vec<String>,
}

impl Notes {
    /// Creates a section of sentences without labels.
    pub(crate) fn plain(heading: &'static str, texts: impl IntoIterator<Item = String>) -> Section {
        let note = |text| Note { text, ..Note::default() };
        Section::Notes(Notes { heading, notes: texts.into_iter().map(note).collect() })
    }
}
