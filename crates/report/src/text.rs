//! What the terminal shows: a summary that can be read at a glance, with scaled units.

mod compare;
mod probe;
mod run;
mod scenario;
mod sim;
mod style;
mod sweep;
mod validate;

pub use compare::compare;
pub use probe::probe;
pub use run::run;
pub use scenario::scenario;
pub use sim::sim;
pub use style::Style;
pub use sweep::sweep;
pub use validate::validate;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::schema::{Document, ProbeResult, Run, SimResult, SweepResult, ValidateResult};
    use proptest::prelude::*;

    const PLAIN: Style = Style { width: 100, colour: false };

    #[test]
    fn one_scenario() {
        insta::assert_snapshot!(scenario(&sample::scenario(), PLAIN));
    }

    #[test]
    fn jobs_of_an_experiment() {
        insta::assert_snapshot!(scenario(&sample::jobs(), PLAIN));
    }

    #[test]
    fn one_experiment_with_regulated_programs() {
        insta::assert_snapshot!(scenario(&sample::regulated(), PLAIN));
        let mut alone = sample::regulated();
        alone.result.points.truncate(1);
        insta::assert_snapshot!(scenario(&alone, PLAIN));
    }

    #[test]
    fn one_search_for_the_best_allowance() {
        insta::assert_snapshot!(scenario(&sample::searched(), PLAIN));
    }

    #[test]
    fn one_simulation() {
        insta::assert_snapshot!(sim(&sample::document("long"), PLAIN));
    }

    #[test]
    fn two_simulations() {
        insta::assert_snapshot!(compare(&sample::document("short"), &sample::document("long"), PLAIN));
    }

    #[test]
    fn an_exploration() {
        insta::assert_snapshot!(sweep(&sample::sweep(), PLAIN));
    }

    #[test]
    fn one_validation() {
        insta::assert_snapshot!(validate(&sample::validation(), PLAIN));
    }

    #[test]
    fn one_probe() {
        insta::assert_snapshot!(probe(&sample::probe(), PLAIN));
    }

    #[test]
    fn one_probe_on_a_narrow_terminal() {
        let text = probe(&sample::probe(), Style { width: 80, ..PLAIN });
        insta::assert_snapshot!(text.split("\n\n").nth(6).unwrap());
    }

    #[test]
    fn one_run() {
        let document = sample::followed();
        let mut watched = document.clone();
        watched.result.dry_run = true;
        let mut idle = document.clone();
        idle.result.prefetched_bytes = 0;
        insta::assert_snapshot!([document, watched, idle].map(|document| run(&document, PLAIN)).join("\n"));
    }

    #[test]
    fn nothing_at_all() {
        assert!(!probe(&Document::probe(Run::default(), ProbeResult::default()), PLAIN).is_empty());
        assert!(!validate(&Document::validate(Run::default(), ValidateResult::default()), PLAIN).is_empty());
        insta::assert_snapshot!(sim(&Document::sim(Run::default(), SimResult::default()), PLAIN));
        assert!(!sweep(&Document::sweep(Run::default(), SweepResult::default()), PLAIN).is_empty());
    }

    #[test]
    fn colour_only_where_asked_for() {
        let document = sample::document("long");
        assert!(!sim(&document, PLAIN).contains('\x1b'));
        assert!(sim(&document, Style { colour: true, ..PLAIN }).contains('\x1b'));
    }

    proptest! {
        #[test]
        fn any_result_has_a_text(a in sample::any_result(), b in sample::any_result(), width: usize) {
            let (a, b) = (Document::sim(Run::default(), a), Document::sim(Run::default(), b));
            let style = Style { width, colour: true };
            prop_assert!(!sim(&a, style).is_empty() && !compare(&a, &b, style).is_empty());
        }

        #[test]
        fn any_validation_has_a_text(result in sample::any_validation(), width: usize) {
            let text = validate(&Document::validate(Run::default(), result), Style { width, colour: false });
            prop_assert!(!text.is_empty() && !text.contains("NaN"));
        }

        #[test]
        fn any_probe_has_a_text(result in sample::any_broken_probe(), width: usize) {
            let text = probe(&Document::probe(Run::default(), result), Style { width, colour: false });
            prop_assert!(!text.contains("NaN") && !text.chars().any(|c| c.is_control() && c != '\n'));
        }

        #[test]
        fn any_scenario_has_a_text(result in sample::any_scenario(), width: usize) {
            let text = scenario(&Document::scenario(Run::default(), result), Style { width, colour: false });
            prop_assert!(!text.contains("NaN") && !text.chars().any(|c| c.is_control() && c != '\n'));
        }

        #[test]
        fn any_exploration_has_a_text(result in sample::any_sweep(), width: usize) {
            let text = sweep(&Document::sweep(Run::default(), result), Style { width, colour: false });
            prop_assert!(!text.is_empty());
        }
    }
}
