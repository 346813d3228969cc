//! `wc`: lines, words, characters, bytes and the longest line, as GNU wc counts and prints them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::{ArgAction, Args, ValueEnum};
use sakiyomi_linux::ctype::Characters;
use sakiyomi_task::count::{Counter, Figures, Part, Wanted};
use sakiyomi_task::read::{self, Report};
use serde_json::{Value, json};

use crate::args::ReadingArgs;
use crate::console::{Common, complain, say_json};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi wc -lw big.txt
  sakiyomi wc big.txt --method uring:8 --direct --json
  find . -name '*.c' -print0 | sakiyomi wc -l --files0-from=-
";

/// Count lines, words, characters and bytes, as GNU wc does, on all cores while reading
#[derive(Debug, Args)]
#[command(
    after_help = "Figures are printed in the order lines, words, characters, bytes, longest line; without any option, \
lines, words and bytes.
Characters are those of the locale (LC_ALL, LC_CTYPE, LANG), which must be of single bytes or UTF-8.
Exit codes, as wc's: 0 done, 1 a file could not be read, or wrong usage."
)]
pub(crate) struct Wc {
    /// Files; `-` is stdin, which is also read if there are none
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
    #[command(flatten)]
    figures: Shown,
    /// Read names of files from this one, each ended by a NUL byte; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    files0_from: Option<OsString>,
    /// When to print the total
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    total: Total,
    #[command(flatten)]
    reading: ReadingArgs,
}

#[derive(Debug, Args)]
struct Shown {
    /// Count bytes
    #[arg(short = 'c', long, action = ArgAction::SetTrue, overrides_with = "bytes")]
    bytes: bool,
    /// Count characters
    #[arg(short = 'm', long, action = ArgAction::SetTrue, overrides_with = "chars")]
    chars: bool,
    /// Count newlines
    #[arg(short = 'l', long, action = ArgAction::SetTrue, overrides_with = "lines")]
    lines: bool,
    /// Count words
    #[arg(short = 'w', long, action = ArgAction::SetTrue, overrides_with = "words")]
    words: bool,
    /// Find the longest line, in columns
    #[arg(short = 'L', long, action = ArgAction::SetTrue, overrides_with = "max_line_length")]
    max_line_length: bool,
}

/// When to print the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Total {
    /// If there are several files.
    Auto,
    /// In any case.
    Always,
    /// And nothing else.
    Only,
    /// In no case.
    Never,
}

impl Shown {
    fn or_usual(&self) -> Shown {
        let Shown { bytes, chars, lines, words, max_line_length } = *self;
        let none = !(bytes || chars || lines || words || max_line_length);
        Shown { bytes: bytes || none, chars, lines: lines || none, words: words || none, max_line_length }
    }

    fn are_only_bytes(&self, counter: &Counter) -> bool {
        !(self.chars && !counter.chars_are_bytes() || self.lines || self.words || self.max_line_length)
    }

    fn count(&self) -> usize {
        [self.bytes, self.chars, self.lines, self.words, self.max_line_length]
            .iter()
            .filter(|&&shown| shown)
            .count()
    }

    fn numbers(&self, figures: &Figures) -> Vec<u64> {
        let all = [
            (self.lines, figures.lines),
            (self.words, figures.words),
            (self.chars, figures.chars),
            (self.bytes, figures.bytes),
            (self.max_line_length, figures.columns),
        ];
        all.into_iter().filter(|&(shown, _)| shown).map(|(_, number)| number).collect()
    }

    fn in_json(&self, figures: &Figures) -> Value {
        let names = ["lines", "words", "chars", "bytes", "max_line_length_columns"];
        let shown = [self.lines, self.words, self.chars, self.bytes, self.max_line_length];
        let named = names.into_iter().zip(shown).filter(|&(_, shown)| shown).map(|(name, _)| name.to_owned());
        named.zip(self.numbers(figures)).map(|(name, number)| (name, json!(number))).collect()
    }
}

/// What a file came to.
struct Counted {
    figures: Figures,
    report: Report,
    failed: bool,
}

/// What is counted, and how it is printed.
struct Setting<'w> {
    shown: Shown,
    counter: Counter,
    /// Of the numbers.
    width: usize,
    common: &'w Common,
}

/// What all files so far came to.
#[derive(Default)]
struct Sum {
    figures: Figures,
    report: Report,
    failed: bool,
    files: Vec<Value>,
}

