//! Simulations: a trace on a drive in virtual time, with the result document as text.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use sakiyomi_report::{Document, Run};
use sakiyomi_simulation::{Error, Outcome, Replaying, Request};

use crate::failure::{Failure, guarded};
use crate::pointers::{check_size, given_text, path_at, place};

/// `sakiyomi_simulation_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SimulationOptions {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Changes of the drive, each `key=value`.
    pub settings: *const *const c_char,
    /// Number of changes.
    pub setting_count: usize,
    /// An array of such drives; null for one drive.
    pub array: *const c_char,
    /// Length of a chunk; null for `time=1s`.
    pub chunk: *const c_char,
    /// Time from the beginning that is excluded from the results; null for none.
    pub warm_up: *const c_char,
    /// Format of the trace; null to detect it.
    pub format: *const c_char,
    /// The device to simulate; null if there is one.
    pub device: *const c_char,
    /// Treatment of several devices; null to refuse them.
    pub map: *const c_char,
    /// Maximum time over which records are put in order; null for `1s`.
    pub sort_window: *const c_char,
    /// The action letter of blkparse that counts as the arrival; null for `Q`.
    pub action: *const c_char,
    /// Factor on times; 0 for 1.
    pub time_scale: f64,
    /// Positive for a closed loop, negative for the recorded times, 0 as the trace was recorded.
    pub closed_loop: c_int,
    /// Number of outstanding requests of a closed loop; 0 for 1.
    pub outstanding: u32,
    /// Maximum requests queued in the host; 0 for the default.
    pub host_queue: u32,
    /// Whether addresses beyond the end of the drive are wrapped around.
    pub wrap: c_int,
    /// Called now and then.
    pub progress: ProgressFunction,
    /// Argument of `progress`.
    pub context: *mut c_void,
}

/// `sakiyomi_progress_function`.
pub type ProgressFunction =
    Option<unsafe extern "C" fn(read_bytes: u64, commands: u64, context: *mut c_void) -> c_int>;

/// Simulates a trace on a drive.
///
/// # Safety
/// `trace` and `drive` are null or NUL-terminated strings; `options` is null or points to valid options; `document` and
/// `notes` are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_simulate(
    trace: *const c_char,
    drive: *const c_char,
    options: *const SimulationOptions,
    document: *mut *mut c_char,
    notes: *mut *mut c_char,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let notes = if notes.is_null() { None } else { Some(unsafe { place(notes, "notes")? }) };
        // SAFETY: guaranteed by the caller.
        let (document, trace) = unsafe { (place(document, "document")?, path_at(trace, "trace")?) };
        // SAFETY: guaranteed by the caller.
        let drive = unsafe { text_at(drive, "drive")? }.ok_or_else(|| Failure::null("drive"))?;
        let mut request = Request::new(trace, drive);
        // SAFETY: guaranteed by the caller.
        let (progress, context) = unsafe { change(&mut request, options)? };
        let mut code = 0;
        let outcome = request.run(&mut |read_bytes, commands| {
            if let Some(progress) = progress {
                // SAFETY: the function may be called with its context, as guaranteed by the caller.
                code = unsafe { progress(read_bytes, commands, context) };
            }
            code == 0
        });
        let Outcome { result, notes: said } = match outcome {
            Err(Error::Stopped) => return Ok(code),
            outcome => outcome?,
        };
        let run = Run { version: env!("CARGO_PKG_VERSION").to_owned(), ..Run::default() };
        let json = serde_json::to_string(&Document::new(run, result));
        *document = given_text(json.map_err(|error| Failure::of_input(error.to_string()))?);
        if let Some(notes) = notes {
            *notes = given_text(said.join("\n"));
        }
        Ok(0)
    })
}

/// Frees a text of the library's.
///
/// # Safety
/// `text` is null or was returned by this library to be freed, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_text_free(text: *mut c_char) -> c_int {
    guarded(|| {
        if !text.is_null() {
            // SAFETY: it was made by `given_text`, as guaranteed by the caller.
            drop(unsafe { CString::from_raw(text) });
        }
        Ok(0)
    })
}

/// Takes the options over. Returns the function that learns of progress, with its context.
///
/// # Safety
/// `options` is null or points to valid options.
unsafe fn change(
    request: &mut Request,
    options: *const SimulationOptions,
) -> Result<(ProgressFunction, *mut c_void), Failure> {
    if options.is_null() {
        return Ok((None, std::ptr::null_mut()));
    }
    // SAFETY: the caller guarantees that it points to options; their size is checked first.
    let options = unsafe {
        check_size(options.cast(), "options", size_of::<SimulationOptions>())?;
        options.read()
    };
    // SAFETY: guaranteed by the caller.
    let text = |text: *const c_char, name: &str| unsafe { text_at(text, name) };
    // SAFETY: guaranteed by the caller.
    request.settings = unsafe { settings(options.settings, options.setting_count)? };
    request.array = text(options.array, "options.array")?;
    request.format = text(options.format, "options.format")?;
    request.device = text(options.device, "options.device")?;
    request.map = text(options.map, "options.map")?;
    for (target, given, name) in [
        (&mut request.chunk, options.chunk, "options.chunk"),
        (&mut request.warm_up, options.warm_up, "options.warm_up"),
        (&mut request.sort_window, options.sort_window, "options.sort_window"),
        (&mut request.action, options.action, "options.action"),
    ] {
        if let Some(given) = text(given, name)? {
            *target = given;
        }
    }
    if options.time_scale != 0.0 {
        request.time_scale = options.time_scale;
    }
    let Replaying { host_queue, .. } = request.replaying;
    request.replaying = Replaying {
        is_closed: (options.closed_loop != 0).then_some(options.closed_loop > 0),
        outstanding: (options.outstanding > 0).then_some(options.outstanding),
        host_queue: if options.host_queue > 0 { options.host_queue } else { host_queue },
        wrap: options.wrap != 0,
    };
    Ok((options.progress, options.context))
}

/// # Safety
/// `settings` is null or has `count` NUL-terminated strings.
unsafe fn settings(settings: *const *const c_char, count: usize) -> Result<Vec<(String, String)>, Failure> {
    if settings.is_null() && count > 0 {
        return Err(Failure::null("options.settings"));
    }
    let setting = |index: usize| {
        // SAFETY: there are so many, as guaranteed by the caller.
        let text = unsafe { text_at(settings.add(index).read(), "a setting") };
        let text = text?.ok_or_else(|| Failure::null("a setting"))?;
        let (key, value) = text.split_once('=').ok_or_else(|| {
            Failure::invalid(format!(
                "the setting `{text}` has no value; write it like cache.read_ahead.max=1MiB"
            ))
        })?;
        Ok((key.to_owned(), value.to_owned()))
    };
    (0..count).map(setting).collect()
}

/// # Safety
/// `text` is null or a NUL-terminated string.
unsafe fn text_at(text: *const c_char, name: &str) -> Result<Option<String>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and NUL-terminated as guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map(|text| Some(text.to_owned())).map_err(|_| Failure::invalid(format!("{name} is not UTF-8")))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match &error {
            Error::NamedOption { name, problem } => Failure::invalid(format!("options.{name}: {problem}")),
            // The sentence of the command names its options.
            Error::Outstanding(outstanding) => Failure::invalid(format!(
                "options.outstanding is {outstanding}: only a closed loop has a number of outstanding requests; \
                 set options.closed_loop to 1"
            )),
            _ => Failure::of_input_or_system(&error),
        }
    }
}
