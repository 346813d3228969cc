//! `--vary KEY=a,b,c`: settings with several values, all combinations of which are run.

use anyhow::{Context, Result, bail, ensure};

/// Maximum combinations: more are assumed to be a mistake.
const POINTS_MAX: usize = 100_000;

/// Parses every key with its values; `example` is a valid text for error messages.
pub(crate) fn parse(texts: &[String], example: &str) -> Result<Vec<(String, Vec<String>)>> {
    let varied: Vec<(String, Vec<String>)> =
        texts.iter().map(|text| parse_one(text, example)).collect::<Result<_>>()?;
    for (index, (key, _)) in varied.iter().enumerate() {
        let twice = varied[..index].iter().any(|(before, _)| before == key);
        ensure!(!twice, "--vary {key} is given twice; name all its values in one");
    }
    Ok(varied)
}

fn parse_one(text: &str, example: &str) -> Result<(String, Vec<String>)> {
    let like = format!("write it like --vary {example}");
    let (key, values) =
        text.split_once('=').with_context(|| format!("--vary {text}: there is no `=`; {like}"))?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    ensure!(values.iter().all(|value| !value.is_empty()), "--vary {text}: a value is missing; {like}");
    ensure!(!key.trim().is_empty(), "--vary {text}: there is no key; {like}");
    Ok((key.trim().to_owned(), values))
}

/// Returns every combination of values, the last key varying fastest, with `base` as changed by `set`.
///
/// # Errors
/// Returns the errors of `set`; an error if two values of a key are equivalent, as they would be run twice; an error if there are more than 100,000
/// combinations.
pub(crate) fn combinations<T: Clone + PartialEq>(
    base: &T,
    varied: &[(String, Vec<String>)],
    set: impl Fn(&mut T, &str, &str) -> Result<()>,
) -> Result<Vec<(Vec<String>, T)>> {
    let count = varied.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        bail!("more than {POINTS_MAX} combinations; vary fewer keys, or fewer values of each");
    }
    let mut combinations = vec![(Vec::new(), base.clone())];
    for (key, values) in varied {
        let mut wider = Vec::with_capacity(combinations.len() * values.len());
        for (number, (chosen, so_far)) in combinations.iter().enumerate() {
            let begun = wider.len();
            for value in values {
                let mut with = so_far.clone();
                set(&mut with, key, value)?;
                wider.push(([chosen.as_slice(), std::slice::from_ref(value)].concat(), with));
            }
            if number == 0 {
                all_differ(key, values, &wider[begun..])?;
            }
        }
        combinations = wider;
    }
    Ok(combinations)
}

/// Checks that the values of a key all lead to different configurations.
fn all_differ<T: PartialEq>(key: &str, values: &[String], made: &[(Vec<String>, T)]) -> Result<()> {
    for (index, (value, (_, with))) in values.iter().zip(made).enumerate() {
        let Some(same) = made[..index].iter().position(|(_, before)| before == with) else { continue };
        let before = &values[same];
        ensure!(before != value, "--vary {key}: the value {value} is given twice; remove one");
        bail!("--vary {key}: {before} and {value} are the same value; remove one");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::Bytes;

    fn sizes(values: &str) -> Result<Vec<(Vec<String>, Bytes)>> {
        let varied = parse(&[format!("size={values}")], "size=1KiB,2KiB")?;
        combinations(&Bytes(0), &varied, |size, _, value| {
            *size = value.parse()?;
            Ok(())
        })
    }

    #[test]
    fn a_value_that_stands_twice_is_refused_however_it_is_written() {
        let said = |values: &str| sizes(values).unwrap_err().to_string();
        assert_eq!(said("64KiB,1MiB,64KiB"), "--vary size: the value 64KiB is given twice; remove one");
        assert_eq!(said("64KiB,65536"), "--vary size: 64KiB and 65536 are the same value; remove one");
        assert_eq!(sizes("64KiB,64kB").unwrap().len(), 2);
    }
}
