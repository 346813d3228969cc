//! Completion of command lines: the shells' scripts request completions of a word by `sakiyomi __complete INDEX WORD…`,
//! and complete files and commands themselves, because only they can quote them.
//!
//! clap_complete's scripts support only closed sets of values: they can offer neither the names of drives where a
//! file is also accepted, nor the keys of settings.

mod target;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Command;
use clap_complete::Shell;

use crate::console::{print_text, shown};
use target::Target;

/// First argument with which a shell requests completions.
const REQUEST: &str = "__complete";

/// Names that the shell itself adds to the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShellNames {
    Nothing,
    Files,
    Directories,
    Commands,
}

impl ShellNames {
    fn name(self) -> &'static str {
        match self {
            ShellNames::Nothing => "nothing",
            ShellNames::Files => "files",
            ShellNames::Directories => "directories",
            ShellNames::Commands => "commands",
        }
    }
}

/// A possible completion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    /// The whole word. If it ends in `=`, `:` or `,`, no space follows.
    word: String,
    description: String,
}

impl Candidate {
    fn new(word: impl Into<String>, description: impl Into<String>) -> Candidate {
        Candidate { word: word.into(), description: description.into() }
    }
}

/// The completions of a word.
#[derive(Debug, PartialEq, Eq)]
struct Candidates {
    also: ShellNames,
    candidates: Vec<Candidate>,
}

/// Handles a shell's request; `None` if the command line is not one.
pub(crate) fn requested(cli: impl FnOnce() -> Command) -> Option<Result<ExitCode>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == REQUEST).then(|| {
        let index = arguments.next().and_then(|index| index.to_str()?.parse().ok()).unwrap_or(0);
        let words: Vec<String> = arguments.map(lossy).collect();
        print_text(&as_lines(&answer(cli(), &words, index))).map(|()| ExitCode::SUCCESS)
    })
}

