//! Parsing, printing and changing a drive: implements `--drive FILE` and `--set`.

use sakiyomi_model::suggest::similar_keys;
use toml::{Table, Value};

use super::{DriveSpec, Explanation, SpecError, explain};
use crate::document::{Fault, FaultKind, from_table, from_text, line_of_key, typed_value};

impl DriveSpec {
    /// Parses and validates a drive. `origin` names the text in errors: a file, or a built-in drive.
    ///
    /// # Errors
    /// [`SpecError::Malformed`] with the line, or [`SpecError::Impossible`].
    pub fn from_toml(text: &str, origin: &str) -> Result<DriveSpec, SpecError> {
        let spec: DriveSpec = from_text(text, origin, describe).map_err(SpecError::Malformed)?;
        spec.check().map(|()| spec).map_err(|error| match error {
            SpecError::Impossible { key, problem, .. } => {
                let drive = format!("{origin}:{}", line_of_key(text, &key));
                SpecError::Impossible { drive, key, problem }
            }
            other => other,
        })
    }

    /// Returns the drive as TOML with every key; it parses back to the same drive.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a drive is plain data")
    }

    /// Changes one key, given as a path: `cache.read_ahead.max`, `geometry.zones.0.offset`. The value has TOML syntax,
    /// but sizes, durations and names need no quotes. The result is *not* validated, so that several keys can be
    /// changed one after another; [`with_settings`](DriveSpec::with_settings) does both. Setting a key of an absent
    /// optional table keeps the defaults of its other keys.
    ///
    /// # Errors
    /// [`SpecError::UnknownKey`], or [`SpecError::Malformed`] if the value does not fit the key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let mut table = Table::try_from(&*self).expect("a drive is plain data");
        spell_out(&mut table, key);
        let place = place(&mut table, key)?;
        *place = typed_value(place, value);
        *self = from_table(&table).map_err(|fault| {
            let problem = match (&fault.kind, fault.key() == key) {
                // The message contains the value found already.
                (FaultKind::Value { .. }, true) => format!("expected {}", expected(&fault)),
                (_, true) => describe(&fault),
                (_, false) => format!("{}: {}", fault.key(), describe(&fault)),
            };
            SpecError::Malformed(format!("{key}={value}: {problem}"))
        })?;
        Ok(())
    }

    /// Returns the drive with all of `settings` applied as by [`set`](DriveSpec::set), and validated.
    ///
    /// # Errors
    /// Returns the errors of [`set`](DriveSpec::set) and [`check`](DriveSpec::check); [`SpecError::Impossible`] if a changed sector size
    /// would change the drive's capacity unintentionally.
    pub fn with_settings<'a>(
        &self,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<DriveSpec, SpecError> {
        let mut spec = self.clone();
        settings.into_iter().try_for_each(|(key, value)| spec.set(key, value))?;
        spec.check()?;
        self.check_recording_density(&spec)?;
        Ok(spec)
    }

    /// Returns all keys with their values, in the order of [`explain`]; zones by number.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, String)> {
        let table = Table::try_from(self).expect("a drive is plain data");
        let mut entries = Vec::new();
        flatten("", &Value::Table(table), &mut entries);
        entries
    }
}

/// Optional tables: parent table, name, and the table whose values apply while it is absent.
const STAND_INS: [(&str, &str, &str); 2] =
    [("interface.overhead", "write_data", "write_miss"), ("servo", "seek_write", "seek")];

/// Inserts the absent optional table that contains `key`, as a copy of its stand-in, so that one of its keys can be set
/// alone.
fn spell_out(table: &mut Table, key: &str) {
    for (around, absent, stand_in) in STAND_INS {
        let around_it = around.split('.').try_fold(&mut *table, |at, part| at.get_mut(part)?.as_table_mut());
        let Some(around_it) = around_it.filter(|_| key.starts_with(&format!("{around}.{absent}."))) else {
            continue;
        };
        if let Some(value) = around_it.get(stand_in).cloned() {
            around_it.entry(absent).or_insert(value);
        }
    }
}

/// Returns the value that `key` names; inserts it if the key is known but absent.
fn place<'a>(table: &'a mut Table, key: &str) -> Result<&'a mut Value, SpecError> {
    let unknown = || unknown(key);
    if !explain().iter().any(|entry| entry.matches(key)) {
        return Err(unknown());
    }
    let no_zone = |typed: &str, zones: usize| {
        let last = zones.saturating_sub(1);
        SpecError::Malformed(format!("{key}: there is no zone {typed}; the drive has zones 0 to {last}"))
    };
    let (parents, leaf) = key.rsplit_once('.').unwrap_or(("", key));
    let mut at = table;
    let mut parts = parents.split('.').filter(|part| !part.is_empty());
    while let Some(part) = parts.next() {
        let child = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
        // An overhead given as one duration becomes two before one of them is set.
        if part != "zones" && !child.is_table() {
            *child = both_ways(child);
        }
        at = match child {
            Value::Table(table) => table,
            Value::Array(items) => {
                let (index, zones) = (parts.next().unwrap_or_default(), items.len());
                let zone = index.parse().ok().and_then(|index: usize| items.get_mut(index));
                zone.and_then(Value::as_table_mut).ok_or_else(|| no_zone(index, zones))?
            }
            _ => return Err(unknown()),
        };
    }
    Ok(at.entry(leaf).or_insert(Value::Boolean(false)))
}

