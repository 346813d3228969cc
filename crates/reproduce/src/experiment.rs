//! Experiments from the files in `scenarios/`.

use sakiyomi_scenario::Scenario;

use crate::paper::Paper;
use crate::task::{Task, point};

/// Returns the scenario of a file that is part of the program.
///
/// # Panics
/// If the file is malformed.
pub(crate) fn scenario(text: &str, name: &str) -> Scenario {
    let scenario = Scenario::from_toml(text, name).unwrap_or_else(|error| panic!("{name}: {error}"));
    // Values to try and figures to print beside are not part of a single run.
    Scenario { vary: Default::default(), published: Vec::new(), ..scenario }
}

/// Returns a task for each combination of values and each of `repetitions` seeds. Keys are set in their order.
///
/// # Panics
/// If a key or value is not one of a scenario.
pub(crate) fn combinations(
    paper: Paper,
    name: &str,
    base: &Scenario,
    varied: &[(&str, &[&str])],
    repetitions: u32,
) -> Vec<Task> {
    let mut points = vec![(Vec::new(), base.clone())];
    for (key, values) in varied {
        points = points
            .iter()
            .flat_map(|(chosen, scenario)| {
                values.iter().map(move |value| {
                    let mut with = scenario.clone();
                    with.set(key, value).unwrap_or_else(|error| panic!("{name}: {error}"));
                    let chosen: Vec<&str> = chosen.iter().copied().chain([*value]).collect();
                    (chosen, with)
                })
            })
            .collect();
    }
    let tasks = points.into_iter().flat_map(|(values, scenario)| {
        let point = point(paper, name, values);
        (0..repetitions).map(move |repetition| Task::scenario(&point, scenario.clone(), repetition))
    });
    tasks.collect()
}
