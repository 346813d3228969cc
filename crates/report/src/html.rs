//! One self-contained page: opens from `file://`, loads nothing, prints well.
//!
//! It begins with the verdict and the first chart; then come settings, totals and the other charts, and at the end the
//! glossary. The page is complete without a script. The script, which all pages share, adds a cursor that reads out the
//! numbers of a chart, sorting and folding of tables, and the data of charts and tables as CSV.

mod compare;
mod mount;
mod page;
mod probe;
mod run;
mod scenario;
mod series;
mod sim;
mod sweep;
mod table;
mod top;
mod validate;

pub use compare::compare;
pub use mount::mount;
pub use probe::probe;
pub use run::run;
pub use scenario::scenario;
pub use sim::sim;
pub use sweep::sweep;
pub use top::top;
pub use validate::validate;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::schema::{
        ChunkPoint, CurvePoint, Document, MountResult, ProbeResult, Run, RunResult, SimResult, SweepResult,
        TopResult, ValidateResult,
    };
    use proptest::prelude::*;

    /// The page without what is tested elsewhere: style, script, pictures and their data.
    fn skeleton(page: &str) -> String {
        let mut page = page.to_owned();
        for (open, close) in [("<style>", "</style>"), ("<svg ", "</svg>"), ("<script", "</script>")] {
            let mut from = 0;
            while let Some(start) = page[from..].find(open).map(|at| at + from) {
                let end = page[start..].find(close).unwrap() + start;
                page.replace_range(start + open.len()..end, "…");
                from = start + open.len();
            }
        }
        page.replace("><", ">\n<")
    }

    /// The page without its script.
    fn content(page: &str) -> &str {
        page.split("<script").next().unwrap()
    }

    #[test]
    fn one_simulation() {
        insta::assert_snapshot!(skeleton(&sim(&sample::document("long"))));
    }

    #[test]
    fn an_exploration() {
        insta::assert_snapshot!(skeleton(&sweep(&sample::sweep())));
    }

    #[test]
    fn jobs_of_an_experiment() {
        insta::assert_snapshot!(skeleton(&scenario(&sample::jobs())));
    }

    #[test]
    fn one_validation() {
        insta::assert_snapshot!(skeleton(&validate(&sample::validation())));
    }

    #[test]
    fn one_scenario() {
        insta::assert_snapshot!(skeleton(&scenario(&sample::scenario())));
    }

    #[test]
    fn one_search_for_the_best_allowance() {
        insta::assert_snapshot!(skeleton(&scenario(&sample::searched())));
    }

    #[test]
    fn one_probe() {
        insta::assert_snapshot!(skeleton(&probe(&sample::probe())));
    }

    #[test]
    fn one_run() {
        insta::assert_snapshot!(skeleton(&run(&sample::followed())));
    }

    #[test]
    fn one_mount() {
        let document = Document::mount(Run::default(), sample::live::mount());
        insta::assert_snapshot!(skeleton(&mount(&document)));
    }

    #[test]
    fn one_device_that_was_watched() {
        let document = Document::top(Run::default(), sample::live::top());
        insta::assert_snapshot!(skeleton(&top(&document)));
    }

    #[test]
    fn different_settings_are_marked_in_a_comparison() {
        let page = compare(&sample::document("short"), &sample::document("long"));
        assert!(page.contains("<mark>cache.read_ahead.max=64KiB</mark>"));
        assert!(page.contains("<mark>cache.read_ahead.max=1MiB</mark>"));
        let page = compare(&sample::document("long"), &sample::document("long"));
        assert!(!page.contains("<mark>"));
    }

    /// A page of each kind.
    fn pages() -> Vec<String> {
        let scenarios = [sample::scenario(), sample::jobs(), sample::regulated(), sample::searched()];
        let mut pages = vec![
            sim(&sample::document("long")),
            compare(&sample::document("short"), &sample::document("long")),
            sweep(&sample::sweep()),
            validate(&sample::validation()),
            probe(&sample::probe()),
            run(&sample::followed()),
            mount(&Document::mount(Run::default(), sample::live::mount())),
            top(&Document::top(Run::default(), sample::live::top())),
        ];
        pages.extend(scenarios.iter().map(scenario));
        pages
    }

    #[test]
    fn a_page_begins_with_the_answer_and_the_first_chart() {
        for page in pages() {
            let at = |wanted: &str| page.find(wanted).unwrap_or_else(|| panic!("no {wanted} in {page}"));
            assert!(at("<h1>") < at("class=\"verdict\"") && at("class=\"verdict\"") < at("<figure"));
            for later in ["<h2>", "<table", "class=\"facts\""] {
                assert!(at("<figure") < page.find(later).unwrap_or(usize::MAX), "{later} comes first");
            }
        }
    }

    #[test]
    fn a_page_loads_nothing_and_has_one_script() {
        for page in pages() {
            assert!(!content(&page).contains("src=") && !content(&page).contains("href="));
            assert_eq!(page.matches("<script>").count(), 1);
            let ids: Vec<&str> =
                page.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
            let mut different = ids.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), ids.len(), "an id is there twice: {ids:?}");
        }
    }

    #[test]
    fn every_table_of_results_says_what_its_columns_and_rows_are() {
        for page in pages() {
            for table in page.split("<table class=\"points\"").skip(1) {
                let table = table.split("</table>").next().unwrap();
                assert!(table.contains("scope=\"col\"") && table.contains("data-name=\""), "{table}");
            }
        }
    }

    #[test]
    fn no_text_of_a_result_becomes_markup() {
        let evil = "</script><script>alert('&')</script>";
        let mut document = sample::document("long");
        document.result.trace = evil.to_owned();
        document.result.drive = evil.to_owned();
        document.result.settings = vec![evil.to_owned()];
        document.result.breakdown_mean_ns[0].class = evil.to_owned();
        document.run.command = vec![evil.to_owned()];
        document.run.machine.cpu = evil.to_owned();
        let mut exploration = sample::sweep();
        exploration.result.points[0].values = vec![evil.to_owned()];
        exploration.result.varied = vec![evil.to_owned()];
        let mut validation = sample::validation();
        validation.result.trace = evil.to_owned();
        validation.result.replay = vec![evil.to_owned()];
        let mut methods = sample::probe();
        methods.result.targets[0].name = evil.to_owned();
        methods.result.targets[0].what = evil.to_owned();
        methods.result.notes = vec![evil.to_owned()];
        let case = &mut methods.result.cases[0];
        let names = [
            &mut case.target,
            &mut case.method,
            &mut case.buffers,
            &mut case.busiest_thread,
            &mut case.reason,
        ];
        names.into_iter().for_each(|name| *name = evil.to_owned());
        let mut experiment = sample::scenario();
        experiment.result.name = evil.to_owned();
        experiment.result.varied[0] = evil.to_owned();
        experiment.result.points[0].values[0] = evil.to_owned();
        experiment.result.points[0].limit = evil.to_owned();
        experiment.result.points[0].processes[0].name = evil.to_owned();
        experiment.result.points[0].processes[0].prefetcher = evil.to_owned();
        let mut regulated = sample::regulated();
        regulated.result.points[1].values[0] = evil.to_owned();
        let regulation = regulated.result.points[1].regulation.as_mut().unwrap();
        regulation.owners[0].name = evil.to_owned();
        regulation.published = vec![evil.to_owned()];
        let mut followed = sample::followed();
        followed.result.program = vec![evil.to_owned()];
        followed.result.notes = vec![evil.to_owned()];
        followed.result.limit = evil.to_owned();
        followed.result.readings[0].name = evil.to_owned();
        followed.result.readings[1].advice.as_mut().unwrap().bdi = evil.to_owned();
        let mut mounted = sample::live::mount();
        mounted.directory = evil.to_owned();
        mounted.drive = Some(evil.to_owned());
        mounted.by_class[0].class = evil.to_owned();
        let mut watched = sample::live::top();
        watched.mount = evil.to_owned();
        watched.device.name = evil.to_owned();
        watched.owners[0].name = evil.to_owned();
        let pages = [
            mount(&Document::mount(Run::default(), mounted)),
            top(&Document::top(Run::default(), watched)),
            run(&followed),
            scenario(&experiment),
            scenario(&regulated),
            sim(&document),
            compare(&document, &document),
            sweep(&exploration),
            validate(&validation),
            probe(&methods),
        ];
        for page in pages {
            assert!(!page.contains("<script>alert"), "{page}");
            assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
        }
    }

    #[test]
    fn a_page_of_two_thousand_chunks_stays_small() {
        let mut document = sample::document("long");
        // A fixed scramble, so that no two neighbours are alike.
        let noise =
            |index: u64, range: u64| index.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) % range;
        document.result.chunks = (0..2000)
            .map(|index| {
                let mut chunk = ChunkPoint { start_ns: index * 500_000_000, ..document.result.chunks[3] };
                chunk.end_ns = chunk.start_ns + 500_000_000;
                chunk.read_counts.full_hits = noise(index, 150);
                chunk.read_counts.near_misses = noise(index + 1, 60);
                chunk.read_counts.pure_misses = noise(index + 2, 40);
                chunk.seeks.read_near_miss = noise(index + 3, 90);
                chunk.seeks.write = noise(index + 3, 30);
                chunk.response_ns.mean = noise(index + 4, 9_000_000);
                chunk.response_ns.max = noise(index + 5, 300_000_000);
                chunk.disk_time_ns.idle = noise(index + 6, 500_000_000);
                chunk.disk_time_ns.write_seek = noise(index + 7, 90_000_000);
                chunk.backlog_max = noise(index + 8, 20);
                chunk
            })
            .collect();
        document.result.response_curve = (0..1000)
            .map(|step| CurvePoint {
                share_ratio: step as f64 / 999.0,
                response_ns: 100_000 + step * step * 300,
            })
            .collect();
        let page = compare(&document, &document);
        assert!(page.len() < 1_500_000, "{} bytes", page.len());
    }

    #[test]
    fn nothing_at_all_is_a_page_too() {
        let empty = Document::sim(Run::default(), SimResult::default());
        assert!(sim(&empty).contains("No command was counted."));
        assert!(compare(&empty, &empty).contains("nothing to compare"));
        assert!(sweep(&Document::sweep(Run::default(), SweepResult::default())).contains("No settings"));
        let nothing = Document::validate(Run::default(), ValidateResult::default());
        assert!(validate(&nothing).contains("No request was judged."));
        let nothing = Document::probe(Run::default(), ProbeResult::default());
        assert!(probe(&nothing).contains("No method was measured."));
        let nothing = Document::run(Run::default(), RunResult::default());
        assert!(run(&nothing).contains("no file large enough was read"));
        let nothing = Document::mount(Run::default(), MountResult::default());
        assert!(mount(&nothing).replace('\u{a0}', " ").contains("0 accesses in"));
        let nothing = Document::top(Run::default(), TopResult::default());
        assert!(top(&nothing).contains("did no I/O between two looks"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_result_is_a_page(a in sample::any_result(), b in sample::any_result()) {
            let (a, b) = (Document::sim(Run::default(), a), Document::sim(Run::default(), b));
            for page in [sim(&a), compare(&a, &b)] {
                prop_assert!(page.ends_with("</html>"));
                prop_assert!(!content(&page).contains("NaN") && !page.contains("inf %"));
            }
        }

        #[test]
        fn any_validation_is_a_page(result in sample::any_validation()) {
            let page = validate(&Document::validate(Run::default(), result));
            prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
        }

        #[test]
        fn any_probe_is_a_page(result in sample::any_broken_probe()) {
            let page = probe(&Document::probe(Run::default(), result));
            prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
        }

        #[test]
        fn any_mount_is_a_page(result in sample::any_mount()) {
            let page = mount(&Document::mount(Run::default(), result));
            prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
        }

        #[test]
        fn any_watched_device_is_a_page(result in sample::any_top()) {
            let page = top(&Document::top(Run::default(), result));
            prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
        }

        #[test]
        fn any_scenario_is_a_page(result in sample::any_scenario()) {
            let page = scenario(&Document::scenario(Run::default(), result));
            prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
        }

        #[test]
        fn any_exploration_is_a_page(result in sample::any_sweep()) {
            prop_assert!(sweep(&Document::sweep(Run::default(), result)).ends_with("</html>"));
        }
    }
}
