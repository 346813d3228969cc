//! Similar names for errors about an unknown name ("did you mean").
//!
//! Names are compared by edit distance (insertions, deletions, substitutions and transpositions: optimal string
//! alignment), divided by the length of the longer name. Keys are dotted paths and are compared word by word, so that a
//! typo weighs the same in a long key as in a short one, and an omitted parent costs less than a different word.

/// Largest relative distance of a similar name.
const NAME_DISTANCE_MAX: f64 = 0.4;
/// Largest relative distance of a similar word of a key.
const WORD_DISTANCE_MAX: f64 = 0.5;
/// Largest sum of the distances of all words of a similar key.
const KEY_DISTANCE_MAX: f64 = 0.8;
/// Distance of a word of the known key that was not typed, such as an omitted parent.
const MISSING_WORD_COST: f64 = 0.25;
/// Distance of a typed word that the known key does not have.
const EXTRA_WORD_COST: f64 = 0.4;
/// Largest distance of a further candidate beyond the nearest one.
const RUNNER_UP_DISTANCE_MAX: f64 = 0.1;
/// Number of candidates suggested at most.
const CANDIDATES_MAX: usize = 3;
/// Minimum length of a substring match; shorter texts are part of too many names.
const PART_MIN_CHARS: usize = 3;

/// Returns the names in `known` that are similar to `typed`, nearest first, three at most. Ignores case and the
/// difference between `-`, `_` and a space.
pub fn similar<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = folded(typed);
    if typed.is_empty() {
        return Vec::new();
    }
    nearest(known.into_iter().map(|name| (name_distance(&typed, &folded(name)), name)), NAME_DISTANCE_MAX)
}

/// Returns the keys in `known` that are similar to `typed`, nearest first, three at most. `*` in a known key matches a
/// number, and is replaced by the typed one.
pub fn similar_keys<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    if typed.trim().is_empty() {
        return Vec::new();
    }
    let words: Vec<String> = typed.split('.').map(folded).collect();
    let number = typed.split('.').find(|word| is_number(word)).unwrap_or("0");
    let whole = folded(&typed.replace('.', "-"));
    let distance = |key: &str| {
        let of_words = key_distance(&words, &key.split('.').map(folded).collect::<Vec<_>>());
        // Compares the words joined by characters other than dots.
        let joined = share(&whole, &folded(&key.replace('.', "-"))) * 2.0;
        of_words.min(joined)
    };
    let found = nearest(known.into_iter().map(|key| (distance(key), key)), KEY_DISTANCE_MAX);
    found.into_iter().map(|key| key.replace('*', number)).collect()
}

/// Returns the suffix of an error message that suggests `names`: empty if there are none, else `; did you mean a or
/// b?`.
#[must_use]
pub fn did_you_mean<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

fn nearest<'a>(candidates: impl Iterator<Item = (f64, &'a str)>, limit: f64) -> Vec<&'a str> {
    let mut near: Vec<(f64, &str)> = candidates.filter(|(distance, _)| *distance <= limit).collect();
    // The sort is stable: among equal distances the order of the list is kept.
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = near.first().map_or(0.0, |(distance, _)| *distance);
    let mut names: Vec<&str> = Vec::new();
    for (_, name) in near.iter().take_while(|(distance, _)| *distance <= least + RUNNER_UP_DISTANCE_MAX) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names.truncate(CANDIDATES_MAX);
    names
}

