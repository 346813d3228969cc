//! Whatever can be reported: a report with its charts.

use serde::Serialize;

use crate::chart::{Chart, Charted};
use crate::document::Document;
use crate::present::{Present, Report};
use crate::result::IorateResult;

/// A document, a comparison of documents, or a state.
pub trait Reported: Serialize {
    /// All but the charts.
    fn report(&self) -> Report<'_>;

    /// The charts.
    fn charts(&self) -> Vec<Chart>;
}

impl<R: Present + Charted + Serialize> Reported for Document<R> {
    fn report(&self) -> Report<'_> {
        Report { runs: vec![("", &self.run)], ..self.result.alone() }
    }

    fn charts(&self) -> Vec<Chart> {
        self.result.charts(&self.run.machine)
    }
}

impl Reported for IorateResult {
    fn report(&self) -> Report<'_> {
        self.alone()
    }

    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }
}
