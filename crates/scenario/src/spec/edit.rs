//! Reading an experiment from TOML, and changing single keys of it: what `--vary` does.

use sakiyomi_drive::document::{Fault, FaultKind, from_table, from_text, line_of_key, typed_value};
use sakiyomi_model::suggest::{did_you_mean, similar};
use toml::{Table, Value};

use super::{Scenario, SpecError};

/// Prefix of a key of the drive itself, which contains dots.
const DRIVE: &str = "drive.set.";
/// Prefix of a group of keys that are set together.
const CASE: &str = "case.";

impl Scenario {
    /// Reads and checks an experiment. `origin` names the text in errors.
    ///
    /// # Errors
    /// [`SpecError::Malformed`] with line and column, or [`SpecError::Impossible`].
    pub fn from_toml(text: &str, origin: &str) -> Result<Scenario, SpecError> {
        let scenario: Scenario = from_text(text, origin, Fault::problem).map_err(SpecError::Malformed)?;
        scenario.check().map(|()| scenario).map_err(|error| match error {
            SpecError::Impossible { key, problem } => {
                SpecError::Malformed(format!("{origin}:{}: {key}: {problem}", line_of_key(text, &key)))
            }
            other => other,
        })
    }

    /// Returns the experiment as TOML; reads back to the same one.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("an experiment is plain data")
    }

    /// Changes one key, written as a path: `memory.size`, `process.gzip.compute`, `job.wc.method` (by name, or by number
    /// from 0), `drive.set.cache.read_ahead.max`; or a group of keys that are set together, `case.computer`. Sizes,
    /// durations and names need no quotes. The result is *not* checked, so that several keys can be changed one after
    /// another.
    ///
    /// # Errors
    /// [`SpecError::Malformed`] where there is no such key, or the value does not fit it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        if let Some(group) = key.strip_prefix(CASE) {
            return self.set_case(group, value);
        }
        if let Some(figure) = key.strip_prefix(DRIVE) {
            self.drive.set.insert(figure.to_owned(), value.to_owned());
            return Ok(());
        }
        let malformed = |problem: String| SpecError::Malformed(format!("{key}={value}: {problem}"));
        let mut table = Table::try_from(&*self).expect("an experiment is plain data");
        let at = self.place(&mut table, key).map_err(malformed)?;
        *at = typed_value(at, value);
        *self = from_table(&table).map_err(|fault| malformed(problem(key, &fault)))?;
        Ok(())
    }

    /// Sets all keys of a case.
    fn set_case(&mut self, group: &str, name: &str) -> Result<(), SpecError> {
        let malformed = |problem: String| SpecError::Malformed(format!("{CASE}{group}={name}: {problem}"));
        let cases = self.case.get(group).cloned().unwrap_or_default();
        let Some(keys) = cases.get(name) else {
            let names: Vec<&str> = cases.keys().map(String::as_str).collect();
            return Err(malformed(match names.as_slice() {
                [] => format!("there are no such cases; write a [case.{group}.{name}]"),
                names => {
                    let near = did_you_mean(&similar(name, names.iter().copied()));
                    format!("no such case; the cases are {}{near}", names.join(", "))
                }
            }));
        };
        for (key, value) in keys {
            if key.starts_with(CASE) {
                return Err(malformed(format!("`{key}`: a case cannot set another")));
            }
            self.set(key, value)?;
        }
        Ok(())
    }

    /// Returns the place that `key` names; whether there is such a key is found out when the table is read back.
    fn place<'a>(&self, table: &'a mut Table, key: &str) -> Result<&'a mut Value, String> {
        let (parents, leaf) = key.rsplit_once('.').unwrap_or(("", key));
        let mut at = table;
        let mut parts = parents.split('.').filter(|part| !part.is_empty());
        while let Some(part) = parts.next() {
            let child = at.entry(part).or_insert_with(|| match part {
                "process" | "job" => Value::Array(Vec::new()),
                _ => Value::Table(Table::new()),
            });
            at = match child {
                Value::Table(table) => table,
                Value::Array(items) => {
                    let name = parts.next().unwrap_or(leaf);
                    let index = self.called(part, name);
                    let item = index.and_then(|index| items.get_mut(index)).and_then(Value::as_table_mut);
                    item.ok_or_else(|| self.not_called(part, name))?
                }
                _ => return Err(format!("`{part}` has no keys")),
            };
        }
        Ok(at.entry(leaf).or_insert(Value::Boolean(false)))
    }

    fn not_called(&self, kind: &str, name: &str) -> String {
        let names: Vec<&str> = match kind {
            "job" => self.job.iter().map(|job| job.name.as_str()).collect(),
            _ => self.process.iter().map(|process| process.name.as_str()).collect(),
        };
        let known = match names.as_slice() {
            [] => "there are none".to_owned(),
            [one] => format!("there is {one}"),
            names => format!("there are {}", names.join(", ")),
        };
        format!("no {kind} is called `{name}`; {known}{}", did_you_mean(&similar(name, names)))
    }

    fn called(&self, kind: &str, name: &str) -> Option<usize> {
        let by_name = match kind {
            "job" => self.job.iter().position(|job| job.name == name),
            _ => self.process.iter().position(|process| process.name == name),
        };
        by_name.or_else(|| name.parse().ok())
    }
}

