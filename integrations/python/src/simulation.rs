//! `simulate` and `drives`, and reports as HTML. Results go to Python as JSON, in the bytes of the commands.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sakiyomi_report::{Document, Present, Reported, Run, RunResult, SimResult, html};
use sakiyomi_simulation::{Error as SimulationError, Outcome, Replaying, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, exception};

/// Returns the built-in drives as JSON: the result of `drive list --json`.
#[pyfunction]
pub(crate) fn drives() -> PyResult<String> {
    json(&sakiyomi_simulation::drives())
}

/// The options of a simulation, as the command names them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    set: Vec<(String, String)>,
    array: Option<String>,
    chunk: String,
    warm_up: String,
    format: Option<String>,
    device: Option<String>,
    map: Option<String>,
    sort_window: String,
    time_scale: f64,
    action: String,
    closed_loop: Option<bool>,
    outstanding: Option<u32>,
    host_queue: u32,
    wrap: bool,
}

/// Simulates a trace on a drive. Returns the document of `sim --json`, without the circumstances of the run, and the notes
/// that the command would print.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    trace: PathBuf,
    drive: String,
    options: Options,
) -> PyResult<(String, Vec<String>)> {
    let request = options.request(trace, drive);
    let signal = Mutex::new(None);
    let mut go_on = |_, _| {
        Python::attach(|py| py.check_signals()).map_err(|error| *signal.lock().unwrap() = Some(error)).is_ok()
    };
    let outcome = py.detach(|| request.run(&mut go_on));
    if let Some(error) = signal.into_inner().unwrap_or(None) {
        return Err(error);
    }
    let Outcome { result, notes } = outcome.map_err(|error| of_simulation(&error))?;
    Ok((json(&Document::new(build(), result))?, notes))
}

impl Options {
    fn request(self, trace: PathBuf, drive: String) -> Request {
        let Self { closed_loop: is_closed, outstanding, host_queue, wrap, .. } = self;
        Request {
            trace,
            drive,
            settings: self.set,
            array: self.array,
            chunk: self.chunk,
            warm_up: self.warm_up,
            format: self.format,
            device: self.device,
            map: self.map,
            sort_window: self.sort_window,
            time_scale: self.time_scale,
            action: self.action,
            replaying: Replaying { is_closed, outstanding, host_queue, wrap },
        }
    }
}

fn of_simulation(error: &SimulationError) -> PyErr {
    match error {
        SimulationError::Option { .. } => PyValueError::new_err(error.to_string()),
        // The sentence of the command names its options.
        SimulationError::Outstanding(outstanding) => PyValueError::new_err(format!(
            "outstanding={outstanding}: only a closed loop has a number of outstanding requests; add closed_loop=True"
        )),
        _ => exception(error),
    }
}

fn build() -> Run {
    Run { version: env!("CARGO_PKG_VERSION").to_owned(), ..Run::default() }
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| Error::new_err(error.to_string()))
}

/// Returns the page of a document of `sim` or `run`.
#[pyfunction]
pub(crate) fn page(py: Python<'_>, document: &str, schema: &str) -> PyResult<String> {
    py.detach(|| match schema {
        SimResult::SCHEMA => rendered::<SimResult>(document),
        RunResult::SCHEMA => rendered::<RunResult>(document),
        _ => Err(format!("there is no report of {schema}")),
    })
    .map_err(Error::new_err)
}

fn rendered<R: Present + Serialize + DeserializeOwned>(document: &str) -> Result<String, String> {
    let document: Document<R> = serde_json::from_str(document).map_err(|error| error.to_string())?;
    Ok(html::render(&document.report(), &document.charts()))
}
