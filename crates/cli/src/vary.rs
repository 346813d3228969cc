//! `--vary KEY=a,b,c`: settings with the values to try, all combinations of which are tried.

use anyhow::{Context, Result, bail, ensure};

/// More combinations than this are a slip.
const POINTS_MAX: usize = 100_000;

/// Every key with its values.
pub(crate) fn parse(texts: &[String]) -> Result<Vec<(String, Vec<String>)>> {
    let varied: Vec<(String, Vec<String>)> =
        texts.iter().map(|text| parse_one(text)).collect::<Result<_>>()?;
    for (index, (key, _)) in varied.iter().enumerate() {
        let twice = varied[..index].iter().any(|(before, _)| before == key);
        ensure!(!twice, "--vary {key} is given twice; name all its values in one");
    }
    Ok(varied)
}

fn parse_one(text: &str) -> Result<(String, Vec<String>)> {
    let example = "write it like --vary cache.read_ahead.max=64KiB,256KiB,1MiB";
    let (key, values) =
        text.split_once('=').with_context(|| format!("--vary {text}: there is no `=`; {example}"))?;
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    ensure!(values.iter().all(|value| !value.is_empty()), "--vary {text}: a value is missing; {example}");
    Ok((key.trim().to_owned(), values))
}

/// Whether all combinations can be tried.
pub(crate) fn check_count(varied: &[(String, Vec<String>)]) -> Result<()> {
    let count = varied.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        bail!("more than {POINTS_MAX} combinations; vary fewer keys, or fewer values of each");
    }
    Ok(())
}
