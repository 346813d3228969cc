//! Arguments of simulations, which are the options of the commands.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sakiyomi_drive::spec::{ArraySpec, DriveSpec};
use sakiyomi_model::Nanos;
use sakiyomi_simulation::{
    Error as SimulationError, MeasuredTrace, NamedDrive, Replaying, TraceSource, Workload,
};
use sakiyomi_trace::{DeviceChoice, DeviceMap, Format, ReadOptions};

use crate::arrow::MemoryTrace;
use crate::error::exception;

/// A trace: a file, or records in memory.
#[derive(FromPyObject)]
pub(crate) enum TraceArgument {
    Memory(Py<MemoryTrace>),
    File(PathBuf),
}

impl TraceArgument {
    pub(crate) fn source(&self) -> TraceSource {
        match self {
            TraceArgument::Memory(trace) => trace.get().source(),
            TraceArgument::File(path) => path.into(),
        }
    }
}

/// A drive and its changes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct DriveOptions {
    drive: String,
    set: Vec<(String, String)>,
    array: Option<String>,
}

impl DriveOptions {
    /// Returns the drive, and notes about its file.
    pub(crate) fn open(&self) -> PyResult<(DriveSpec, Vec<String>)> {
        let NamedDrive { spec, notes } =
            NamedDrive::open(&self.drive).map_err(|error| of_simulation(&error))?;
        let array = self.array.as_deref().map(|text| text.parse::<ArraySpec>());
        let array = array.transpose().map_err(|error| wrong("array", &error))?;
        let settings = self.set.iter().map(|(key, value)| (key.trim(), value.trim()));
        let spec = DriveSpec { array: array.or(spec.array.clone()), ..spec };
        let spec = spec.with_settings(settings).map_err(|error| exception(&error))?;
        Ok((spec, notes))
    }

    /// Returns the changes as results have them.
    pub(crate) fn settings(&self) -> Vec<String> {
        self.set.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}

/// How a trace is read.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReadingOptions {
    format: Option<String>,
    device: Option<String>,
    map: Option<String>,
    sort_window: String,
    time_scale: f64,
    action: String,
}

impl ReadingOptions {
    fn reading(&self) -> PyResult<ReadOptions> {
        let format = self.format.as_deref().map(|name| name.parse::<Format>()).transpose();
        let device = self.device.as_deref().map(str::parse::<DeviceChoice>).transpose();
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
        Ok(ReadOptions {
            format: format.map_err(|error| wrong("format", &error))?,
            sort_window: time("sort_window", &self.sort_window)?,
            device: device.map_err(|error| wrong("device", &error))?,
            map,
            time_scale: self.time_scale,
            action,
        })
    }

    pub(crate) fn measured(&self, trace: &TraceArgument, wrap: bool) -> PyResult<MeasuredTrace> {
        Ok(MeasuredTrace { trace: trace.source(), reading: self.reading()?, wrap })
    }
}

/// How a trace is replayed.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ReplayOptions {
    warm_up: String,
    closed_loop: Option<bool>,
    outstanding: Option<u32>,
    host_queue: u32,
    wrap: bool,
}

impl ReplayOptions {
    pub(crate) fn workload(&self, trace: &TraceArgument, reading: &ReadingOptions) -> PyResult<Workload> {
        if self.host_queue == 0
            || self.outstanding.is_some_and(|outstanding| !(1..=65536).contains(&outstanding))
        {
            return Err(PyValueError::new_err("host_queue is at least 1, and outstanding 1 to 65536"));
        }
        let Self { closed_loop: is_closed, outstanding, host_queue, wrap, .. } = *self;
        Ok(Workload {
            trace: trace.source(),
            reading: reading.reading()?,
            replaying: Replaying { is_closed, outstanding, host_queue, wrap },
            warm_up: time("warm_up", &self.warm_up)?,
        })
    }
}

/// Parses a time, such as `2s`.
pub(crate) fn time(name: &str, text: &str) -> PyResult<Nanos> {
    text.parse::<Nanos>().map_err(|error| wrong(name, &error))
}

/// An error in an argument, with its name.
pub(crate) fn wrong(name: &str, error: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{name}: {error}"))
}

/// Makes an exception of an error of a simulation.
pub(crate) fn of_simulation(error: &SimulationError) -> PyErr {
    match error {
        // The sentences of the command name its options.
        SimulationError::Outstanding(outstanding) => PyValueError::new_err(format!(
            "outstanding={outstanding}: only a closed loop has a number of outstanding requests; add closed_loop=True"
        )),
        SimulationError::Vary { key, problem } => PyValueError::new_err(format!("{key}: {problem}")),
        SimulationError::Option(_) | SimulationError::Combinations(_) => {
            PyValueError::new_err(error.to_string())
        }
        _ => exception(error),
    }
}

/// Runs work without the interpreter, which calls its argument often enough to be ended by signals.
pub(crate) fn with_signals<R: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<R, SimulationError> + Send,
) -> PyResult<R> {
    let signal = Mutex::new(None);
    let done = py.detach(|| {
        work(&mut || {
            Python::attach(|py| py.check_signals())
                .map_err(|error| *signal.lock().unwrap() = Some(error))
                .is_ok()
        })
    });
    match signal.into_inner().unwrap_or(None) {
        Some(error) => Err(error),
        None => done.map_err(|error| of_simulation(&error)),
    }
}
