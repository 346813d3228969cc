//! The definition of a pipeline, as lines that do not depend on how its file is written: a snapshot has them, so that
//! another pipeline does not continue from it.

use toml::de::{DeTable, DeValue};

use super::shown;

/// Keys that may change between a snapshot and the resumption: they change neither the meaning of a state nor the form of
/// an output.
const NEUTRAL_KEYS: [&str; 7] = ["bad", "overload", "idle", "direct", "cost", "share", "selectivity"];

/// A key whose presence is a line, but not its value: the states of replicas are saved by bins, whatever their number.
const REPLICAS_KEY: &str = "replicas";

/// Returns the keys of all sources, steps and sinks with their values, each as `source.log.from = "stdin"`, in the
/// order of the lines. A step is named as the pipeline names it.
pub(super) fn lines(root: &DeTable<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for (section, value) in root {
        let section = section.get_ref();
        match value.get_ref() {
            DeValue::Table(tables) => {
                for (name, table) in tables {
                    add(&format!("{section}.{}", name.get_ref()), table.get_ref(), &mut lines);
                }
            }
            DeValue::Array(steps) => {
                for step in steps {
                    let text = |key: &str| step.get_ref().as_table()?.get(key)?.get_ref().as_str();
                    let name = text("name").or_else(|| text("op")).unwrap_or_default();
                    add(&format!("{section}.{name}"), step.get_ref(), &mut lines);
                }
            }
            // The size of rings is for no operator.
            _ => {}
        }
    }
    lines.sort();
    lines
}

fn add(path: &str, table: &DeValue<'_>, lines: &mut Vec<String>) {
    let keys = table.as_table().into_iter().flatten();
    for (key, value) in keys.filter(|(key, _)| !NEUTRAL_KEYS.contains(&key.get_ref().as_ref())) {
        let key = key.get_ref();
        lines.push(match key.as_ref() {
            REPLICAS_KEY => format!("{path}.{key}"),
            _ => format!("{path}.{key} = {}", whole(value.get_ref())),
        });
    }
}

/// Returns a value with all that is in it.
fn whole(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| whole(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(table) => {
            let entries = table.iter();
            let entries =
                entries.map(|(key, value)| format!("{} = {}", key.get_ref(), whole(value.get_ref())));
            let mut entries: Vec<String> = entries.collect();
            entries.sort();
            format!("{{ {} }}", entries.join(", "))
        }
        other => shown(other),
    }
}

#[cfg(test)]
mod tests {
    use crate::document::Document;

    fn lines(text: &str) -> Vec<String> {
        Document::new("test.toml", text).read(|root| Ok(root.definition())).unwrap()
    }

    #[test]
    fn layout_and_neutral_keys_change_nothing_and_all_else_is_a_line() {
        let one = "ring_slots = 7\n[source.a]\nfrom = 'file:x' # a comment\nbad = 'skip'\n\
                   columns = { n = 'int64', bad = 'text' }\n[[step]]\nop = 'top'\nk = 3\ncost = '1us'\nreplicas = 2\n";
        let other = "[[step]]\nk=3\nreplicas=3\nop=\"top\"\n[source]\na.columns.bad = 'text'\na.columns.n = 'int64'\n\
                     a.from = \"file:x\"\n";
        let expected = [
            "source.a.columns = { bad = \"text\", n = \"int64\" }",
            "source.a.from = \"file:x\"",
            "step.top.k = 3",
            "step.top.op = \"top\"",
            "step.top.replicas",
        ];
        assert_eq!(lines(one), expected);
        assert_eq!(lines(other), expected);
        assert_ne!(lines(&one.replace("k = 3", "k = 4")), expected);
        assert_ne!(lines(&one.replace("replicas = 2\n", "")), expected);
    }
}