fn folded(name: &str) -> String {
    name.trim().to_lowercase().replace(['_', ' '], "-")
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the distance of two folded names; 0 if they are equal.
fn name_distance(typed: &str, known: &str) -> f64 {
    let distance = share(typed, known);
    let [short, long] = if typed.len() < known.len() { [typed, known] } else { [known, typed] };
    let part = short.len() >= PART_MIN_CHARS && long.contains(short);
    if part { distance.min(0.25) } else { distance }
}

/// Returns the edit distance of two texts divided by the length of the longer one.
fn share(a: &str, b: &str) -> f64 {
    let longer = a.chars().count().max(b.chars().count());
    if longer == 0 { 0.0 } else { edits(a, b) as f64 / longer as f64 }
}

/// Returns the optimal string alignment distance: the minimum number of insertions, deletions, substitutions and
/// transpositions of neighbors.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substituted = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = substituted.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before_last[j - 2] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Returns the edit distance of two keys, in words.
fn key_distance(typed: &[String], known: &[String]) -> f64 {
    let mut last: Vec<f64> = (0..=known.len()).map(|words| words as f64 * MISSING_WORD_COST).collect();
    for word in typed {
        let mut row = vec![last[0] + EXTRA_WORD_COST];
        for (j, own) in known.iter().enumerate() {
            let substituted = last[j] + word_distance(word, own);
            row.push(substituted.min(last[j + 1] + EXTRA_WORD_COST).min(row[j] + MISSING_WORD_COST));
        }
        last = row;
    }
    last[known.len()]
}

fn word_distance(typed: &str, known: &str) -> f64 {
    if known == "*" {
        return if is_number(typed) { 0.0 } else { f64::INFINITY };
    }
    match name_distance(typed, known) {
        distance if distance <= WORD_DISTANCE_MAX => distance,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEYS: [&str; 8] = [
        "servo.rpm",
        "geometry.zones.*.sectors_per_track",
        "cache.size",
        "cache.segments.count",
        "cache.read_ahead.min",
        "cache.read_ahead.max",
        "interface.overhead.control",
        "interface.overhead.read_hit.after_read",
    ];

    #[test]
    fn a_slip_in_one_word_of_a_key_finds_that_key_alone() {
        for (typed, meant) in [
            ("cache.segments.cont", "cache.segments.count"),
            ("cache.segment.count", "cache.segments.count"),
            ("cahce.size", "cache.size"),
            ("servo_rpm", "servo.rpm"),
            ("SERVO.RPM", "servo.rpm"),
            ("rpm", "servo.rpm"),
            ("read_ahead.max", "cache.read_ahead.max"),
            ("cache.readahead.max", "cache.read_ahead.max"),
            ("geometry.zones.3.sectors_per_trak", "geometry.zones.3.sectors_per_track"),
            ("geometry.zones.sectors_per_track", "geometry.zones.0.sectors_per_track"),
            ("interface.overhead.read_hit.afterread", "interface.overhead.read_hit.after_read"),
        ] {
            assert_eq!(similar_keys(typed, KEYS), [meant], "{typed}");
        }
        assert_eq!(similar_keys("cache.segments.size", KEYS), ["cache.size", "cache.segments.count"]);
        assert_eq!(similar_keys("nonsense.key", KEYS), [""; 0]);
        assert_eq!(
            similar_keys("cache.read_ahead.mix", KEYS),
            ["cache.read_ahead.min", "cache.read_ahead.max"]
        );
    }

    #[test]
    fn names_are_found_by_slips_capitals_and_parts() {
        let drives = ["deskstar-7k250", "spinpoint-hd160jj", "deskstar-p7k500", "nearline-18tb"];
        assert_eq!(similar("deskstar-7k25", drives), ["deskstar-7k250"]);
        assert_eq!(similar("Deskstar-7K250", drives), ["deskstar-7k250"]);
        assert_eq!(similar("deskstar 7k250", drives), ["deskstar-7k250"]);
        assert_eq!(similar("7k250", drives), ["deskstar-7k250"]);
        assert_eq!(similar("deskstar", drives), ["deskstar-7k250", "deskstar-p7k500"]);
        assert_eq!(similar("neraline-18tb", drives), ["nearline-18tb"]);
        assert_eq!(similar("floppy", drives), [""; 0]);
        assert_eq!((similar(" ", drives), similar_keys("", KEYS)), (Vec::new(), Vec::new()));
        assert_eq!(did_you_mean(&similar("floppy", drives)), "");
        assert_eq!(did_you_mean(&["a", "b"]), "; did you mean a or b?");
    }

    #[test]
    fn a_swap_of_neighbors_is_one_edit() {
        assert_eq!((edits("abc", "acb"), edits("", "abc"), edits("kitten", "sitting")), (1, 3, 3));
    }

    proptest! {
        #[test]
        fn edits_are_a_distance(a in "[a-c]{0,6}", b in "[a-c]{0,6}") {
            prop_assert_eq!(edits(&a, &b), edits(&b, &a));
            prop_assert_eq!(edits(&a, &b) == 0, a == b);
            prop_assert!(edits(&a, &b) <= a.len().max(b.len()));
        }

        #[test]
        fn any_text_gets_at_most_three_suggestions_and_a_known_name_itself(typed: String, index in 0usize..8) {
            prop_assert!(similar(&typed, KEYS).len() <= 3);
            prop_assert!(similar_keys(&typed, KEYS).len() <= 3);
            prop_assert_eq!(&similar_keys(&KEYS[index].replace('*', "7"), KEYS)[0], &KEYS[index].replace('*', "7"));
        }
    }
}
