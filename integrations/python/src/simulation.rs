//! `simulate` and `drives`, and reports as HTML. Results go to Python as JSON, in the bytes of the commands.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sakiyomi_drive::spec::{ArraySpec, SpecError};
use sakiyomi_model::Nanos;
use sakiyomi_report::{Document, Present, Reported, Run, RunResult, SimResult, html};
use sakiyomi_simulation::{Error as SimulationError, NamedDrive, Replaying, Workload, parse_chunking};
use sakiyomi_trace::{DeviceMap, Format, ReadOptions, parse_device};
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
    let NamedDrive { spec, notes } = NamedDrive::open(&drive).map_err(|error| of_simulation(&error))?;
    let array = options.array.as_deref().map(|text| text.parse::<ArraySpec>());
    let array = array.transpose().map_err(|error| wrong("array", &error))?;
    let settings = options.set.iter().map(|(key, value)| (key.trim(), value.trim()));
    let spec = sakiyomi_drive::spec::DriveSpec { array: array.or(spec.array.clone()), ..spec };
    let spec = spec.with_settings(settings).map_err(|error: SpecError| exception(&error))?;
    let chunking = parse_chunking(&options.chunk).map_err(|error| wrong("chunk", &error))?;
    let workload = options.workload(trace)?;
    let signal = Mutex::new(None);
    let mut go_on = |_, _| {
        Python::attach(|py| py.check_signals()).map_err(|error| *signal.lock().unwrap() = Some(error)).is_ok()
    };
    let simulated = py.detach(|| sakiyomi_simulation::simulate(&workload, &spec, chunking, None, &mut go_on));
    if let Some(error) = signal.into_inner().unwrap_or(None) {
        return Err(error);
    }
    let simulated = simulated.map_err(|error| of_simulation(&error))?;
    let changed: Vec<String> = options.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let result =
        sakiyomi_simulation::sim_result(&simulated, &spec.title(), &changed, workload.warm_up, chunking);
    Ok((json(&Document::new(build(), result))?, notes))
}

impl Options {
    fn workload(&self, trace: PathBuf) -> PyResult<Workload> {
        let format = self.format.as_deref().map(|name| name.parse::<Format>()).transpose();
        let device = self.device.as_deref().map(parse_device).transpose();
        let map = match self.map.as_deref() {
            None => DeviceMap::Refuse,
            Some("concat") => DeviceMap::Concat,
            Some(other) => {
                return Err(PyValueError::new_err(format!("map is {other:?}; give \"concat\" or None")));
            }
        };
        let [action] = *self.action.as_bytes() else {
            return Err(PyValueError::new_err(format!(
                "action is {:?}; give one of blkparse's action letters, such as Q, D or C",
                self.action
            )));
        };
        if self.host_queue == 0
            || self.outstanding.is_some_and(|outstanding| !(1..=65536).contains(&outstanding))
        {
            return Err(PyValueError::new_err("host_queue is at least 1, and outstanding 1 to 65536"));
        }
        let time = |name, text: &str| text.parse::<Nanos>().map_err(|error| wrong(name, &error));
        let Self { closed_loop: is_closed, outstanding, host_queue, wrap, time_scale, .. } = *self;
        Ok(Workload {
            trace,
            reading: ReadOptions {
                format: format.map_err(|error| wrong("format", &error))?,
                sort_window: time("sort_window", &self.sort_window)?,
                device: device.map_err(|error| wrong("device", &error))?,
                map,
                time_scale,
                action,
            },
            replaying: Replaying { is_closed, outstanding, host_queue, wrap },
            warm_up: time("warm_up", &self.warm_up)?,
        })
    }
}

/// An error in an argument, with its name.
fn wrong(name: &str, error: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{name}: {error}"))
}

fn of_simulation(error: &SimulationError) -> PyErr {
    match error {
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
