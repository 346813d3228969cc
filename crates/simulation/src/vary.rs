//! Keys that are varied: settings with several values, all combinations of which are run.

use crate::Error;

/// Keys with the values of each, as text, in the order in which they were given.
pub type Varied = Vec<(String, Vec<String>)>;

/// Maximum combinations: more are assumed to be a mistake.
const POINTS_MAX: usize = 100_000;

/// Parses keys with their values, as `--vary KEY=a,b,c` has them; `example` is a valid text for error messages.
///
/// # Errors
/// If a text has no key or lacks a value, or a key is given twice.
pub fn parse_varied(texts: &[String], example: &str) -> Result<Varied, Error> {
    let varied: Varied = texts.iter().map(|text| parse_one(text, example)).collect::<Result<_, _>>()?;
    for (index, (key, _)) in varied.iter().enumerate() {
        if varied[..index].iter().any(|(before, _)| before == key) {
            return Err(Error::Option(format!("--vary {key} is given twice; name all its values in one")));
        }
    }
    Ok(varied)
}

fn parse_one(text: &str, example: &str) -> Result<(String, Vec<String>), Error> {
    let wrong = |problem: &str| Error::Vary {
        key: text.to_owned(),
        problem: format!("{problem}; write it like --vary {example}"),
    };
    let (key, values) = text.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return Err(wrong("a value is missing"));
    }
    match key.trim() {
        "" => Err(wrong("the key is missing")),
        key => Ok((key.to_owned(), values)),
    }
}

/// Returns every combination of values, the last key varying fastest, with `base` as changed by `set`.
///
/// # Errors
/// Returns the errors of `set`; an error if two values of a key are equivalent, as they would be run twice; an error if there are more than 100,000
/// combinations.
pub(crate) fn combinations<T: Clone + PartialEq>(
    base: &T,
    varied: &[(String, Vec<String>)],
    set: impl Fn(&mut T, &str, &str) -> Result<(), Error>,
) -> Result<Vec<(Vec<String>, T)>, Error> {
    let count = varied.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        return Err(Error::Combinations(POINTS_MAX));
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
fn all_differ<T: PartialEq>(key: &str, values: &[String], made: &[(Vec<String>, T)]) -> Result<(), Error> {
    for (index, (value, (_, with))) in values.iter().zip(made).enumerate() {
        let Some(same) = made[..index].iter().position(|(_, before)| before == with) else { continue };
        let before = &values[same];
        let problem = if before == value {
            format!("the value {value} is given twice; remove one")
        } else {
            format!("{before} and {value} are the same value; remove one")
        };
        return Err(Error::Vary { key: key.to_owned(), problem });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::Bytes;

    fn sizes(values: &str) -> Result<Vec<(Vec<String>, Bytes)>, Error> {
        let varied = parse_varied(&[format!("size={values}")], "size=1KiB,2KiB")?;
        combinations(&Bytes(0), &varied, |size, _, value| {
            *size = value.parse().unwrap();
            Ok(())
        })
    }

    #[test]
    fn what_is_no_list_of_values_is_refused() {
        let said = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            parse_varied(&texts, "size=1,2").unwrap_err().to_string()
        };
        assert_eq!(said(&["size"]), "--vary size: there is no `=`; write it like --vary size=1,2");
        assert_eq!(said(&["size=1,"]), "--vary size=1,: a value is missing; write it like --vary size=1,2");
        assert_eq!(said(&["=1"]), "--vary =1: the key is missing; write it like --vary size=1,2");
        assert_eq!(said(&["a=1", "a=2"]), "--vary a is given twice; name all its values in one");
    }

    #[test]
    fn a_value_that_stands_twice_is_refused_however_it_is_written() {
        let said = |values: &str| sizes(values).unwrap_err().to_string();
        assert_eq!(said("64KiB,1MiB,64KiB"), "--vary size: the value 64KiB is given twice; remove one");
        assert_eq!(said("64KiB,65536"), "--vary size: 64KiB and 65536 are the same value; remove one");
        assert_eq!(sizes("64KiB,64kB").unwrap().len(), 2);
    }
}