fn lossy(word: OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// Completes `words[index]` of a command line, whose first word is the program.
fn answer(cli: Command, words: &[String], index: usize) -> Candidates {
    let mut cli = shown(cli);
    cli.build();
    let before = &words[..index.min(words.len())];
    let current = words.get(index).map_or("", String::as_str);
    let target = Target::find(&cli, before.get(1..).unwrap_or_default(), current);
    let mut answer = values::of(&target, words);
    answer.candidates.retain(|candidate| candidate.word.starts_with(current));
    answer
}

/// Formats the output for the shell: a line with the names that the shell adds, then a line for each candidate: the
/// word, a tab, the description.
fn as_lines(answer: &Candidates) -> String {
    let mut text = format!("{}\n", answer.also.name());
    for Candidate { word, description } in &answer.candidates {
        let first = description.lines().next().unwrap_or_default().replace('\t', " ");
        text.push_str(&format!("{word}\t{first}\n"));
    }
    text
}

/// Returns the script that `shell` reads to complete the command line `cli`.
///
/// # Errors
/// Returns the errors of clap_complete.
pub(crate) fn script(shell: Shell, cli: Command) -> Result<String> {
    Ok(match shell {
        Shell::Bash => include_str!("completion/sakiyomi.bash").to_owned(),
        Shell::Zsh => include_str!("completion/sakiyomi.zsh").to_owned(),
        Shell::Fish => include_str!("completion/sakiyomi.fish").to_owned(),
        // Only options and closed sets of values.
        shell => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut shown(cli), "sakiyomi", &mut script);
            String::from_utf8(script)?
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command::Cli;

    /// Returns the completions at the end of a line, and the names that the shell adds.
    fn at_end(line: &str) -> (Vec<String>, ShellNames) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let answer = answer(Cli::command(), &words, words.len() - 1);
        (answer.candidates.into_iter().map(|candidate| candidate.word).collect(), answer.also)
    }

    fn offers(line: &str, words: &[&str]) {
        let (offered, _) = at_end(line);
        for word in words {
            assert!(offered.contains(&(*word).to_owned()), "{line}: {word} is not among {offered:?}");
        }
    }

    #[test]
    fn commands_and_options_are_offered_where_they_may_stand() {
        offers("sakiyomi ", &["sim", "sweep", "trace", "completions"]);
        assert_eq!(at_end("sakiyomi sw"), (vec!["sweep".to_owned()], ShellNames::Nothing));
        offers("sakiyomi trace generate ", &["zipf", "pc"]);
        offers("sakiyomi sim --", &["--drive", "--set", "--json", "--quiet", "--color", "--help"]);
        offers("sakiyomi -", &["-q", "-h", "-V", "--version"]);
        assert!(at_end("sakiyomi sim trace --drive x --jso").0 == ["--json"]);
        // A value is not a command, and options end at --.
        assert_eq!(at_end("sakiyomi --color ").0, ["auto", "always", "never"]);
        assert_eq!(at_end("sakiyomi run -- --"), (vec![], ShellNames::Commands));
    }

    #[test]
    fn drives_are_offered_beside_files() {
        for line in ["sakiyomi sim t --drive ", "sakiyomi sim --drive ", "sakiyomi drive show "] {
            let (words, also) = at_end(line);
            assert!(words.len() >= 7 && words.contains(&"nearline-18tb".to_owned()), "{line}: {words:?}");
            assert_eq!(also, ShellNames::Files, "{line}");
        }
        assert_eq!(at_end("sakiyomi sim t --drive near").0, ["nearline-18tb"]);
        assert_eq!(at_end("sakiyomi sim t --drive=near").0, ["--drive=nearline-18tb"]);
        offers("sakiyomi mount a b --drive fix", &["fixed:"]);
    }

    #[test]
    fn keys_of_settings_are_offered_with_the_names_they_take() {
        offers("sakiyomi sim t --set cache.seg", &["cache.segments.mode=", "cache.segments.count="]);
        offers("sakiyomi sweep t --vary queue.po", &["queue.policy="]);
        assert_eq!(
            at_end("sakiyomi sim t --set cache.segments.mode=").0,
            ["cache.segments.mode=fixed", "cache.segments.mode=adaptive"]
        );
        assert_eq!(at_end("sakiyomi sweep t --vary queue.policy=fcfs,sp").0, ["queue.policy=fcfs,sptf"]);
        assert_eq!(at_end("sakiyomi sim t --set queue.depth="), (vec![], ShellNames::Nothing));
        offers("sakiyomi sim t --set geometry.zones.3.s", &["geometry.zones.3.spares="]);
    }

    #[test]
    fn every_name_that_is_offered_for_a_key_is_accepted() {
        let mut accepted = 0;
        for key in at_end("sakiyomi sim t --set ").0 {
            for setting in at_end(&format!("sakiyomi sim t --set {key}")).0 {
                let (key, value) = setting.split_once('=').unwrap();
                // The keys of a seek curve depend on its kind: they change together.
                if key.starts_with("servo.seek") {
                    continue;
                }
                let mut drive = sakiyomi_drive::spec::builtin("nearline-18tb").unwrap().spec();
                drive.set(key, value).unwrap_or_else(|error| panic!("{setting}: {error}"));
                accepted += 1;
            }
        }
        assert!(accepted > 40, "{accepted}");
    }

    #[test]
    fn formats_methods_and_kinds_are_offered() {
        offers("sakiyomi trace info t --format s", &["sakiyomi", "spc", "systor17"]);
        assert_eq!(at_end("sakiyomi trace convert a b --to p").0, ["parquet"]);
        offers("sakiyomi probe --method read,u", &["read,uring:", "read,uring-sqpoll:"]);
        offers("sakiyomi probe --buffers best,", &["best,ordinary"]);
        assert_eq!(at_end("sakiyomi sim t --chunk b").0, ["bytes="]);
        offers("sakiyomi trace generate zipf t --arrival ", &["poisson:", "bursty:"]);
        offers("sakiyomi completions ", &["bash", "zsh", "fish"]);
        offers("sakiyomi man trace ", &["convert", "generate"]);
        offers("sakiyomi help trace ", &["convert", "generate"]);
        offers("sakiyomi help ", &["options", "sim", "trace"]);
        offers("sakiyomi run --limit ", &["auto"]);
    }

    #[test]
    fn paths_and_commands_are_left_to_the_shell() {
        for (line, also) in [
            ("sakiyomi sim ", ShellNames::Files),
            ("sakiyomi sim t --drive d --out ", ShellNames::Directories),
            ("sakiyomi mount ", ShellNames::Directories),
            ("sakiyomi mount files ", ShellNames::Directories),
            ("sakiyomi umount ", ShellNames::Directories),
            ("sakiyomi iorate set 1 ", ShellNames::Directories),
            ("sakiyomi iorate run 20 /mnt -- ", ShellNames::Commands),
            ("sakiyomi run ", ShellNames::Commands),
            ("sakiyomi run -- gz", ShellNames::Commands),
            ("sakiyomi run -- gzip -k ", ShellNames::Files),
            ("sakiyomi run gzip -k ", ShellNames::Files),
            ("sakiyomi wc -lw a ", ShellNames::Files),
            ("sakiyomi grep -m 5 pattern ", ShellNames::Files),
            ("sakiyomi compare a ", ShellNames::Files),
            ("sakiyomi trace convert a ", ShellNames::Files),
            ("sakiyomi drive fit t --output ", ShellNames::Files),
            ("sakiyomi scenario run ", ShellNames::Files),
            ("sakiyomi sim a b ", ShellNames::Nothing),
            ("sakiyomi sim t --warm-up ", ShellNames::Nothing),
        ] {
            assert_eq!(at_end(line).1, also, "{line}");
        }
    }

    #[test]
    fn keys_of_a_scenario_are_those_of_its_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/kochi2023-accuracy.toml");
        offers(&format!("sakiyomi scenario run {file} --vary "), &["memory.size=", "case.computer="]);
        offers(&format!("sakiyomi scenario run {file} --vary process.target."), &["process.target.rate="]);
        offers(&format!("sakiyomi scenario run {file} --vary case.computer="), &["case.computer=PC1"]);
        offers(
            &format!("sakiyomi scenario run {file} --vary drive.set.queue."),
            &["drive.set.queue.policy="],
        );
        assert!(
            at_end("sakiyomi scenario run missing.toml --vary ")
                .0
                .contains(&"drive.set.cache.size=".to_owned())
        );
    }

    #[test]
    fn any_line_has_an_answer() {
        for line in [
            "",
            "sakiyomi",
            "sakiyomi nothing ",
            "sakiyomi sim -- --",
            "x --drive",
            "sakiyomi --drive= ",
            "sakiyomi -qz",
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            for index in 0..=words.len() + 1 {
                let _ = as_lines(&answer(Cli::command(), &words, index));
            }
        }
    }
}
