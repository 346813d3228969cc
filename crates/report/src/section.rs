//! Contents of a report, said once by its result: figures, tables and notes, which every renderer draws in its own
//! way.

use serde::Serialize;

use crate::chart::Chart;
use crate::document::{Document, Machine, Run};
use crate::value::{Aim, Value};

/// A word and its meaning.
pub type Glossary = &'static [(&'static str, &'static str)];

/// A result that describes its report.
pub trait Present {
    /// Name and version of its JSON.
    const SCHEMA: &'static str;

    /// Subject of the measurement or simulation.
    fn title(&self) -> String;

    /// The answer, in sentences.
    fn verdict(&self) -> Vec<Finding>;

    /// Settings of the measurement or simulation.
    fn settings(&self) -> Vec<Fact>;

    /// Its figures, in the order of reading; empty ones are left out of the report.
    fn sections(&self) -> Vec<Section>;

    /// Its pictures, the most telling first.
    fn charts(&self, machine: &Machine) -> Vec<Chart>;

    /// The words that it uses.
    fn glossary(&self) -> Glossary;

    /// The report of a result whose run does not matter.
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

/// Contents of a report of one or more results, but for the charts, which not every renderer draws.
pub struct Report<'a> {
    /// Subject of the measurement or simulation.
    pub title: String,
    /// The answer.
    pub verdict: Vec<Finding>,
    /// Settings of the run.
    pub settings: Vec<Fact>,
    /// The figures, in the order of reading.
    pub sections: Vec<Section>,
    /// Runs that made the results, each with its name; empty for a queried state.
    pub runs: Vec<(&'static str, &'a Run)>,
    /// The words that are used.
    pub glossary: Glossary,
}

/// A document, a comparison of documents, or a state.
pub trait Reported: Serialize {
    /// All but the charts.
    fn report(&self) -> Report<'_>;

    /// The charts.
    fn charts(&self) -> Vec<Chart>;
}

impl<R: Present> Document<R> {
    /// A document of a result.
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

/// Sentences about a part of a result, or the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The part; empty for the whole.
    pub about: String,
    /// The most important first.
    pub sentences: Vec<String>,
    /// Whether it must not be overlooked.
    pub is_alarm: bool,
}

impl Finding {
    /// About the whole result.
    pub(crate) fn whole(sentences: Vec<String>) -> Vec<Finding> {
        vec![Finding { sentences, ..Finding::default() }]
    }
}

/// A part of a report.
#[derive(Clone, Debug)]
pub enum Section {
    /// Figures by their names, in groups.
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
    /// Names of the values that each fact has, where it has several.
    pub columns: Vec<&'static str>,
    /// The groups.
    pub groups: Vec<Group>,
}

/// Figures that belong together.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Their subject.
    pub name: String,
    /// The figures.
    pub facts: Vec<Fact>,
}

impl Group {
    pub(crate) fn new(name: impl Into<String>, facts: impl IntoIterator<Item = Fact>) -> Group {
        Group { name: name.into(), facts: facts.into_iter().collect() }
    }
}

/// A figure by its name.
#[derive(Clone, Debug, Default)]
pub struct Fact {
    /// Its name.
    pub label: String,
    /// Its value; those of several results side by side.
    pub values: Vec<Cell>,
    /// The direction in which it should go.
    pub aim: Aim,
    /// The part that it is of its group, if it is one.
    pub share: Option<f64>,
    /// In a comparison, the value of a result without such a fact.
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

    /// With the direction in which it should go.
    pub(crate) fn aim(self, aim: Aim) -> Fact {
        Fact { aim, ..self }
    }

    /// As a part of `whole`.
    pub(crate) fn of(self, whole: u64) -> Fact {
        let part = match self.values.first().map(|cell| &cell.value) {
            Some(&(Value::Count(part) | Value::Time(part) | Value::Size(part))) => part,
            _ => 0,
        };
        Fact { share: Some(crate::number::ratio(part, whole)), ..self }
    }

    /// With the value of a result that has no such fact.
    pub(crate) fn or(self, absent: &'static str) -> Fact {
        Fact { absent, ..self }
    }
}

/// A fact for each setting that was changed: `cache.read_ahead.max=1MiB`.
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
    /// Subject of the rows; neighbouring tables with the same heading belong together.
    pub heading: &'static str,
    /// If there are several tables under a heading, the name of this one, and the settings that its rows share.
    pub caption: (String, String),
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has as many cells as there are columns, or fewer.
    pub rows: Vec<Row>,
    /// Meaning of marks and columns.
    pub legend: String,
    /// Whether a summary can do without it.
    pub is_detail: bool,
    /// Whether its cells are values of a user's, which are never broken over lines, however wide it becomes.
    pub is_data: bool,
}

/// A column of a table.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// Whether it holds words; columns of words stand before those of figures.
    pub is_text: bool,
    /// Whether a summary can do without it.
    pub is_detail: bool,
    /// If there is no room for all columns, those of the highest rank are left out first; columns of rank 0 stay.
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
    /// Not at all.
    #[default]
    None,
    /// It is worth more than the others.
    Best,
    /// It is not as it should be.
    Off,
}

/// A value with its annotations.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The value.
    pub value: Value,
    /// Its meaning.
    pub tone: Tone,
    /// Words that a pointer shows.
    pub note: String,
}

impl Cell {
    /// With a meaning.
    pub(crate) fn tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }

    /// With words that a pointer shows.
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
    /// Nothing by itself.
    #[default]
    Plain,
    /// A change for the better.
    Better,
    /// A change for the worse.
    Worse,
    /// It differs from the value beside it.
    Differs,
    /// The storage is the limit.
    StorageBound,
    /// The CPU is the limit.
    CpuBound,
    /// The time of single requests is the limit.
    LatencyBound,
    /// The limit is not known.
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

/// A sentence, and the cases that it holds for.
#[derive(Clone, Debug, Default)]
pub struct Note {
    /// In a word; may be nothing.
    pub label: Option<Cell>,
    /// The sentence.
    pub text: String,
    /// The cases that it holds for.
    pub details: Vec<String>,
}

impl Notes {
    /// Bare sentences.
    pub(crate) fn plain(heading: &'static str, texts: impl IntoIterator<Item = String>) -> Section {
        let note = |text| Note { text, ..Note::default() };
        Section::Notes(Notes { heading, notes: texts.into_iter().map(note).collect() })
    }
}