/// Describes the fault in the value of `key`; the message before it names the value.
fn problem(key: &str, fault: &Fault) -> String {
    let typed: Vec<&str> = key.split('.').collect();
    match &fault.kind {
        FaultKind::Value { expected, .. } if fault.path.len() == typed.len() => {
            format!("expected {expected}")
        }
        // Processes and jobs by the names that were typed, not by their numbers.
        FaultKind::UnknownKey { key: unknown, known }
            if typed.get(fault.path.len()) == Some(&unknown.as_str()) =>
        {
            let (parents, rest) = (&typed[..fault.path.len()], &typed[fault.path.len() + 1..]);
            let whole = |name: &str| [parents, &[name], rest].concat().join(".");
            let near: Vec<String> = similar(unknown, known.iter().copied()).into_iter().map(whole).collect();
            let known =
                if near.is_empty() { format!("; valid keys: {}", known.join(", ")) } else { String::new() };
            format!("unknown key{}{known}", did_you_mean(&near))
        }
        FaultKind::Other(sentence) if fault.path.len() == typed.len() => sentence.clone(),
        _ => fault.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Distance;
    use sakiyomi_model::Bytes;

    #[test]
    fn keys_are_set_by_their_path() {
        let text = "name = 'x'\n[drive]\nmodel = 'deskstar-7k250'\n[[process]]\nname = 'gzip'\n";
        let mut scenario = Scenario::from_toml(text, "x.toml").unwrap();
        for (key, value) in [
            ("memory.size", "2GiB"),
            ("process.gzip.size", "0.61GB"),
            ("process.0.pause.every", "1MiB"),
            ("prefetch.limit", "4KiB"),
            ("drive.set.cache.read_ahead.max", "1MiB"),
        ] {
            if key.ends_with("every") {
                scenario.process[0].pause =
                    Some(crate::spec::Pause { every: Bytes(1), length: sakiyomi_model::Nanos(5) });
            }
            scenario.set(key, value).unwrap();
        }
        assert_eq!(scenario.memory.size, Bytes(2 << 30));
        assert_eq!(scenario.process[0].size, Bytes(610_000_000));
        assert_eq!(scenario.process[0].pause.unwrap().every, Bytes(1 << 20));
        assert_eq!(scenario.prefetch.limit, Distance::Fixed(Bytes(4096)));
        assert_eq!(scenario.drive.set["cache.read_ahead.max"], "1MiB");
        assert_eq!(Scenario::from_toml(&scenario.to_toml(), "again").unwrap(), scenario);
    }

    #[test]
    fn a_case_sets_all_its_keys_or_says_which_there_are() {
        let text = "name = 'x'\n[drive]\nmodel = 'deskstar-7k250'\n[[process]]\nname = 'p'\n\
                    [case.computer.old]\n'drive.model' = 'scorpio-wd10tpvx'\n'drive.set.queue.policy' = 'fcfs'\n\
                    [case.computer.odd]\n'case.computer' = 'old'\n";
        let mut scenario = Scenario::from_toml(text, "x.toml").unwrap();
        let error = |scenario: &mut Scenario, key: &str, value: &str| {
            scenario.set(key, value).unwrap_err().to_string()
        };
        assert!(error(&mut scenario, "case.computer", "new").contains("the cases are odd, old"));
        assert!(error(&mut scenario, "case.pattern", "new").contains("write a [case.pattern.new]"));
        assert!(error(&mut scenario, "case.computer", "odd").contains("cannot set another"));
        scenario.set("case.computer", "old").unwrap();
        assert_eq!(scenario.drive.model.as_deref(), Some("scorpio-wd10tpvx"));
        assert_eq!(scenario.drive.set["queue.policy"], "fcfs");
    }
}
