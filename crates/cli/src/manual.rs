//! Manual pages: clap's definition of a command, rendered by clap_mangen, with the examples of its help and cross
//! references.

use std::io;

use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use crate::console::shown;

/// A manual page.
pub(crate) struct Page {
    /// File name, such as `sakiyomi-trace-convert.1`.
    pub(crate) file_name: String,
    /// Its text in roff, for `man` and `mandoc`.
    pub(crate) text: Vec<u8>,
}

/// Returns the pages of `root` and of all commands below it, that of `root` first.
///
/// # Errors
/// Returns the errors of formatting.
pub(crate) fn pages(root: Command) -> io::Result<Vec<Page>> {
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    add_pages(&root, &[], &mut pages)?;
    Ok(pages)
}

/// Adds the page of `command` and those below it; `path` is the list of the commands above it, the outermost first.
fn add_pages(command: &Command, path: &[&Command], pages: &mut Vec<Page>) -> io::Result<()> {
    pages.push(page(command, path)?);
    let path = [path, &[command]].concat();
    command.get_subcommands().try_for_each(|below| add_pages(below, &path, pages))
}

fn page(command: &Command, path: &[&Command]) -> io::Result<Page> {
    let name = page_name(command);
    // The first page has the options of every command; the others refer to it.
    let clap = Man::new(if path.is_empty() { shown(command.clone()) } else { command.clone() });
    let mut text = Vec::new();
    clap.render_name_section(&mut text)?;
    let mut usage = Roff::default();
    synopsis(command, &mut usage);
    usage.to_writer(&mut text)?;
    clap.render_description_section(&mut text)?;
    clap.render_options_section(&mut text)?;
    if command.has_subcommands() {
        clap.render_subcommands_section(&mut text)?;
    }
    let mut rest = Roff::default();
    if let Some(root) = path.first() {
        common_options(root, &mut rest);
    }
    notes(command, &mut rest);
    examples(command, &mut rest);
    see_also(command, path, &mut rest);
    rest.to_writer(&mut text)?;
    let (date, version) = (env!("SAKIYOMI_COMMIT_DATE"), env!("CARGO_PKG_VERSION"));
    // No spaces are added between words.
    let title = format!(
        ".TH \"{}\" \"1\" \"{date}\" \"sakiyomi {version}\" \"sakiyomi manual\"\n.ad l\n",
        name.to_uppercase()
    );
    let text = title + &without_odd_breaks(&String::from_utf8_lossy(&text));
    Ok(Page { file_name: format!("{name}.1"), text: text.into_bytes() })
}

/// Replaces empty lines between two breaks, which clap_mangen emits, by a vertical space, and removes trailing
/// spaces: `mandoc -Tlint` warns of both.
fn without_odd_breaks(text: &str) -> String {
    let text = text.replace("\n.br\n\n.br\n", "\n.sp\n");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Writes the SYNOPSIS section, with the usage from the help.
fn synopsis(command: &Command, roff: &mut Roff) {
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    for (index, line) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
        if index > 0 {
            roff.control("br", []);
        }
        match line.strip_prefix(name) {
            Some(arguments) => roff.text([bold(name), roman(arguments)]),
            None => roff.text([roman(line)]),
        };
    }
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Writes the COMMON OPTIONS section, which refers to the page that describes them.
fn common_options(root: &Command, roff: &mut Roff) {
    roff.control("SH", ["COMMON OPTIONS"]);
    let mut line: Vec<Inline> = Vec::new();
    for long in root.get_arguments().filter(|argument| argument.is_global_set()).filter_map(Arg::get_long) {
        line.extend([bold(format!("--{long}")), roman(", ")]);
    }
    line.extend([roman("as of every command: see "), bold(page_name(root)), roman("(1)")]);
    roff.text(line);
}

/// Writes the NOTES section: the help text below the options.
fn notes(command: &Command, roff: &mut Roff) {
    let Some(notes) = command.get_after_help() else { return };
    roff.control("SH", ["NOTES"]);
    for (index, line) in notes.to_string().lines().enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(line)]);
    }
}

/// Writes the EXAMPLES section, line by line.
fn examples(command: &Command, roff: &mut Roff) {
    let Some(examples) = command.get_before_help() else { return };
    roff.control("SH", ["EXAMPLES"]);
    roff.control("EX", []);
    for line in examples.to_string().lines().filter_map(|line| line.strip_prefix("  ")) {
        roff.text([roman(line)]);
    }
    roff.control("EE", []);
}

/// Writes the SEE ALSO section: related pages of sakiyomi, those of other programs, and documents.
fn see_also(command: &Command, path: &[&Command], roff: &mut Roff) {
    let beside = path.last().into_iter().flat_map(|parent| parent.get_subcommands());
    let beside = beside.filter(|beside| beside.get_name() != command.get_name());
    let ours = path.iter().copied().chain(beside).chain(command.get_subcommands());
    let mut pages: Vec<(String, &str)> = ours.map(|command| (page_name(command), "1")).collect();
    // A subcommand shares the topic of its top-level command.
    let topic = path.get(1).map_or(command.get_name(), |above| above.get_name());
    let related = RELATED.iter().find(|related| related.topic == topic);
    pages.extend(
        related.iter().flat_map(|related| related.pages).map(|&(name, section)| (name.to_owned(), section)),
    );
    roff.control("SH", ["SEE ALSO"]);
    // Names are not hyphenated.
    roff.control("nh", []);
    let mut line: Vec<Inline> = Vec::new();
    for (index, (name, section)) in pages.iter().enumerate() {
        let end = if index + 1 < pages.len() { ", " } else { "" };
        line.extend([bold(name), roman(format!("({section}){end}"))]);
    }
    roff.text(line);
    let documents = related.map_or(&["README.md"][..], |related| related.documents);
    roff.control("PP", []);
    roff.text([roman(format!("In the source of sakiyomi: {}", documents.join(", ")))]);
}

