//! The pages.

use crate::sample;
use proptest::prelude::*;
use sakiyomi_report::result::{
    ChunkPoint, CurvePoint, Document, MountResult, ProbeResult, Run, RunResult, SimResult, SweepResult,
    TopResult, ValidateResult,
};
use sakiyomi_report::{Comparison, Reported};

/// Renders a report as a page.
fn page(reported: &impl Reported) -> String {
    sakiyomi_report::html::render(&reported.report(), &reported.charts())
}

fn compared(a: &Document<SimResult>, b: &Document<SimResult>) -> String {
    page(&Comparison { a, b })
}

/// Returns the page without the parts tested elsewhere: style, script, pictures and their data.
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

/// Returns the page without its script.
fn content(page: &str) -> &str {
    page.split("<script").next().unwrap()
}

#[test]
fn one_simulation() {
    insta::assert_snapshot!(skeleton(&page(&sample::document("long"))));
}

#[test]
fn an_exploration() {
    insta::assert_snapshot!(skeleton(&page(&sample::sweep())));
}

#[test]
fn jobs_of_an_experiment() {
    insta::assert_snapshot!(skeleton(&page(&sample::jobs())));
}

#[test]
fn one_validation() {
    insta::assert_snapshot!(skeleton(&page(&sample::validation())));
}

#[test]
fn one_scenario() {
    insta::assert_snapshot!(skeleton(&page(&sample::scenario())));
}

#[test]
fn one_search_for_the_best_allowance() {
    insta::assert_snapshot!(skeleton(&page(&sample::searched())));
}

#[test]
fn one_probe() {
    insta::assert_snapshot!(skeleton(&page(&sample::probe())));
}

#[test]
fn one_run() {
    insta::assert_snapshot!(skeleton(&page(&sample::followed())));
}

#[test]
fn one_query() {
    insta::assert_snapshot!(skeleton(&page(&sample::aggregated())));
}

#[test]
fn one_mount() {
    let document = Document::new(Run::default(), sample::live::mount());
    insta::assert_snapshot!(skeleton(&page(&document)));
}

#[test]
fn one_block_device() {
    let document = Document::new(Run::default(), sample::live::serve());
    insta::assert_snapshot!(skeleton(&page(&document)));
}

#[test]
fn one_device_that_was_watched() {
    let document = Document::new(Run::default(), sample::live::top());
    insta::assert_snapshot!(skeleton(&page(&document)));
}

#[test]
fn different_settings_are_marked_in_a_comparison() {
    let page = compared(&sample::document("short"), &sample::document("long"));
    assert!(page.contains("<mark>64KiB</mark>"));
    assert!(page.contains("<mark>1MiB</mark>"));
    let page = compared(&sample::document("long"), &sample::document("long"));
    assert!(!page.contains("<mark>"));
}

/// Returns a page of each kind.
fn pages() -> Vec<String> {
    let scenarios = [sample::scenario(), sample::jobs(), sample::regulated(), sample::searched()];
    let mut pages = vec![
        page(&sample::document("long")),
        compared(&sample::document("short"), &sample::document("long")),
        page(&sample::sweep()),
        page(&sample::validation()),
        page(&sample::probe()),
        page(&sample::followed()),
        page(&sample::sorted()),
        page(&sample::reproduction()),
        page(&Document::new(Run::default(), sample::live::mount())),
        page(&Document::new(Run::default(), sample::live::serve())),
        page(&Document::new(Run::default(), sample::live::top())),
        page(&Document::new(Run::default(), sample::stream::run())),
    ];
    pages.extend(scenarios.iter().map(page));
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
    let names =
        [&mut case.target, &mut case.method, &mut case.buffers, &mut case.busiest_thread, &mut case.reason];
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
        page(&Document::new(Run::default(), mounted)),
        page(&Document::new(Run::default(), watched)),
        page(&followed),
        page(&experiment),
        page(&regulated),
        page(&document),
        compared(&document, &document),
        page(&exploration),
        page(&validation),
        page(&methods),
    ];
    for page in pages {
        assert!(!page.contains("<script>alert"), "{page}");
        assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    }
}

#[test]
fn a_page_of_two_thousand_chunks_stays_small() {
    let mut document = sample::document("long");
    // A fixed scramble, so that neighbors differ.
    let noise = |index: u64, range: u64| index.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) % range;
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
        .map(|step| CurvePoint { share_ratio: step as f64 / 999.0, response_ns: 100_000 + step * step * 300 })
        .collect();
    let page = compared(&document, &document);
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
}

#[test]
fn nothing_at_all_is_a_page_too() {
    let empty = Document::new(Run::default(), SimResult::default());
    assert!(page(&empty).contains("No command completed."));
    assert!(compared(&empty, &empty).contains("nothing to compare"));
    assert!(page(&Document::new(Run::default(), SweepResult::default())).contains("No settings"));
    let nothing = Document::new(Run::default(), ValidateResult::default());
    assert!(page(&nothing).contains("No request was compared."));
    let nothing = Document::new(Run::default(), ProbeResult::default());
    assert!(page(&nothing).contains("No method was measured."));
    let nothing = Document::new(Run::default(), RunResult::default());
    assert!(page(&nothing).contains("the program read no file that is large enough"));
    let nothing = Document::new(Run::default(), MountResult::default());
    assert!(page(&nothing).replace('\u{a0}', " ").contains("0 accesses in"));
    let nothing = Document::new(Run::default(), TopResult::default());
    assert!(page(&nothing).contains("did no I/O between two updates"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_result_is_a_page(a in sample::any_result(), b in sample::any_result()) {
        let (a, b) = (Document::new(Run::default(), a), Document::new(Run::default(), b));
        for page in [page(&a), compared(&a, &b)] {
            prop_assert!(page.ends_with("</html>"));
            prop_assert!(!content(&page).contains("NaN") && !page.contains("inf %"));
        }
    }

    #[test]
    fn any_validation_is_a_page(result in sample::any_validation()) {
        let page = page(&Document::new(Run::default(), result));
        prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
    }

    #[test]
    fn any_probe_is_a_page(result in sample::any_broken_probe()) {
        let page = page(&Document::new(Run::default(), result));
        prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
    }

    #[test]
    fn any_mount_is_a_page(result in sample::any_mount()) {
        let page = page(&Document::new(Run::default(), result));
        prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
    }

    #[test]
    fn any_watched_device_is_a_page(result in sample::any_top()) {
        let page = page(&Document::new(Run::default(), result));
        prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
    }

    #[test]
    fn any_scenario_is_a_page(result in sample::any_scenario()) {
        let page = page(&Document::new(Run::default(), result));
        prop_assert!(page.ends_with("</html>") && !content(&page).contains("NaN"));
    }

    #[test]
    fn any_exploration_is_a_page(result in sample::any_sweep()) {
        prop_assert!(page(&Document::new(Run::default(), result)).ends_with("</html>"));
    }
}

#[test]
fn of_many_findings_the_page_begins_with_what_each_comes_to() {
    let document = sample::probe();
    let findings = document.report().verdict;
    assert!(findings.len() > 2);
    let page = page(&document).replace('\u{a0}', " ");
    let (first_screen, rest) = page.split_once("<figure").unwrap();
    for finding in &findings {
        let [first, second, ..] = finding.sentences.as_slice() else { continue };

        assert!(first_screen.contains(first) && !first_screen.contains(second));
        assert!(rest.contains(second));
    }
}
