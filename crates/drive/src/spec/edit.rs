//! Reading a drive from TOML, writing it back, and changing single keys: what `--drive FILE` and `--set` do.

use toml::{Table, Value};

use super::{DriveSpec, SpecError, explain};

impl DriveSpec {
    /// Reads and checks a drive. `origin` names the text in errors: a file, or a built-in drive.
    ///
    /// # Errors
    /// [`SpecError::Malformed`] with line and column, or [`SpecError::Impossible`].
    pub fn from_toml(text: &str, origin: &str) -> Result<DriveSpec, SpecError> {
        let spec: DriveSpec = toml::from_str(text).map_err(|error| SpecError::Malformed {
            origin: origin.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        match spec.check() {
            Err(SpecError::Impossible { key, problem, .. }) => {
                Err(SpecError::Impossible { drive: origin.to_owned(), key, problem })
            }
            other => other.map(|()| spec),
        }
    }

    /// The drive as TOML, every key written out; reads back to the same drive.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a drive is plain data")
    }

    /// Changes one key, written as a path: `cache.read_ahead.max`, `geometry.zones.0.offset`. The value is written as
    /// in TOML, but sizes, durations and names need no quotes. The result is *not* checked, so that several keys can
    /// be changed one after another; call [`check`](DriveSpec::check) at the end. A key of an optional table that is
    /// absent leaves the table's other keys as they hold without it.
    ///
    /// # Errors
    /// [`SpecError::UnknownKey`], or [`SpecError::Malformed`] where the value does not fit the key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let malformed = |message: String| SpecError::Malformed { origin: format!("{key}={value}"), message };
        let mut table = Table::try_from(&*self).map_err(|error| malformed(error.to_string()))?;
        spell_out(&mut table, key);
        *place(&mut table, key)? = literal(value);
        *self = table.try_into().map_err(|error: toml::de::Error| malformed(error.message().to_owned()))?;
        Ok(())
    }

    /// The values of all keys that can be set, as `(key, value)` in the order of [`explain`]; zones by their number.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, String)> {
        let table = Table::try_from(self).expect("a drive is plain data");
        let mut entries = Vec::new();
        flatten("", &Value::Table(table), &mut entries);
        entries
    }
}

/// Optional tables: the table around each, its name, and the name of what holds in its place while it is absent.
const STAND_INS: [(&str, &str, &str); 2] =
    [("interface.overhead", "write_data", "write_miss"), ("servo", "seek_write", "seek")];

/// Writes out the optional table that `key` lies in, where it is absent, as what holds in its place: one of its keys can
/// be set alone then.
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

/// The value as TOML has it, or as text where it is none: `1MiB` needs no quotes.
fn literal(value: &str) -> Value {
    let parsed: Option<Table> = toml::from_str(&format!("value = {value}")).ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(value.to_owned()))
}

/// The place that `key` names, made where it is a known key that is not there yet.
fn place<'a>(table: &'a mut Table, key: &str) -> Result<&'a mut Value, SpecError> {
    let unknown = || SpecError::UnknownKey { key: key.to_owned(), similar: similar(key) };
    if !explain().iter().any(|entry| entry.matches(key)) {
        return Err(unknown());
    }
    let (parents, leaf) = key.rsplit_once('.').unwrap_or(("", key));
    let mut at = table;
    let mut parts = parents.split('.').filter(|part| !part.is_empty());
    while let Some(part) = parts.next() {
        let child = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
        // An overhead that is one duration becomes two before one of the two is set.
        if part != "zones" && !child.is_table() {
            *child = both_ways(child);
        }
        at = match child {
            Value::Table(table) => table,
            Value::Array(items) => parts
                .next()
                .and_then(|index| items.get_mut(index.parse::<usize>().ok()?))
                .and_then(Value::as_table_mut)
                .ok_or_else(unknown)?,
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

/// Known keys that share the last word, or whose last word begins like it.
fn similar(key: &str) -> Vec<String> {
    let last = key.rsplit('.').next().unwrap_or(key);
    let close = |known: &str| {
        let known_last = known.rsplit('.').next().unwrap_or(known);
        known_last == last
            || (last.len() >= 3 && (known_last.starts_with(last) || last.starts_with(known_last)))
            || known.replace('.', "_") == key.replace('.', "_")
    };
    explain().iter().map(|entry| entry.key).filter(|known| close(known)).take(3).map(str::to_owned).collect()
}
