//! Published and reproduced figures as a result.

use sakiyomi_report::result::{
    ReproduceResult, ReproducedCurve, ReproducedFigure, ReproducedPaper, ReproducedValue,
};
use sakiyomi_reproduce::{
    Curve, Effort, Estimate, Paper, Published, Relation, Results, curves, estimates, live_conditions,
    live_estimates, published,
};

use super::live::LiveNotes;

pub(super) fn result(
    papers: &[Paper],
    effort: Effort,
    results: &Results,
    (live_results, mut live_notes): (&Results, LiveNotes),
) -> ReproduceResult {
    let effort = match effort {
        Effort::Quick => "quick",
        Effort::Full => "full",
    };
    let published = published();
    let papers = papers.iter().map(|paper| {
        let (estimates, live) = (estimates(*paper, results), live_estimates(*paper, live_results));
        let conditions = live_conditions(*paper, results);
        let of_paper = published.iter().filter(|figure| figure.paper == *paper);
        ReproducedPaper {
            name: paper.id().to_owned(),
            title: paper.title().to_owned(),
            figures: of_paper
                .map(|published| {
                    let live =
                        Live { estimate: live.get(&published.id), conditions: conditions.get(&published.id) };
                    figure(published, estimates.get(&published.id), live)
                })
                .collect(),
            live: live_notes.remove(paper).unwrap_or_default(),
            curves: curves(*paper, results).into_iter().map(curve).collect(),
        }
    });
    ReproduceResult { effort: effort.to_owned(), papers: papers.collect() }
}

/// A figure measured live, and that in virtual time under its conditions, if these are not the paper's.
struct Live<'a> {
    estimate: Option<&'a Estimate>,
    conditions: Option<&'a Estimate>,
}

fn figure(published: &Published, estimate: Option<&Estimate>, live: Live<'_>) -> ReproducedFigure {
    // Held against nothing if it is a figure of this machine.
    let judged = live.estimate.filter(|_| !published.is_of_machine).map(|live| live.median);
    let simulated = live.conditions.or(estimate).map(|simulated| simulated.median);
    let absent = || format!("Not in virtual time: {}.", published.paper.why_not_virtual());
    let note = published.note.clone();
    ReproducedFigure {
        id: published.id.clone(),
        place: published.place.clone(),
        what: published.what.clone(),
        unit: published.unit.clone(),
        relation: relation(published.relation).to_owned(),
        published: published.value,
        published_to: published.to,
        simulated: estimate.map(value),
        live: live.estimate.map(value),
        live_conditions: live.estimate.and(live.conditions).map(value),
        live_deviation_ratio: judged.and_then(|live| published.deviation(live)),
        live_from_simulated_ratio: judged
            .zip(simulated)
            .and_then(|(live, simulated)| published.live_deviation(live, simulated)),
        live_note: live.estimate.and(published.live_note.clone()).unwrap_or_default(),
        deviation_ratio: estimate.and_then(|estimate| published.deviation(estimate.median)),
        is_met: estimate.is_some_and(|estimate| published.is_met_by(estimate.median)),
        is_calibrated: published.is_calibrated,
        note: if estimate.is_none() { note.unwrap_or_else(absent) } else { note.unwrap_or_default() },
    }
}

fn value(estimate: &Estimate) -> ReproducedValue {
    ReproducedValue {
        median: estimate.median,
        min: estimate.min,
        max: estimate.max,
        runs: estimate.runs as u64,
    }
}

fn relation(relation: Relation) -> &'static str {
    match relation {
        Relation::Exactly => "exactly",
        Relation::About => "about",
        Relation::AtLeast => "at least",
        Relation::AtMost => "at most",
        Relation::MoreThan => "more than",
    }
}

fn curve(curve: Curve) -> ReproducedCurve {
    ReproducedCurve {
        picture: curve.figure.id().to_owned(),
        panel: curve.panel,
        label: curve.label,
        points: curve.points,
        published: curve.published,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_figure_is_shown_with_its_value_and_unit_whatever_was_run() {
        let none = Results::default();
        let shown = result(&Paper::ALL, Effort::Quick, &none, (&none, LiveNotes::new()));
        let shown: Vec<_> = shown
            .papers
            .iter()
            .flat_map(|paper| paper.figures.iter().map(|figure| (paper.name.as_str(), figure)))
            .map(|(paper, figure)| {
                (paper, figure.id.as_str(), figure.published, figure.published_to, figure.unit.as_str())
            })
            .collect();
        let published = published();
        let all: Vec<_> = Paper::ALL
            .into_iter()
            .flat_map(|paper| published.iter().filter(move |figure| figure.paper == paper))
            .map(|figure| {
                (figure.paper.id(), figure.id.as_str(), figure.value, figure.to, figure.unit.as_str())
            })
            .collect();
        assert_eq!(shown, all);
        assert_eq!(all.len(), published.len());
    }

    #[test]
    fn a_figure_that_was_not_run_has_a_reason() {
        let none = Results::default();
        let shown = result(&Paper::ALL, Effort::Quick, &none, (&none, LiveNotes::new()));
        let mut figures = shown.papers.iter().flat_map(|paper| &paper.figures);
        assert!(figures.all(|figure| !figure.note.is_empty() && figure.simulated.is_none()));
    }
}
