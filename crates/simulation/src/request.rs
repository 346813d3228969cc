//! A simulation whose options are text, as front ends without a command line receive them.

use std::path::PathBuf;

use sakiyomi_drive::spec::{ArraySpec, DriveSpec};
use sakiyomi_model::Nanos;
use sakiyomi_report::SimResult;
use sakiyomi_trace::{DeviceChoice, DeviceMap, Format, ReadOptions};

use crate::{Error, NamedDrive, Replaying, TraceSource, Workload, parse_chunking, sim_result, simulate};

/// Maximum number of outstanding requests, that of `--outstanding`.
const OUTSTANDING_MAX: u32 = 1 << 16;

/// A trace, a drive, and the options of `sakiyomi sim` as text.
///
/// ```no_run
/// use sakiyomi_simulation::Request;
/// let mut request = Request::new("trace.csv.gz", "deskstar-7k250");
/// request.settings.push(("cache.read_ahead.max".into(), "1MiB".into()));
/// let outcome = request.run(&mut |_, _| true)?;
/// println!("{} ns", outcome.result.response_ns.p99);
/// # Ok::<(), sakiyomi_simulation::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Request {
    /// The file of the trace, in any supported format, plain or compressed; `-` is standard input.
    pub trace: PathBuf,
    /// The name of a built-in drive, or a `.toml`, `.diskspecs` or `.parv` file.
    pub drive: String,
    /// Changes of the drive: keys of its file, and their values.
    pub settings: Vec<(String, String)>,
    /// An array of such drives: `raid5:4:64KiB`.
    pub array: Option<String>,
    /// Length of a chunk of the result: `time=1s`, `bytes=64MiB`, `commands=1000`.
    pub chunk: String,
    /// Time from the beginning that is excluded from the results: `10s`.
    pub warm_up: String,
    /// Format of the trace; detected if `None`.
    pub format: Option<String>,
    /// The device to simulate, if the trace has several.
    pub device: Option<String>,
    /// `concat` places all devices of the trace one after the other; by default there must be one.
    pub map: Option<String>,
    /// Maximum time over which records are put in order: `1s`.
    pub sort_window: String,
    /// Factor on arrival and think times, at least 0.
    pub time_scale: f64,
    /// The action letter of blkparse that counts as the arrival: `Q`, `I`, `D`, or another.
    pub action: String,
    /// How it is replayed.
    pub replaying: Replaying,
}

/// The outcome of a simulation for its user.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The `result` of the result document.
    pub result: SimResult,
    /// The files of DiskSim that were read, and what the simulation does differently.
    pub notes: Vec<String>,
}

impl Request {
    /// A trace on a drive, with the options that the command has by default.
    pub fn new(trace: impl Into<PathBuf>, drive: impl Into<String>) -> Request {
        Request {
            trace: trace.into(),
            drive: drive.into(),
            settings: Vec::new(),
            array: None,
            chunk: "time=1s".to_owned(),
            warm_up: "0".to_owned(),
            format: None,
            device: None,
            map: None,
            sort_window: "1s".to_owned(),
            time_scale: 1.0,
            action: "Q".to_owned(),
            replaying: Replaying::default(),
        }
    }

