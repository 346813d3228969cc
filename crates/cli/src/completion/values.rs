//! Values that complete an argument.

use std::fs;

use clap::{Arg, Command};
use sakiyomi_drive::spec::{BUILTIN, Explanation, explain};
use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_scenario::Scenario;
use sakiyomi_trace::{Format, OutFormat};
use serde_json::Value;

use super::target::{Place, Target};
use super::{Candidate, Candidates, ShellNames};
use crate::command::help::OPTIONS_PAGE;

/// Commands on tables, whose formats differ from those of traces.
const TABLES: [&str; 4] = ["sort", "join", "aggregate", "query"];

/// Returns all completions of a target, not yet filtered by the beginning of the word.
pub(super) fn of(target: &Target<'_>, words: &[String]) -> Candidates {
    match target.place {
        Place::Option => Candidates { also: ShellNames::Nothing, candidates: options(target.command) },
        Place::Value { option, prefix } => {
            let value = &target.current[prefix.len()..];
            let mut answer = of_argument(target, option, 0, value, words);
            answer.candidates.iter_mut().for_each(|candidate| candidate.word.insert_str(0, prefix));
            answer
        }
        Place::Positional { argument, index } => {
            let mut candidates = below(target.command);
            let mut also = ShellNames::Nothing;
            if let Some(argument) = argument {
                let answer = of_argument(target, argument, index, target.current, words);
                candidates.extend(answer.candidates);
                also = answer.also;
            }
            Candidates { also, candidates }
        }
    }
}

fn below(command: &Command) -> Vec<Candidate> {
    let described = |below: &Command| {
        Candidate::new(below.get_name(), below.get_about().map(ToString::to_string).unwrap_or_default())
    };
    command.get_subcommands().filter(|below| !below.is_hide_set()).map(described).collect()
}

fn options(command: &Command) -> Vec<Candidate> {
    let arguments =
        command.get_arguments().filter(|argument| !argument.is_positional() && !argument.is_hide_set());
    arguments
        .flat_map(|argument| {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let long = argument.get_long().map(|long| format!("--{long}"));
            let short = argument.get_short().map(|short| format!("-{short}"));
            [long, short].into_iter().flatten().map(move |word| Candidate::new(word, help.clone()))
        })
        .collect()
}

/// Returns completions of the `index`-th word of an argument.
fn of_argument(
    target: &Target<'_>,
    argument: &Arg,
    index: usize,
    value: &str,
    words: &[String],
) -> Candidates {
    let only = |candidates| Candidates { also: ShellNames::Nothing, candidates };
    match (argument.get_id().as_str(), target.path.as_str()) {
        ("drive", "mount" | "serve") => {
            let fixed = Candidate::new("fixed:", "latency=TIME,parallel=N,… : a device without a mechanism");
            Candidates { also: ShellNames::Files, candidates: drives().chain([fixed]).collect() }
        }
        ("drive", _) => Candidates { also: ShellNames::Files, candidates: drives().collect() },
        ("vary", "scenario run") => only(scenario_keys(value, words)),
        ("set", _) => only(drive_keys("", value, false)),
        ("vary", _) => only(drive_keys("", value, true)),
        ("format", path) if path.split(' ').next().is_some_and(|command| TABLES.contains(&command)) => {
            closed_set(argument, value)
        }
        ("format", _) => {
            only(Format::ALL.map(|format| Candidate::new(format.name(), format.description())).to_vec())
        }
        ("to", _) => only(OutFormat::ALL.map(|format| Candidate::new(format.name(), "")).to_vec()),
        ("method", "probe") => only(in_list(value, methods())),
        ("method", path) if path.split(' ').next().is_some_and(|command| TABLES.contains(&command)) => {
            only(methods().into_iter().filter(|method| is_for_tables(&method.word)).collect())
        }
        ("method", _) => only(methods().into_iter().filter(|method| method.word != "null").collect()),
        ("chunk", _) => only(kinds(&["time=", "bytes=", "commands="])),
        ("arrival", _) => only(kinds(&["closed:", "every:", "poisson:", "bursty:"])),
        ("limit", "run") => only(vec![Candidate::new("auto", "As far as it helps")]),
        ("command", "man") => only(below_named(target.program, &target.operands)),
        ("command", "help") => {
            let page = Candidate::new(OPTIONS_PAGE, "Options of every command");
            let page = Some(page).filter(|_| target.operands.is_empty());
            only(below_named(target.program, &target.operands).into_iter().chain(page).collect())
        }
        ("command", _) => {
            only(Vec::new()).with(if index == 0 { ShellNames::Commands } else { ShellNames::Files })
        }
        _ => closed_set(argument, value),
    }
}

impl Candidates {
    fn with(self, also: ShellNames) -> Candidates {
        Candidates { also, ..self }
    }
}

/// Returns the values that clap knows, or paths if the argument's name implies a path.
fn closed_set(argument: &Arg, value: &str) -> Candidates {
    let known = argument.get_value_parser().possible_values();
    let known = known.filter(|_| argument.get_action().takes_values());
    let candidates: Vec<Candidate> = known
        .into_iter()
        .flatten()
        .filter(|known| !known.is_hide_set())
        .map(|known| {
            let help = known.get_help().map(ToString::to_string).unwrap_or_default();
            Candidate::new(known.get_name(), help)
        })
        .collect();
    let candidates =
        if argument.get_value_delimiter().is_some() { in_list(value, candidates) } else { candidates };
    let names = argument.get_value_names().unwrap_or_default();
    let any_is = |wanted: &[&str]| names.iter().any(|name| wanted.contains(&name.as_str()));
    let also = if any_is(&["DIR", "BACKING"]) {
        ShellNames::Directories
    } else if any_is(&["FILE", "FILE.diskspecs", "TRACE", "INTO", "PATH", "A", "B", "PATTERN"])
        && argument.get_id() != "regexp"
    {
        ShellNames::Files
    } else {
        ShellNames::Nothing
    };
    Candidates { also, candidates }
}

