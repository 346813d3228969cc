//! `simulate`, `sweep`, `compare`, `validate`, `drive.fit`, `scenario` and `drives`, and reports as HTML. Results go to Python
//! as JSON, in the bytes of the commands.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pyo3::prelude::*;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_report::result::SweepPoint;
use sakiyomi_report::{
    Comparison, Document, Present, QueryResult, Reported, Run, RunResult, ScenarioResult, SimResult,
    SweepResult, ValidateResult, WaitsResult, html,
};
use sakiyomi_scenario::Scenario;
use sakiyomi_simulation::{
    COMPARE_SCHEMA, Check, Experiment, FIT_SCHEMA, FitPart, FitTrace, Judged, NamedDrive, Sweep, Varied,
    Workload, failed_checks, load_result, parse_chunking, parse_result, read_text, sweep_point,
};
use sakiyomi_trace::table::{Kind, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, exception};
use crate::options::{
    DriveOptions, ReadingOptions, ReplayOptions, TraceArgument, of_simulation, time, with_signals, wrong,
};
use crate::parallel;

/// Returns the built-in drives as JSON: the result of `drive list --json`.
#[pyfunction]
pub(crate) fn drives() -> PyResult<String> {
    json(&sakiyomi_simulation::drives())
}

/// Simulates a trace on a drive. Returns the document of `sim --json`, without the circumstances of the run, and the notes
/// that the command would print.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    trace: TraceArgument,
    drive: DriveOptions,
    reading: ReadingOptions,
    replay: ReplayOptions,
    chunk: &str,
) -> PyResult<(String, Vec<String>)> {
    let (spec, notes) = drive.open()?;
    let chunking = parse_chunking(chunk).map_err(|error| wrong("chunk", &error))?;
    let workload = replay.workload(&trace, &reading)?;
    let simulated = with_signals(py, |go_on| {
        sakiyomi_simulation::simulate(&workload, &spec, chunking, None, &mut |_, _| go_on())
    })?;
    let (title, settings) = (spec.title(), drive.settings());
    let result = sakiyomi_simulation::sim_result(&simulated, &title, &settings, workload.warm_up, chunking);
    Ok((json(&Document::new(build(), result))?, notes))
}

/// Checks all combinations of a sweep. Returns the drive as TOML, for any machine; the notes of its file; and the values of
/// each point.
#[pyfunction]
pub(crate) fn sweep_plan(
    drive: DriveOptions,
    varied: Varied,
) -> PyResult<(String, Vec<String>, Vec<Vec<String>>)> {
    let (spec, notes) = drive.open()?;
    let sweep = Sweep::new(&spec, varied).map_err(|error| of_simulation(&error))?;
    let points = sweep.points().iter().map(|(values, _)| values.clone()).collect();
    Ok((spec.to_toml(), notes, points))
}

/// Simulates one point of a sweep; returns it as JSON.
#[pyfunction]
pub(crate) fn sweep_one(
    py: Python<'_>,
    trace: TraceArgument,
    drive: &str,
    reading: ReadingOptions,
    replay: ReplayOptions,
    keys: Vec<String>,
    values: Vec<String>,
) -> PyResult<String> {
    let spec = planned(drive)?;
    let settings = keys.iter().map(String::as_str).zip(values.iter().map(String::as_str));
    let spec = spec.with_settings(settings).map_err(|error| exception(&error))?;
    let workload = replay.workload(&trace, &reading)?;
    let done = with_signals(py, |go_on| sweep_point(&workload, &values, &spec, &mut |_, _| go_on()))?;
    compact(&done.point)
}

/// Simulates all points of a sweep, on all cores; returns each as JSON.
#[pyfunction]
pub(crate) fn sweep_all(
    py: Python<'_>,
    trace: TraceArgument,
    drive: &str,
    reading: ReadingOptions,
    replay: ReplayOptions,
    varied: Varied,
) -> PyResult<Vec<String>> {
    let sweep = Sweep::unchecked(&planned(drive)?, varied).map_err(|error| of_simulation(&error))?;
    let workload: Workload = replay.workload(&trace, &reading)?;
    let done = parallel::each(py, sweep.points(), |(values, spec), stop: &AtomicBool| {
        sweep_point(&workload, values, spec, &mut |_, _| !stop.load(Relaxed))
    })?;
    let done = done.map_err(|error| of_simulation(&error))?;
    done.iter().map(|done| compact(&done.point)).collect()
}