    /// Simulates. `progress` is that of [`simulate`](crate::simulate()).
    ///
    /// # Errors
    /// [`Error::NamedOption`] for an option that is not valid; otherwise those of [`simulate`](crate::simulate()).
    pub fn run(&self, progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<Outcome, Error> {
        let NamedDrive { spec, notes } = NamedDrive::open(&self.drive)?;
        let array =
            self.array.as_deref().map(|text| option("array", text.parse::<ArraySpec>())).transpose()?;
        let settings = self.settings.iter().map(|(key, value)| (key.trim(), value.trim()));
        let spec = DriveSpec { array: array.or(spec.array.clone()), ..spec }.with_settings(settings)?;
        let chunking = option("chunk", parse_chunking(&self.chunk))?;
        let workload = self.workload()?;
        let simulated = simulate(&workload, &spec, chunking, None, progress)?;
        let changed: Vec<String> =
            self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let result = sim_result(&simulated, &spec.title(), &changed, workload.warm_up, chunking);
        Ok(Outcome { result, notes })
    }

    fn workload(&self) -> Result<Workload, Error> {
        let Replaying { outstanding, host_queue, .. } = self.replaying;
        if host_queue == 0 {
            return Err(wrong("host_queue", "it is at least 1"));
        }
        if outstanding.is_some_and(|outstanding| !(1..=OUTSTANDING_MAX).contains(&outstanding)) {
            return Err(wrong("outstanding", format!("it is 1 to {OUTSTANDING_MAX}")));
        }
        let format = self.format.as_deref().map(|name| option("format", name.parse::<Format>()));
        let device = self.device.as_deref().map(|text| option("device", text.parse::<DeviceChoice>()));
        let reading = ReadOptions {
            format: format.transpose()?,
            sort_window: option("sort_window", self.sort_window.parse::<Nanos>())?,
            device: device.transpose()?,
            map: device_map(self.map.as_deref())?,
            time_scale: self.time_scale,
            action: action(&self.action)?,
        };
        let warm_up = option("warm_up", self.warm_up.parse::<Nanos>())?;
        Ok(Workload {
            trace: TraceSource::File(self.trace.clone()),
            reading,
            replaying: self.replaying,
            warm_up,
        })
    }
}

fn device_map(text: Option<&str>) -> Result<DeviceMap, Error> {
    match text {
        None => Ok(DeviceMap::Refuse),
        Some("concat") => Ok(DeviceMap::Concat),
        Some(other) => Err(wrong("map", format!("`{other}` is not known; give `concat`, or nothing"))),
    }
}

fn action(text: &str) -> Result<u8, Error> {
    match *text.as_bytes() {
        [action] => Ok(action),
        _ => Err(wrong(
            "action",
            format!("`{text}` is none of blkparse's letters; give one, such as Q, D or C"),
        )),
    }
}

/// Gives an error of an option its name.
fn option<T, E: std::fmt::Display>(name: &'static str, parsed: Result<T, E>) -> Result<T, Error> {
    parsed.map_err(|error| wrong(name, error.to_string()))
}

fn wrong(name: &'static str, problem: impl Into<String>) -> Error {
    Error::NamedOption { name, problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use sakiyomi_testing::ScratchFile;

    use super::*;

    /// The format of DiskSim: time in ms, device, block, blocks, flags (1 is a read).
    const TRACE: &str = "0.5 0 1000 8 1\n1.5 0 90000 8 0\n9.5 0 1008 8 1\n";

    fn request(trace: &ScratchFile) -> Request {
        Request { format: Some("disksim".into()), ..Request::new(trace.path(), "deskstar-7k250") }
    }

    #[test]
    fn the_result_is_that_of_the_typed_interface() {
        let trace = ScratchFile::new(TRACE);
        let mut request = request(&trace);
        request.settings.push(("cache.read_ahead.max".into(), "64KiB".into()));
        request.chunk = "commands=1".into();
        let outcome = request.run(&mut |_, _| true).unwrap();
        let spec = NamedDrive::open("deskstar-7k250").unwrap().spec;
        let spec = spec.with_settings([("cache.read_ahead.max", "64KiB")]).unwrap();
        let mut workload = Workload::new(trace.path());
        workload.reading.format = Some("disksim".parse().unwrap());
        let chunking = parse_chunking("commands=1").unwrap();
        let simulated = simulate(&workload, &spec, chunking, None, &mut |_, _| true).unwrap();
        let changed = ["cache.read_ahead.max=64KiB".to_owned()];
        assert_eq!(outcome.result, sim_result(&simulated, &spec.title(), &changed, Nanos::ZERO, chunking));
        assert_eq!((outcome.result.commands, outcome.result.chunks.len()), (3, 3));
        assert_eq!(outcome.notes, Vec::<String>::new());
    }

    /// Changes an option.
    type Change = fn(&mut Request);

    #[test]
    fn an_option_that_is_not_valid_is_named() {
        let trace = ScratchFile::new(TRACE);
        let changes: [(&str, Change); 12] = [
            ("array: ", |request| request.array = Some("raid7:3".into())),
            ("chunk: write it like time=1s", |request| request.chunk = "1s".into()),
            ("chunk: it must be at least 1ms", |request| request.chunk = "time=1us".into()),
            ("warm_up: ", |request| request.warm_up = "soon".into()),
            ("format: ", |request| request.format = Some("disksin".into())),
            ("device: ", |request| request.device = Some("9999,1".into())),
            ("map: `all` is not known", |request| request.map = Some("all".into())),
            ("sort_window: ", |request| request.sort_window = "-1s".into()),
            ("action: `QQ` is none", |request| request.action = "QQ".into()),
            ("action: `` is none", |request| request.action = String::new()),
            ("host_queue: it is at least 1", |request| request.replaying.host_queue = 0),
            ("outstanding: it is 1 to 65536", |request| request.replaying.outstanding = Some(0)),
        ];
        for (sentence, change) in changes {
            let mut request = request(&trace);
            change(&mut request);
            let error = request.run(&mut |_, _| true).unwrap_err();
            assert!(matches!(error, Error::NamedOption { .. }), "{error}");
            assert!(error.to_string().starts_with(sentence), "{error}");
        }
    }

    #[test]
    fn numbers_out_of_range_and_unknown_drives_and_keys_are_errors() {
        let trace = ScratchFile::new(TRACE);
        for time_scale in [-1.0, f64::NAN, f64::INFINITY] {
            let request = Request { time_scale, ..request(&trace) };
            assert!(request.run(&mut |_, _| true).unwrap_err().to_string().contains("the time scale"));
        }
        let unknown = Request { drive: "deskstar".into(), ..request(&trace) };
        assert!(matches!(unknown.run(&mut |_, _| true), Err(Error::Drive(_))));
        let settings = vec![("cache.sice".into(), "1".into())];
        let key = Request { settings, ..request(&trace) };
        assert!(key.run(&mut |_, _| true).unwrap_err().to_string().contains("cache.sice"));
    }
}