/// Further reading about a command.
struct Related {
    topic: &'static str,
    /// Pages of other programs, with their sections.
    pages: &'static [(&'static str, &'static str)],
    /// Documents in the repository.
    documents: &'static [&'static str],
}

/// Further reading about each command of sakiyomi that has a document of its own.
const RELATED: &[Related] = &[
    Related {
        topic: "sim",
        pages: &[],
        documents: &["docs/explanation/model.md", "docs/results/accuracy.md", "docs/reference/tables.md"],
    },
    Related {
        topic: "compare",
        pages: &[],
        documents: &["docs/explanation/model.md", "docs/results/read-ahead.md"],
    },
    Related {
        topic: "sweep",
        pages: &[],
        documents: &["docs/reference/tables.md", "docs/explanation/model.md"],
    },
    Related {
        topic: "validate",
        pages: &[],
        documents: &["docs/results/accuracy.md", "docs/explanation/accuracy.md"],
    },
    Related {
        topic: "run",
        pages: &[("time", "1"), ("readahead", "2")],
        documents: &["docs/how-to/run.md", "docs/reference/run-report.md"],
    },
    Related {
        topic: "mount",
        pages: &[("mount", "8"), ("fuse", "4")],
        documents: &["docs/how-to/mount.md", "docs/explanation/mount.md"],
    },
    Related {
        topic: "serve",
        pages: &[("nbd-client", "8"), ("qemu-img", "1"), ("nbdcopy", "1")],
        documents: &["docs/how-to/serve.md", "docs/explanation/serve.md"],
    },
    Related { topic: "umount", pages: &[("umount", "8")], documents: &["docs/how-to/mount.md"] },
    Related {
        topic: "iorate",
        pages: &[("ionice", "1"), ("cgroups", "7")],
        documents: &["docs/how-to/iorate.md", "docs/reference/iorate.md", "docs/explanation/regulation.md"],
    },
    Related {
        topic: "probe",
        pages: &[("fio", "1"), ("io_uring", "7")],
        documents: &["docs/how-to/probe.md", "docs/reference/io.md"],
    },
    Related {
        topic: "scenario",
        pages: &[],
        documents: &["docs/how-to/scenario.md", "docs/reference/scenario.md"],
    },
    Related { topic: "wc", pages: &[("wc", "1")], documents: &["docs/reference/wc-grep.md"] },
    Related { topic: "grep", pages: &[("grep", "1")], documents: &["docs/reference/wc-grep.md"] },
    Related {
        topic: "trace",
        pages: &[("blktrace", "8"), ("blkparse", "1"), ("fio", "1")],
        documents: &["docs/explanation/model.md", "docs/results/read-ahead.md"],
    },
    Related {
        topic: "drive",
        pages: &[],
        documents: &["docs/reference/drive.md", "docs/explanation/model.md"],
    },
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory;

    use super::*;
    use crate::command::Cli;

    #[test]
    fn every_command_has_a_page_with_examples_and_references() {
        let pages = pages(Cli::command()).unwrap();
        assert_eq!(pages[0].file_name, "sakiyomi.1");
        assert!(pages.iter().any(|page| page.file_name == "sakiyomi-trace-generate-pc.1"));
        for Page { file_name, text } in &pages {
            let text = String::from_utf8(text.clone()).unwrap();
            let sections = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "\"SEE ALSO\""];
            let places: Vec<_> = sections.iter().map(|name| text.find(&format!("\n.SH {name}\n"))).collect();
            assert!(places.is_sorted() && places[0].is_some(), "{file_name}: {places:?}\n{text}");
            let references = text.rsplit(".SH \"SEE ALSO\"\n").next().unwrap();
            for name in references
                .lines()
                .find(|line| line.contains("(1)"))
                .unwrap()
                .split(", ")
                .filter(|name| name.contains("sakiyomi"))
            {
                let name = name.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-");
                let file = name.replace("(1)", ".1");
                assert!(pages.iter().any(|page| page.file_name == file), "{file_name} refers to {name}");
            }
        }
    }

    #[test]
    fn the_first_page_has_the_options_of_every_command_and_the_others_refer_to_it() {
        for Page { file_name, text } in pages(Cli::command()).unwrap() {
            let text = String::from_utf8(text).unwrap().replace("\\-", "-");
            let is_first = file_name == "sakiyomi.1";
            for option in ["json", "quiet", "color"] {
                assert!(text.contains(&format!("--{option}")), "{file_name} does not name --{option}");
            }
            assert_eq!(text.contains("Print the result as one JSON object"), is_first, "{file_name}");
            assert_eq!(text.contains(".SH \"COMMON OPTIONS\"\n"), !is_first, "{file_name}");
        }
    }

    #[test]
    fn what_pages_refer_to_exists() {
        let cli = Cli::command();
        for Related { topic, documents, .. } in RELATED {
            assert!(cli.find_subcommand(topic).is_some(), "{topic}");
            for document in *documents {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
                assert!(path.exists(), "{topic}: {document}");
            }
        }
    }
}