/// A column of a table: its name, its kind, and its values.
type Column = (String, &'static str, Vec<Py<PyAny>>);

/// Compares the points of a sweep. Returns the document of `sweep --json --reproducible`, and the points as a table.
#[pyfunction]
pub(crate) fn sweep_result(
    py: Python<'_>,
    trace: TraceArgument,
    drive: &str,
    settings: Vec<(String, String)>,
    varied: Varied,
    points: Vec<String>,
) -> PyResult<(String, Vec<Column>)> {
    let sweep = Sweep::unchecked(&planned(drive)?, varied).map_err(|error| of_simulation(&error))?;
    let points: Vec<SweepPoint> = points.iter().map(|point| parsed(point)).collect::<PyResult<_>>()?;
    let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let document = Document::new(build(), sweep.result(&trace.source().name(), &settings, points));
    let table = sweep.table(&document.result);
    let mut columns: Vec<Column> = (table.columns().iter())
        .map(|column| (column.name().to_owned(), kind(column.kind()), Vec::new()))
        .collect();
    for row in table.rows() {
        for ((_, _, values), value) in columns.iter_mut().zip(row) {
            values.push(object(py, value)?);
        }
    }
    Ok((json(&document)?, columns))
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::U64 => "u64",
        Kind::I64 => "i64",
        Kind::F64 => "f64",
        Kind::Bool => "bool",
        Kind::Text => "text",
    }
}

fn object(py: Python<'_>, value: Value<'_>) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::U64(number) => number.into_pyobject(py)?.into_any().unbind(),
        Value::I64(number) => number.into_pyobject(py)?.into_any().unbind(),
        Value::F64(number) => number.into_pyobject(py)?.into_any().unbind(),
        Value::Bool(truth) => truth.into_pyobject(py)?.to_owned().into_any().unbind(),
        Value::Text(text) => text.into_pyobject(py)?.into_any().unbind(),
        Value::Null => py.None(),
    })
}

/// Returns a drive that `sweep_plan` has returned.
fn planned(toml: &str) -> PyResult<DriveSpec> {
    DriveSpec::from_toml(toml, "the drive of the sweep").map_err(|error| exception(&error))
}

/// A result of a simulation: its document, or the path of its directory or file.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SimArgument {
    document: Option<String>,
    path: Option<PathBuf>,
}

impl SimArgument {
    fn load(&self, name: &str) -> PyResult<Document<SimResult>> {
        let loaded = match (&self.document, &self.path) {
            (Some(document), _) => parse_result(document, name),
            (None, path) => load_result(path.as_deref().unwrap_or(Path::new(""))),
        };
        loaded.map_err(|error| of_simulation(&error))
    }
}

/// The document of a comparison, which has no circumstances of its own.
#[derive(Serialize)]
struct CompareDocument<'a> {
    schema: &'static str,
    result: Comparison<'a>,
}

/// Compares two results. Returns the document of `compare --json`, and the failed checks as sentences.
#[pyfunction]
pub(crate) fn compare(
    a: SimArgument,
    b: SimArgument,
    fail_if: Vec<String>,
) -> PyResult<(String, Vec<String>)> {
    let checks = fail_if.iter().map(|text| text.parse::<Check>().map_err(|error| wrong("fail_if", &error)));
    let checks: Vec<Check> = checks.collect::<PyResult<_>>()?;
    let (a, b) = (a.load("a")?, b.load("b")?);
    let failures = failed_checks(&checks, &a.result, &b.result).map_err(|error| of_simulation(&error))?;
    let document = CompareDocument { schema: COMPARE_SCHEMA, result: Comparison { a: &a, b: &b } };
    Ok((json(&document)?, failures))
}

/// Compares a simulated drive with a measured one. Returns the document of `validate --json`, without the circumstances of the
/// run, and notes.
#[pyfunction]
#[pyo3(signature = (trace, drive, reading, wrap, from, until))]
pub(crate) fn validate(
    py: Python<'_>,
    trace: TraceArgument,
    drive: DriveOptions,
    reading: ReadingOptions,
    wrap: bool,
    from: &str,
    until: Option<&str>,
) -> PyResult<(String, Vec<String>)> {
    let (spec, notes) = drive.open()?;
    let trace = reading.measured(&trace, wrap)?;
    let until = until.map(|until| time("until", until)).transpose()?;
    let judged = Judged { from: time("from_", from)?, until };
    let settings = drive.settings();
    let validated = with_signals(py, |go_on| {
        sakiyomi_simulation::validate(&trace, &spec, &settings, judged, &mut |_| go_on())
    })?;
    Ok((json(&Document::new(build(), validated.result))?, notes))
}

/// A result without circumstances of its run.
#[derive(Serialize)]
struct Bare<'a, R> {
    schema: &'a str,
    result: R,
}

