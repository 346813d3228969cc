//! What the terminal shows: a summary that can be read at a glance, with scaled units.

mod compare;
mod iorate;
mod probe;
mod run;
mod scenario;
mod sim;
mod style;
mod sweep;
mod top;
mod validate;

pub use compare::compare;
pub(crate) use iorate::who as owner_name;
pub use iorate::{iorate, iorate_bypass, iorate_lines, iorate_owner};
pub use probe::probe;
pub use run::run;
pub use scenario::scenario;
pub use sim::sim;
pub use style::Style;
pub(crate) use style::one_line;
pub use sweep::sweep;
pub use top::{Window, top};
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
        watched.result.could_save_ns = Some(240_000_000);
        watched.result.storage_bytes_per_second = Some(200_000_000);
        let mut idle = document.clone();
        idle.result.prefetched_bytes = 0;
        insta::assert_snapshot!([document, watched, idle].map(|document| run(&document, PLAIN)).join("\n"));
    }

    #[test]
    fn a_regulated_device() {
        let mut result = sample::iorate();
        let mut texts = vec![iorate(&result, PLAIN), iorate_lines(&result)];
        result.owners.clear();
        result.device.bypass = Some(crate::schema::IorateBypass {
            device: "sda".to_owned(),
            requests_per_s: 120.4,
            share_ratio: 0.55,
        });
        texts.push(iorate(&result, PLAIN));
        insta::assert_snapshot!(texts.join("\n--\n"));
    }

    #[test]
    fn a_live_view_in_windows_of_all_sizes() {
        let mut result = sample::iorate();
        let view = |result: &crate::IorateResult, columns, rows| {
            let frame = top(result, Window { columns, rows }, false).join("\n");
            format!("{columns} x {rows}\n{frame}\n")
        };
        let mut frames = vec![view(&result, 120, 24), view(&result, 60, 24), view(&result, 30, 7)];
        result.device.bypass = Some(crate::schema::IorateBypass {
            device: "sda".to_owned(),
            requests_per_s: 120.4,
            share_ratio: 0.55,
        });
        frames.push(view(&result, 100, 8));
        insta::assert_snapshot!(frames.join("\n"));
        let coloured = top(&result, Window { columns: 100, rows: 24 }, true);
        // Loss of control, and a rate that is not kept, stand out.
        assert!(
            coloured[3].starts_with("\x1b[1;31mBYPASSED") && coloured[6].starts_with("\x1b[33m4712"),
            "{coloured:#?}"
        );
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
        fn any_regulated_device_has_a_text(result in sample::any_iorate(), width: usize) {
            let style = Style { width, colour: false };
            for text in [iorate(&result, style), iorate_lines(&result)] {
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
            let text = sweep(&Document::sweep(Run::default(), result), Style { width, colour: false });
            prop_assert!(!text.is_empty());
        }
    }
}