impl Wc {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        Ok(self.count_all(common).unwrap_or_else(|error| {
            if error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
            {
                return ExitCode::SUCCESS;
            }
            // Those of files are told apart from it.
            match error.downcast_ref::<io::Error>() {
                Some(error) => complain(&format!("wc: write error: {}", plainly(error))),
                None => complain(&format!("wc: {error:#}")),
            }
            ExitCode::FAILURE
        }))
    }

    fn count_all(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        let shown = self.figures.or_usual();
        let counter = counter(&shown)?;
        let names = self.names()?;
        let width = if self.total == Total::Only { 1 } else { self.width(&names, &shown) };
        let setting = Setting { shown, counter, width, common };
        let mut sum = Sum::default();
        let mut at = 0;
        while at < names.len() {
            // Those that are read side by side.
            let many = names[at..].iter().take_while(|name| self.is_read_by_blocks(name, &setting)).count();
            if many > 0 {
                self.count_files(&names[at..at + many], &setting, &mut sum)?;
            } else if let Some(counted) = self.count_named(&names[at], at, &setting)? {
                self.note(&names[at], counted, &setting, &mut sum)?;
            } else {
                sum.failed = true;
            }
            at += many.max(1);
        }
        self.print_total(names.len() > 1, &sum, &setting, begun.elapsed())?;
        Ok(if sum.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn is_read_by_blocks(&self, name: &OsStr, setting: &Setting<'_>) -> bool {
        !self.is_stdin(name) && !name.is_empty() && !setting.shown.are_only_bytes(&setting.counter)
    }

    /// Counts files of which the next is read while the last is counted.
    fn count_files(&self, names: &[OsString], setting: &Setting<'_>, sum: &mut Sum) -> Result<()> {
        let counter = &setting.counter;
        let mapped = self.reading.read_all(names)?.map(|block| counter.count(block));
        let join = |part, next| counter.join(part, &next);
        let counted = mapped.reduce_each(Part::default, join, |index, counted| {
            let name = &names[index];
            if let Err(read::Error::Open { source, .. }) = &counted {
                complain(&format!("wc: {}: {}", Path::new(name).display(), plainly(source)));
                sum.failed = true;
                return Ok(());
            }
            let counted = counted.map(|(part, report)| (counter.figures(&part), report));
            self.note(name, said(name, counted), setting, sum)
        });
        match counted {
            Ok(_) => Ok(()),
            Err(read::Error::Write(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds what a file came to, and prints it.
    fn note(&self, name: &OsStr, counted: Counted, setting: &Setting<'_>, sum: &mut Sum) -> io::Result<()> {
        sum.failed |= counted.failed;
        add(&mut sum.figures, &counted.figures);
        sum.report.add(&counted.report);
        let label = self.label(name);
        if setting.common.json {
            let name = label.map(|name| name.to_string_lossy().into_owned());
            sum.files.push(json!({ "path": name, "figures": setting.shown.in_json(&counted.figures) }));
        } else if self.total != Total::Only {
            setting.write_line(&counted.figures, label)?;
        }
        Ok(())
    }

    fn print_total(&self, several: bool, sum: &Sum, setting: &Setting<'_>, elapsed: Duration) -> Result<()> {
        let wants_total = match self.total {
            Total::Auto => several,
            Total::Always | Total::Only => true,
            Total::Never => false,
        };
        if setting.common.json {
            say_json(&json!({
                "schema": "sakiyomi.wc/1",
                "run": run(&sum.report, elapsed),
                "result": { "files": sum.files, "total": setting.shown.in_json(&sum.figures) },
            }))?;
        } else if wants_total {
            let label = (self.total != Total::Only).then(|| OsStr::new("total"));
            setting.write_line(&sum.figures, label)?;
        }
        Ok(())
    }

    /// The files' names; one that is empty stands for stdin without a name.
    fn names(&self) -> Result<Vec<OsString>> {
        let Some(list) = &self.files0_from else {
            return Ok(if self.files.is_empty() { vec![OsString::new()] } else { self.files.clone() });
        };
        let mut bytes = Vec::new();
        let read = if list == "-" {
            io::stdin().lock().read_to_end(&mut bytes)
        } else {
            let mut file = File::open(list).map_err(|error| {
                anyhow!("cannot open '{}' for reading: {}", Path::new(list).display(), plainly(&error))
            })?;
            file.read_to_end(&mut bytes)
        };
        read.map_err(|error| anyhow!("{}: read error: {}", Path::new(list).display(), plainly(&error)))?;
        let names = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
        let names = if bytes.is_empty() { Vec::new() } else { names.split(|&byte| byte == 0).collect() };
        Ok(names.into_iter().map(|name| OsString::from_vec(name.to_vec())).collect())
    }

    fn is_unnamed(&self) -> bool {
        self.files.is_empty() && self.files0_from.is_none()
    }

    fn label<'n>(&self, name: &'n OsStr) -> Option<&'n OsStr> {
        (!self.is_unnamed()).then_some(name)
    }

    /// How wide numbers are printed: as the sum of all sizes, and 7 at least if one of them says nothing.
    fn width(&self, names: &[OsString], shown: &Shown) -> usize {
        let from_stream = self.files0_from.as_ref().is_some_and(|list| {
            list == "-" && !io_stdin_metadata().is_ok_and(|metadata| metadata.is_file())
                || list != "-" && !fs::metadata(list).is_ok_and(|metadata| metadata.is_file())
        });
        if names.is_empty() || from_stream || names.len() == 1 && shown.count() == 1 {
            return 1;
        }
        let of = |name: &OsString| if self.is_stdin(name) { io_stdin_metadata() } else { fs::metadata(name) };
        let all: Vec<Metadata> = names.iter().filter_map(|name| of(name).ok()).collect();
        let sum: u64 = all.iter().filter(|metadata| metadata.is_file()).map(Metadata::len).sum();
        let least = if all.iter().all(Metadata::is_file) { 1 } else { 7 };
        sum.to_string().len().max(least)
    }

    fn is_stdin(&self, name: &OsStr) -> bool {
        name == "-" || self.is_unnamed()
    }

    /// Counts what is not read beside others; none if nothing is to be printed for it, which has been said then.
    fn count_named(&self, name: &OsStr, index: usize, setting: &Setting<'_>) -> Result<Option<Counted>> {
        if let Some(list) = &self.files0_from {
            if list == "-" && name == "-" {
                complain("wc: when reading file names from stdin, no file name of '-' allowed");
                return Ok(None);
            }
            if name.is_empty() {
                let list = Path::new(list).display();
                complain(&format!("wc: {list}:{}: invalid zero-length file name", index + 1));
                return Ok(None);
            }
        }
        if self.is_stdin(name) {
            return Ok(Some(said(name, self.count_stdin(&setting.shown, &setting.counter)?)));
        }
        if name.is_empty() {
            complain("wc: invalid zero-length file name");
            return Ok(None);
        }
        let mut file = match File::open(name) {
            Ok(file) => file,
            Err(error) => {
                complain(&format!("wc: {}: {}", Path::new(name).display(), plainly(&error)));
                return Ok(None);
            }
        };
        let counted = match size(&mut file) {
            Some(bytes) => Ok((Figures { bytes, chars: bytes, ..Figures::default() }, Report::default())),
            None => self.count(Path::new(name), 0, &setting.counter)?,
        };
        Ok(Some(said(name, counted)))
    }

    fn count(
        &self,
        path: &Path,
        from: u64,
        counter: &Counter,
    ) -> Result<Result<(Figures, Report), read::Error>> {
        let mapped = self.reading.read(path)?.range(from..u64::MAX).map(|block| counter.count(block));
        let counted = mapped.reduce(Part::default(), |part, next| counter.join(part, &next));
        Ok(counted.map(|(part, report)| (counter.figures(&part), report)))
    }

    fn count_stdin(
        &self,
        shown: &Shown,
        counter: &Counter,
    ) -> Result<Result<(Figures, Report), read::Error>> {
        let mut stdin = match stdin() {
            Ok(stdin) => stdin,
            Err(error) => {
                return Ok(Err(read::Error::Stream { path: "standard input".into(), source: error }));
            }
        };
        if shown.are_only_bytes(counter)
            && let Some(bytes) = size(&mut stdin)
        {
            return Ok(Ok((Figures { bytes, chars: bytes, ..Figures::default() }, Report::default())));
        }
        let own = Path::new("/proc/self/fd/0");
        let has_size = stdin.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
        if has_size && let (Ok(at), Ok(_)) = (stdin.stream_position(), File::open(own)) {
            let counted = self.count(own, at, counter)?;
            let _ = stdin.seek(SeekFrom::End(0));
            return Ok(counted);
        }
        let mapped = self.reading.read(Path::new("standard input"))?.map(|block| counter.count(block));
        let counted = mapped.reduce_stream(stdin, Part::default(), |part, next| counter.join(part, &next));
        Ok(counted.map(|(part, report)| (counter.figures(&part), report)))
    }
}

fn counter(shown: &Shown) -> Result<Counter> {
    let characters = Characters::from_environment();
    let encoding = characters.encoding().clone();
    let wanted = Wanted { words: shown.words, chars: shown.chars, columns: shown.max_line_length };
    let posix = std::env::var_os("POSIXLY_CORRECT").is_some();
    let Some(counter) = Counter::new(Arc::new(characters), wanted, !posix) else {
        bail!(
            "the locale's characters are {encoding:?}, which are not known here; set LC_ALL to C or to a UTF-8 locale"
        )
    };
    Ok(counter)
}

/// Not `io::stdin`, which keeps what it has read; the descriptor's position is shared with who gave it to us.
pub(crate) fn stdin() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

fn io_stdin_metadata() -> io::Result<Metadata> {
    stdin()?.metadata()
}

/// Bytes from a file's position to its end, as far as its size tells them: those of files like /proc's say nothing.
fn size(file: &mut File) -> Option<u64> {
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    let (size, at) = (metadata.len(), file.stream_position().ok()?);
    if !size.is_multiple_of(rustix::param::page_size() as u64) {
        return Some(size.saturating_sub(at));
    }
    let near_end = size - size % (metadata.blksize() + 1);
    let from = if at < near_end { file.seek(SeekFrom::Start(near_end)).ok()? } else { at };
    let rest = io::copy(file, &mut io::sink()).ok()?;
    Some(from - at + rest)
}

fn add(total: &mut Figures, figures: &Figures) {
    total.lines += figures.lines;
    total.words += figures.words;
    total.chars += figures.chars;
    total.bytes += figures.bytes;
    total.columns = total.columns.max(figures.columns);
}

/// What a run tells of itself.
pub(crate) fn run(report: &Report, elapsed: Duration) -> Value {
    json!({
        "elapsed_ns": elapsed.as_nanos() as u64,
        "computing_ns": report.computing.as_nanos() as u64,
        "read_bytes": report.bytes,
        "resident_bytes": report.resident_bytes,
        "method": report.method.map(|method| method.to_string()),
        "io_thread_is_urgent": report.io_is_urgent,
    })
}

impl Setting<'_> {
    fn write_line(&self, figures: &Figures, name: Option<&OsStr>) -> io::Result<()> {
        let width = self.width;
        let numbers: Vec<String> =
            self.shown.numbers(figures).iter().map(|number| format!("{number:>width$}")).collect();
        let mut line = numbers.join(" ").into_bytes();
        if let Some(name) = name {
            line.push(b' ');
            line.extend(quoted(name.as_bytes()));
        }
        line.push(b'\n');
        io::stdout().write_all(&line)
    }
}

/// What a file came to; what is wrong with it is said.
fn said(name: &OsStr, counted: Result<(Figures, Report), read::Error>) -> Counted {
    match counted {
        Ok((figures, report)) => Counted { figures, report, failed: false },
        Err(error) => {
            complain(&format!("wc: {}: {}", Path::new(name).display(), in_words(&error)));
            Counted { figures: Figures::default(), report: Report::default(), failed: true }
        }
    }
}

/// A name, as a shell would read it if a newline is in it.
fn quoted(name: &[u8]) -> Vec<u8> {
    if !name.contains(&b'\n') {
        return name.to_vec();
    }
    let mut text = vec![b'\''];
    for &byte in name {
        match byte {
            b'\n' => text.extend(br"'$'\n''"),
            b'\'' => text.extend(br"'\''"),
            byte => text.push(byte),
        }
    }
    text.push(b'\'');
    text
}

/// What is wrong, without the number that the system gives it.
pub(crate) fn plainly(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// What is wrong with a file that is named before it.
pub(crate) fn in_words(error: &read::Error) -> String {
    match error {
        read::Error::Open { source, .. } | read::Error::Stream { source, .. } => plainly(source),
        error => format!("{:#}", anyhow::Error::msg(error.to_string())),
    }
}
