//! The published figures and their reproduction.

mod transcription;

use std::collections::BTreeSet;

use sakiyomi_reproduce::{
    Effort, LiveTask, Paper, Published, Results, estimates, live_estimates, live_tasks, published, tasks,
};

fn results(paper: Paper, wanted: impl Fn(&str) -> bool) -> Results {
    let mut results = Results::default();
    for task in tasks(paper, Effort::Quick).iter().filter(|task| wanted(task.key())) {
        results.insert(task.key().to_owned(), task.run().unwrap());
    }
    results
}

fn figures(paper: Paper) -> impl Iterator<Item = Published> {
    published().into_iter().filter(move |figure| figure.paper == paper)
}

#[test]
fn keys_of_tasks_are_unique_and_name_their_paper() {
    for effort in [Effort::Quick, Effort::Full] {
        let all = Paper::ALL.map(|paper| (paper, tasks(paper, effort)));
        let keys: BTreeSet<&str> = all.iter().flat_map(|(_, tasks)| tasks).map(|task| task.key()).collect();
        assert_eq!(keys.len(), all.iter().map(|(_, tasks)| tasks.len()).sum::<usize>());
        assert!(all.iter().all(|(paper, tasks)| tasks.iter().all(|task| task.key().starts_with(paper.id()))));
    }
}

#[test]
fn without_results_no_figure_is_estimated() {
    assert!(Paper::ALL.iter().all(|paper| estimates(*paper, &Results::default()).is_empty()));
    assert!(Paper::ALL.iter().all(|paper| live_estimates(*paper, &Results::default()).is_empty()));
}

#[test]
fn live_tasks_have_keys_of_their_own_and_lead_to_published_figures() {
    for effort in [Effort::Quick, Effort::Full] {
        for paper in Paper::ALL {
            let (simulated, live) = (tasks(paper, effort), live_tasks(paper, effort));
            let simulated = simulated.iter().map(|task| task.key());
            let keys: BTreeSet<&str> = simulated.chain(live.iter().map(|task| task.key())).collect();
            assert_eq!(keys.len(), tasks(paper, effort).len() + live.len());
            let known: BTreeSet<String> = figures(paper).map(|figure| figure.id).collect();
            let estimates = live_estimates_but_of(paper, &live, None);
            assert!(estimates.iter().all(|id| known.contains(id)), "{paper:?}: {estimates:?}");
            for task in &live {
                let left = live_estimates_but_of(paper, &live, Some(experiment(task.key())));
                assert!(left.len() < estimates.len(), "no figure needs {}", task.key());
            }
        }
    }
}

/// The figures derived from all live tasks except those of one experiment.
fn live_estimates_but_of(paper: Paper, tasks: &[LiveTask], but: Option<&str>) -> BTreeSet<String> {
    let mut results = Results::default();
    for task in tasks.iter().filter(|task| Some(experiment(task.key())) != but) {
        let metrics = task.experiment.metrics().iter().map(|name| ((*name).to_owned(), 1.0));
        results.insert(task.key().to_owned(), metrics.collect());
    }
    live_estimates(paper, &results).into_keys().collect()
}

/// The part of a key before the seed: what all runs of an experiment with the same values have in common.
fn experiment(key: &str) -> &str {
    key.split_once('#').expect("a key ends with its seed").0
}

#[test]
fn the_stream_and_the_reads_of_2013_have_the_published_figures() {
    let results = results(Paper::Waseda2013, |key| !key.contains("stream#") || key.ends_with("#0000"));
    let missing = ["phase.2", "phase.3", "phase.4", "query1.aio", "query1.pread"];
    assert_complete(Paper::Waseda2013, &results, &missing);
    let estimates = estimates(Paper::Waseda2013, &results);
    for figure in figures(Paper::Waseda2013).filter(|figure| !missing.contains(&figure.id.as_str())) {
        let deviation = figure.deviation(estimates[&figure.id].median);
        let tolerance = if figure.id.starts_with("phase") { 0.1 } else { 0.0 };
        assert!(deviation.is_some_and(|off| off.abs() <= tolerance), "{}: {deviation:?}", figure.id);
    }
}

#[test]
fn a_task_gives_the_same_metrics_each_time() {
    for paper in Paper::ALL {
        if let Some(task) = tasks(paper, Effort::Quick).first() {
            assert_eq!(task.run().unwrap(), task.run().unwrap(), "{}", task.key());
        }
    }
}

/// Estimates of a paper have the identifiers of published figures, and each published figure has one but for `missing`.
#[track_caller]
fn assert_complete(paper: Paper, results: &Results, missing: &[&str]) {
    let estimates = estimates(paper, results);
    let published: BTreeSet<String> = figures(paper).map(|figure| figure.id).collect();
    let unknown: Vec<_> = estimates.keys().filter(|id| !published.contains(*id)).collect();
    assert!(unknown.is_empty(), "no published figure has these identifiers: {unknown:?}");
    let lacking: Vec<_> = published.iter().filter(|id| !estimates.contains_key(*id)).collect();
    assert_eq!(lacking, missing);
}

#[test]
fn the_cache_simulation_has_the_published_figures() {
    let results = results(Paper::Hitachi2013, |_| true);
    assert_complete(Paper::Hitachi2013, &results, &["speed"]);
    let estimates = estimates(Paper::Hitachi2013, &results);
    let off = |id: &str| {
        let figure = figures(Paper::Hitachi2013).find(|figure| figure.id == id).unwrap();
        figure.deviation(estimates[id].median).unwrap().abs()
    };
    for id in ["short.hit", "long.hit", "short.idle"] {
        assert!(off(id) < 0.02, "{id} is calibrated, and {} off", off(id));
    }
    for id in ["short.seeks", "long.seeks", "long.idle", "short.mean", "long.mean"] {
        assert!(off(id) < 0.12, "{id} is predicted, and {} off", off(id));
    }
}

#[test]
fn every_published_figure_of_the_tasks_on_threads_is_estimated() {
    assert_complete(Paper::Cerium2014, &results(Paper::Cerium2014, |_| true), &[]);
}

#[test]
fn every_published_figure_of_prefetching_and_of_regulation_is_estimated() {
    // All runs take minutes without optimization. The first one gives the names of metrics, which are those of all
    // programs alike; the values are invented.
    for paper in [Paper::Waseda2006, Paper::Kochi2023] {
        let all = tasks(paper, Effort::Quick);
        let names: Vec<String> = all[0].run().unwrap().into_keys().collect();
        let mut results = Results::default();
        for (number, task) in all.iter().enumerate() {
            let metrics = names.iter().map(|name| (name.clone(), 2.0 - number as f64 / 1e6));
            results.insert(task.key().to_owned(), metrics.collect());
        }
        assert_complete(paper, &results, &[]);
    }
}

#[test]
fn prefetching_gains_as_published_on_the_first_computer() {
    let results = results(Paper::Waseda2006, |key| {
        key.starts_with("waseda2006/a/0.61GB/off") || key.starts_with("waseda2006/a/0.61GB/16MiB")
    });
    let estimates = estimates(Paper::Waseda2006, &results);
    let figure = |id: &str| figures(Paper::Waseda2006).find(|figure| figure.id == id).unwrap();
    for id in ["a.1.standard", "a.1.prefetch"] {
        assert!(figure(id).deviation(estimates[id].median).unwrap().abs() < 0.05, "{id}");
    }
}
