//! Files that a run leaves in its `--out` directory; each appears only when it is complete.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use sakiyomi_io::AtomicFile;
use sakiyomi_report::{Reported, chart, html, markdown};

/// Whether files that are not from sakiyomi may be overwritten.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Overwrite {
    /// With --out: overwrite files in DIR that sakiyomi did not write
    #[arg(long, requires = "out")]
    force: bool,
}

impl Overwrite {
    /// Opens the directory of `--out`, if given, for a run that writes the files named `others` in addition to those
    /// of every run.
    ///
    /// # Errors
    /// If it cannot be created or written to, or contains a file of one of these names that is not from an earlier
    /// run.
    pub(crate) fn out(self, path: Option<&Path>, others: &[&str]) -> Result<Option<OutDir>> {
        path.map(|path| OutDir::for_report(path, self, others)).transpose()
    }

    /// Checks that the JSON file at `path` is not there, is from sakiyomi, or may be overwritten.
    pub(crate) fn allows(self, path: &Path) -> Result<()> {
        let is_foreign = !self.force && path.is_file() && !is_ours(path, RESULT_MARK);
        if is_foreign { Err(would_overwrite(path)) } else { Ok(()) }
    }
}

/// Returns the error about a file that would be overwritten.
fn would_overwrite(file: &Path) -> anyhow::Error {
    anyhow!(
        "{} exists and was not written by sakiyomi; name another directory with --out, or overwrite it with --force",
        file.display()
    )
}

/// The output directory of a run.
pub(crate) struct OutDir {
    path: PathBuf,
    /// The directories that were created for this run, the innermost first; they are removed if nothing is written.
    made: Vec<PathBuf>,
}

impl Drop for OutDir {
    fn drop(&mut self) {
        // Fails on a directory that is not empty, as it should.
        let _ = self.made.iter().try_for_each(fs::remove_dir);
    }
}

impl OutDir {
    /// Opens the directory at `path`, created if it does not exist.
    pub(crate) fn new(path: &Path) -> Result<OutDir> {
        ensure!(!path.is_file(), "{} is a file, and --out needs a directory; name another", path.display());
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made = path.ancestors().take_while(is_missing).map(Path::to_owned).collect();
        // Recorded before they are created: that may fail halfway.
        let out = OutDir { path: path.to_owned(), made };
        fs::create_dir_all(path)
            .with_context(|| format!("cannot create the directory {}", path.display()))?;
        // Fails before the work is done if nothing can be written. Created directories are removed again.
        OutFile::create(&path.join("result.json"))?;
        Ok(out)
    }

    /// Opens the directory, unless files of other programs would be overwritten. This is also checked before the work
    /// is done.
    fn for_report(path: &Path, overwrite: Overwrite, others: &[&str]) -> Result<OutDir> {
        let result = path.join("result.json");
        let holds_our_result = is_ours(&result, RESULT_MARK);
        if !overwrite.force && !holds_our_result {
            let reports = [("report.html", PAGE_MARK), ("report.md", MARKDOWN_MARK)];
            let page = reports
                .map(|(name, mark)| (path.join(name), mark))
                .into_iter()
                .find_map(|(file, mark)| (file.is_file() && !is_ours(&file, mark)).then_some(file));
            let pictures = chart::NAMES.map(|name| path.join(format!("{name}.svg")));
            let others = others.iter().map(|name| path.join(name));
            let mut foreign =
                [result].into_iter().chain(pictures).chain(others).filter(|file| file.is_file());
            if let Some(file) = page.or_else(|| foreign.next()) {
                return Err(would_overwrite(&file));
            }
        }
        OutDir::new(path)
    }

    /// Writes the files of every run: the result, its report as a page and as Markdown, and the charts.
    pub(crate) fn write_report(&self, reported: &impl Reported) -> Result<()> {
        self.write_result(reported, reported)
    }

    /// Like [`OutDir::write_report`], for a result whose JSON has another envelope.
    pub(crate) fn write_result(
        &self,
        document: &impl serde::Serialize,
        reported: &impl Reported,
    ) -> Result<()> {
        let (report, charts) = (reported.report(), reported.charts());
        debug_assert!(
            charts.iter().all(|chart| chart::NAMES.contains(&chart.name)),
            "a chart that is not in NAMES"
        );
        let mut result = serde_json::to_string_pretty(document)?;
        result.push('\n');
        self.write("result.json", result.as_bytes())?;
        self.write("report.html", html::render(&report, &charts).as_bytes())?;
        self.write("report.md", markdown::render(&report, &charts).as_bytes())?;
        charts.iter().try_for_each(|chart| self.write(&format!("{}.svg", chart.name), chart.svg.as_bytes()))
    }

    /// Writes a file, replacing an existing one.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        OutFile::create(&self.path.join(name))?.write(content)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the report, as a starting point for readers.
    pub(crate) fn report(&self) -> String {
        format!("report: {}", self.path.join("report.html").display())
    }
}

/// Beginning of every JSON result, without white space.
const RESULT_MARK: &str = r#"{"schema":"sakiyomi."#;
/// Generator tag in the head of every HTML page, without white space.
const PAGE_MARK: &str = r#"<metaname="generator"content="sakiyomi"#;
/// First line of every Markdown report, without white space.
const MARKDOWN_MARK: &str = "<!--sakiyomi";
/// Bytes at the beginning of a file that are searched for the mark of a report.
const HEAD_BYTES: u64 = 8192;

/// Returns whether a file has the mark of sakiyomi near its beginning.
fn is_ours(path: &Path, mark: &str) -> bool {
    let mut head = Vec::new();
    let is_read = path.is_file()
        && File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head)).is_ok();
    head.retain(|byte| !byte.is_ascii_whitespace());
    is_read && String::from_utf8_lossy(&head).contains(mark)
}

/// A file that is written at the end of a command. It is created at the beginning, so that errors are reported before
/// the work is done.
/// is done.
pub(crate) struct OutFile {
    path: PathBuf,
    file: AtomicFile,
}

impl OutFile {
    pub(crate) fn create(path: &Path) -> Result<OutFile> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(directory) = directory.filter(|directory| !directory.exists()) {
            bail!("{}: the directory {} does not exist; create it", cannot_write(path), directory.display());
        }
        let file = AtomicFile::create(path).with_context(|| cannot_write(path))?;
        Ok(OutFile { path: path.to_owned(), file })
    }

    /// Writes it, replacing an existing file.
    pub(crate) fn write(self, content: &[u8]) -> Result<()> {
        self.write_by(|file| file.write_all(content))
    }

    /// Like [`OutFile::write`], for content that `write` produces.
    pub(crate) fn write_by(mut self, write: impl FnOnce(&mut AtomicFile) -> io::Result<()>) -> Result<()> {
        let written = write(&mut self.file).and_then(|()| self.file.commit());
        written.with_context(|| cannot_write(&self.path))
    }
}

/// Returns the message about a file that cannot be written.
pub(crate) fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