/// Returns candidates for the last of several comma-separated values.
fn in_list(value: &str, candidates: Vec<Candidate>) -> Vec<Candidate> {
    let before = value.rfind(',').map_or("", |comma| &value[..=comma]);
    let with = |candidate: Candidate| Candidate { word: format!("{before}{}", candidate.word), ..candidate };
    candidates.into_iter().map(with).collect()
}

fn drives() -> impl Iterator<Item = Candidate> {
    BUILTIN.iter().map(|drive| Candidate::new(drive.id, drive.spec().name))
}

fn kinds(kinds: &[&str]) -> Vec<Candidate> {
    kinds.iter().map(|kind| Candidate::new(*kind, "")).collect()
}

/// Returns the I/O methods; those with a depth end in a colon.
fn methods() -> Vec<Candidate> {
    let has_depth = |kind: EngineKind| format!("{}:2", kind.name()).parse::<EngineSpec>().is_ok();
    let word = |kind: EngineKind| format!("{}{}", kind.name(), if has_depth(kind) { ":" } else { "" });
    EngineKind::ALL.into_iter().map(|kind| Candidate::new(word(kind), "")).collect()
}

/// Returns whether tables can be read and written by a method.
fn is_for_tables(method: &str) -> bool {
    let kinds = EngineKind::ALL.into_iter().filter(|kind| kind.uses_buffers() && *kind != EngineKind::Null);
    kinds.map(EngineKind::name).any(|name| name == method.trim_end_matches(':'))
}

/// Returns the commands below the one that the words after `man` name so far.
fn below_named(program: &Command, words: &[&str]) -> Vec<Candidate> {
    let named = words.iter().try_fold(program, |command, word| command.find_subcommand(word));
    named.map(below).unwrap_or_default()
}

/// Returns the keys of a drive after `prefix`, each with `=`; after a complete key, the names that it accepts.
fn drive_keys(prefix: &str, value: &str, several: bool) -> Vec<Candidate> {
    let typed = value.strip_prefix(prefix).unwrap_or_default();
    let Some((key, names)) = typed.split_once('=') else {
        let described = |entry: &Explanation| {
            Candidate::new(
                format!("{prefix}{}=", with_zone(entry.key, typed)),
                format!("{} ({})", entry.meaning, entry.values),
            )
        };
        return explain().iter().filter(|entry| !entry.values.starts_with("table")).map(described).collect();
    };
    let before = names.rfind(',').filter(|_| several).map_or("", |comma| &names[..=comma]);
    let known = explain().iter().find(|entry| entry.matches(key)).map_or("", |entry| entry.values);
    let known: Vec<&str> = known.split(", ").collect();
    let is_name = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    // Otherwise it is a description, such as `duration, 0: never`.
    if known.len() < 2 || !known.iter().all(is_name) {
        return Vec::new();
    }
    known.iter().map(|name| Candidate::new(format!("{prefix}{key}={before}{name}"), "")).collect()
}

/// Returns a key with the number of the zone that is typed, or of the first one.
fn with_zone(key: &str, typed: &str) -> String {
    let number = typed.strip_prefix("geometry.zones.").and_then(|rest| rest.split('.').next());
    let number =
        number.filter(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    key.replace('*', number.unwrap_or("0"))
}

/// Returns the keys of the experiment named among the words, and the keys of its drive.
fn scenario_keys(value: &str, words: &[String]) -> Vec<Candidate> {
    const DRIVE: &str = "drive.set.";
    let mut keys = drive_keys(DRIVE, value, true);
    let files = words.iter().filter(|word| word.ends_with(".toml"));
    let read = |file: &String| Scenario::from_toml(&fs::read_to_string(file).ok()?, file).ok();
    let Some(scenario) = files.into_iter().find_map(read) else { return keys };
    for (group, names) in &scenario.case {
        let key = format!("case.{group}=");
        match value.strip_prefix(&key) {
            None => keys.push(Candidate::new(key, "table of keys that are set together")),
            Some(typed) => {
                let names = names.keys().map(|name| Candidate::new(name, "")).collect();
                let with_key = |name: Candidate| Candidate { word: format!("{key}{}", name.word), ..name };
                keys.extend(in_list(typed, names).into_iter().map(with_key));
            }
        }
    }
    if let Ok(Value::Object(tables)) = serde_json::to_value(&scenario) {
        let own =
            tables.iter().filter(|(name, _)| !["name", "case", "vary", "published"].contains(&name.as_str()));
        own.for_each(|(name, table)| flatten(name, table, &mut keys));
    }
    keys
}

/// Adds the keys of a table, each with its value as the description.
fn flatten(path: &str, value: &Value, keys: &mut Vec<Candidate>) {
    match value {
        Value::Object(table) => {
            table.iter().for_each(|(name, value)| flatten(&format!("{path}.{name}"), value, keys));
        }
        Value::Array(items) => {
            for item in items {
                if let Some(name) = item["name"].as_str() {
                    flatten(&format!("{path}.{name}"), item, keys);
                }
            }
        }
        Value::Null => {}
        Value::String(text) => keys.push(Candidate::new(format!("{path}="), text)),
        other => keys.push(Candidate::new(format!("{path}="), other.to_string())),
    }
}
