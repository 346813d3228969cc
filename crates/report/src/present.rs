//! A result describes its report; renderers draw any report.

use crate::document::{Document, Run};
use crate::section::{Fact, Finding, Glossary, Section};

/// A result that describes its report.
pub trait Present {
    /// Name and version of its JSON.
    const SCHEMA: &'static str;

    /// Subject of the measurement or simulation.
    fn title(&self) -> String;

    /// The answer, in sentences.
    fn verdict(&self) -> Vec<Finding>;

    /// How it was measured or simulated.
    fn settings(&self) -> Vec<Fact>;

    /// Its figures, in the order of reading; empty ones are left out of the report.
    fn sections(&self) -> Vec<Section>;

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
    /// How it was done.
    pub settings: Vec<Fact>,
    /// The figures, in the order of reading.
    pub sections: Vec<Section>,
    /// Runs that made the results, each with its name; none for a state that was asked for.
    pub runs: Vec<(&'static str, &'a Run)>,
    /// The words that are used.
    pub glossary: Glossary,
}

impl<R: Present> Document<R> {
    /// A document of a result.
    #[must_use]
    pub fn new(run: Run, result: R) -> Self {
        Document { schema: R::SCHEMA.to_owned(), run, result }
    }
}