/// Identifies a drive. Returns the document of `drive fit --json`, the drive as TOML unless the fit is refused, its verdict in
/// sentences, and notes.
#[pyfunction]
#[pyo3(signature = (trace, drive, reading, wrap, fit_share, fit_until))]
pub(crate) fn fit(
    py: Python<'_>,
    trace: TraceArgument,
    drive: DriveOptions,
    reading: ReadingOptions,
    wrap: bool,
    fit_share: f64,
    fit_until: Option<&str>,
) -> PyResult<(String, Option<String>, String, Vec<String>)> {
    let (start, notes) = drive.open()?;
    let trace = reading.measured(&trace, wrap)?;
    let until = fit_until.map(|until| time("fit_until", until)).transpose()?;
    let part = until.map_or(FitPart::Share(fit_share), FitPart::Until);
    let (result, found) = with_signals(py, |go_on| {
        let read = FitTrace::read(&trace, &start, part, &mut |_| go_on())?;
        let found = read.fit(&start, &mut |_| go_on())?;
        Ok((read.result(&start, &found, go_on)?, found))
    })?;
    let drive = (!result.is_refused()).then(|| found.spec.to_toml());
    let verdict = result.verdict();
    Ok((json(&Bare { schema: FIT_SCHEMA, result })?, drive, verdict, notes))
}

/// Runs an experiment, its runs on all cores. Returns the document of `scenario run --json --reproducible`, and notes.
#[pyfunction]
#[pyo3(signature = (file, varied, seed, repetitions))]
pub(crate) fn scenario(
    py: Python<'_>,
    file: PathBuf,
    varied: Varied,
    seed: Option<u64>,
    repetitions: Option<u32>,
) -> PyResult<(String, Vec<String>)> {
    let hint = "scenarios/ has examples, and docs/reference/scenario.md describes the format";
    let text = read_text(&file, "the experiment", hint).map_err(|error| of_simulation(&error))?;
    let mut base =
        Scenario::from_toml(&text, &file.display().to_string()).map_err(|error| exception(&error))?;
    base.run.seed = seed.unwrap_or(base.run.seed);
    base.run.repetitions = repetitions.unwrap_or(base.run.repetitions);
    let mut notes = Vec::new();
    let mut open = |name: &str| {
        let opened = NamedDrive::open(name)?;
        notes.extend(opened.notes);
        Ok(opened.spec)
    };
    let experiment = Experiment::new(base, varied, &mut open).map_err(|error| of_simulation(&error))?;
    let points = 0..experiment.points_count();
    let runs = experiment.runs(points.clone());
    let outcomes = parallel::each(py, &runs, |run, _| run.run())?.map_err(|error| of_simulation(&error))?;
    let (points, _) = py.detach(|| experiment.points(points, &runs, outcomes));
    let result = ScenarioResult { points, ..experiment.outline() };
    Ok((json(&Document::new(build(), result))?, notes))
}

/// Circumstances of a result that is to be the same bytes wherever it is made: the build alone, as in the commands.
pub(crate) fn build() -> Run {
    Run {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: Some(env!("SAKIYOMI_COMMIT")).filter(|commit| !commit.is_empty()).map(str::to_owned),
        ..Run::default()
    }
}

/// Writes JSON as the commands do.
pub(crate) fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string_pretty(value).map_err(|error| Error::new_err(error.to_string()))
}

/// Writes JSON that only `parsed` reads.
fn compact(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| Error::new_err(error.to_string()))
}

fn parsed<R: DeserializeOwned>(text: &str) -> PyResult<R> {
    serde_json::from_str(text)
        .map_err(|error| Error::new_err(format!("this is not a result of sakiyomi: {error}")))
}

/// Returns the page of a document.
#[pyfunction]
pub(crate) fn page(py: Python<'_>, document: &str, schema: &str) -> PyResult<String> {
    py.detach(|| match schema {
        SimResult::SCHEMA => rendered::<SimResult>(document),
        QueryResult::SCHEMA => rendered::<QueryResult>(document),
        RunResult::SCHEMA => rendered::<RunResult>(document),
        SweepResult::SCHEMA => rendered::<SweepResult>(document),
        ValidateResult::SCHEMA => rendered::<ValidateResult>(document),
        ScenarioResult::SCHEMA => rendered::<ScenarioResult>(document),
        WaitsResult::SCHEMA => rendered::<WaitsResult>(document),
        COMPARE_SCHEMA => compared(document),
        _ => Err(Error::new_err(format!("no report exists for {schema}"))),
    })
}

fn rendered<R: Present + Serialize + DeserializeOwned>(document: &str) -> PyResult<String> {
    let document: Document<R> = parsed(document)?;
    Ok(html::render(&document.report(), &document.charts()))
}

fn compared(document: &str) -> PyResult<String> {
    #[derive(serde::Deserialize)]
    struct Both {
        a: Document<SimResult>,
        b: Document<SimResult>,
    }
    #[derive(serde::Deserialize)]
    struct Compared {
        result: Both,
    }
    let Compared { result: Both { a, b } } = parsed(document)?;
    let comparison = Comparison { a: &a, b: &b };
    Ok(html::render(&comparison.report(), &comparison.charts()))
}