fn both_ways(single: &Value) -> Value {
    Value::Table(
        ["after_read", "after_write"].map(|key| (key.to_owned(), single.clone())).into_iter().collect(),
    )
}

fn flatten(path: &str, value: &Value, entries: &mut Vec<(String, String)>) {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Table(table) => table.iter().for_each(|(name, child)| flatten(&join(name), child, entries)),
        Value::Array(items) if items.first().is_some_and(Value::is_table) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, child)| flatten(&join(&index.to_string()), child, entries));
        }
        Value::String(text) => entries.push((path.to_owned(), text.clone())),
        other => entries.push((path.to_owned(), other.to_string())),
    }
}

/// Keys explained by those of another table: the seek curve for writes.
const AS_SEEK: (&str, &str) = ("servo.seek_write.", "servo.seek.");

/// Iterates over all keys that can be set, those of the seek curve for writes included.
fn known_keys() -> impl Iterator<Item = String> {
    let before_writes = explain().iter().filter_map(|entry| entry.key.strip_prefix(AS_SEEK.1));
    let before_writes = before_writes.map(|key| format!("{}{key}", AS_SEEK.0));
    explain().iter().map(|entry| entry.key.to_owned()).chain(before_writes)
}

/// Returns known keys similar to `key`.
fn similar(key: &str) -> Vec<String> {
    let known: Vec<String> = known_keys().collect();
    similar_keys(key, known.iter().map(String::as_str))
}

/// Returns the error for a key that does not exist, or that is a table.
fn unknown(key: &str) -> SpecError {
    let (start, depth) = (format!("{key}."), key.split('.').count());
    let mut below: Vec<String> = known_keys()
        .filter(|known| known.starts_with(&start) || matches_part(known, key))
        .filter_map(|known| known.split('.').nth(depth).map(str::to_owned))
        .collect();
    below.dedup();
    if below.is_empty() {
        SpecError::UnknownKey { key: key.to_owned(), similar: similar(key) }
    } else {
        let below: Vec<&str> = below.iter().map(|word| if word == "*" { "0" } else { word }).collect();
        let problem = format!("a table, and its keys are set one by one: {}", below.join(", "));
        SpecError::Malformed(format!("{key}: {problem}"))
    }
}

/// Returns whether `part` is a prefix of the path `known`, in which `*` matches any number.
fn matches_part(known: &str, part: &str) -> bool {
    let mut words = known.split('.');
    part.split('.').all(|typed| {
        words
            .next()
            .is_some_and(|word| word == typed || word == "*" && typed.bytes().all(|b| b.is_ascii_digit()))
    }) && words.next().is_some()
}

fn explanation(key: &str) -> Option<&'static Explanation> {
    let as_seek = key.strip_prefix(AS_SEEK.0).map(|rest| format!("{}{rest}", AS_SEEK.1));
    let key = as_seek.as_deref().unwrap_or(key);
    explain().iter().find(|entry| entry.matches(key))
}

/// Describes a fault without naming its key.
fn describe(fault: &Fault) -> String {
    let key = fault.key();
    match &fault.kind {
        FaultKind::Value { found, .. } => format!("{found}; expected {}", expected(fault)),
        FaultKind::UnknownKey { .. } => match unknown(&key) {
            SpecError::Malformed(problem) => problem,
            error => error.to_string(),
        },
        FaultKind::MissingKey(_) => match explanation(&key) {
            Some(entry) => format!("it is missing; give {} ({})", entry.expected(), entry.meaning),
            None => "it is missing".to_owned(),
        },
        FaultKind::Other(sentence) => sentence.clone(),
    }
}

/// Returns the values that a key accepts, from its type and its explanation.
fn expected(fault: &Fault) -> String {
    let FaultKind::Value { expected, .. } = &fault.kind else { return String::new() };
    match explanation(&fault.key()) {
        // A list of names already contains the most similar names.
        Some(entry) if !expected.starts_with("one of ") => {
            let whole = expected.starts_with("a whole number");
            let expected = entry.expected();
            if whole { expected.replacen("a number", "a whole number", 1) } else { expected }
        }
        _ => expected.clone(),
    }
}
