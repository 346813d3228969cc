//! Mechanism fields: seek, settling and rotation.

use sakiyomi_model::Nanos;

use super::fields::{FieldValue, MechanicsFields, millis};
use super::syntax::Fault;
use super::{Sources, in_file};
use crate::spec::{SeekSpec, ServoSpec, SpecError};

/// Translates the mechanism of a drive with `cylinders` cylinders.
pub(super) fn servo(
    fields: &MechanicsFields,
    cylinders: u32,
    origin: &str,
    sources: &mut Sources<'_>,
) -> Result<ServoSpec, SpecError> {
    if fields.access.value.text != "trackSwitchPlusRotation" {
        return Err(in_file(origin)(fields.access.fault(format!(
            "{} is not modeled; expected trackSwitchPlusRotation, which is what drives do",
            fields.access.value.text
        ))));
    }
    let seek = match fields.seek.value.text.as_str() {
        "extracted" => {
            let file = needed(&fields.curve, fields).map_err(in_file(origin))?;
            let text = sources.text(file, origin)?;
            SeekSpec::Table { points: in_place(table(&text).map_err(in_file(&file.text))?) }
        }
        _ => computed(fields, cylinders).map_err(in_file(origin))?,
    };
    Ok(ServoSpec {
        rpm: fields.rpm.value,
        head_switch: fields.head_switch.value,
        lost_turns: 0.0,
        write_settle: fields.write_settle.value,
        seek,
        seek_write: None,
    })
}

/// Adds a point for distance 0 to a measured curve. An extracted table contains command times minus the time of a
/// command without a seek, so its values include what any new access needs until the head is on track; an access
/// without a seek then takes about as long as the shortest seek. On the measured drives with such tables this holds to
/// 0.1 to 0.3 ms (`docs/explanation/accuracy.md`).
fn in_place(mut points: Vec<(u32, Nanos)>) -> Vec<(u32, Nanos)> {
    if let Some((distance, time)) = points.first().copied()
        && distance > 0
    {
        points.insert(0, (0, time));
    }
    points
}

/// Translates a curve that needs no further file.
fn computed(fields: &MechanicsFields, cylinders: u32) -> Result<SeekSpec, Fault> {
    match fields.seek.value.text.as_str() {
        "hpl" => two_piece(fields, Vec::new()),
        "hplplus10" => {
            let first = needed(&fields.first_ten, fields)?;
            if first.len() != 10 {
                return Err(fields.first_ten.fault(format!("{} times; expected ten", first.len())));
            }
            two_piece(fields, first.clone())
        }
        "curve" => {
            let (single, full) = (*needed(&fields.single, fields)?, *needed(&fields.full, fields)?);
            let average = *needed(&fields.average, fields)?;
            if average < single || full < average {
                return Err(fields.average.fault(format!(
                    "{average} is not between Single cylinder seek time = {single} and Full strobe seek time = {full}"
                )));
            }
            Ok(SeekSpec::Datasheet { track_to_track: single, average, full_stroke: full })
        }
        "linear" => {
            let (single, full) = (*needed(&fields.single, fields)?, *needed(&fields.full, fields)?);
            if full < single {
                let least = format!("less than Single cylinder seek time = {single}");
                return Err(fields.full.fault(format!("{full} is {least}")));
            }
            let far = (cylinders > 2).then_some((cylinders - 1, full));
            Ok(SeekSpec::Table { points: [(1, single)].into_iter().chain(far).collect() })
        }
        "constant" => Ok(SeekSpec::Table { points: vec![(1, *needed(&fields.average, fields)?)] }),
        other => Err(fields.seek.fault(format!(
            "{other} is not known; expected extracted, hpl, hplplus10, curve, linear or constant"
        ))),
    }
}

/// Returns a field that the kind of seek curve requires.
fn needed<'a, T>(given: &'a FieldValue<Option<T>>, fields: &MechanicsFields) -> Result<&'a T, Fault> {
    given.value.as_ref().ok_or_else(|| {
        fields.seek.fault(format!("{} needs the field {}; add it", fields.seek.value.text, given.key))
    })
}

/// Translates the six values of HP Labs' equation; `first` are measured times of the first distances.
fn two_piece(fields: &MechanicsFields, first: Vec<Nanos>) -> Result<SeekSpec, Fault> {
    let values = needed(&fields.equation, fields)?;
    let fault = |problem: &str| Err(fields.equation.fault(problem));
    let Ok([threshold, short_base, short_per_root, long_base, long_per_cylinder, single]) =
        <[f64; 6]>::try_from(values.as_slice())
    else {
        return fault(&format!(
            "{} values; expected six: first linear distance, root piece's constant and factor, linear piece's \
             constant and factor, and the time over one cylinder or -1",
            values.len()
        ));
    };
    if threshold.fract() != 0.0 || !(0.0..=1e9).contains(&threshold) {
        return fault(&format!("{threshold}; expected a distance in cylinders as the first value"));
    }
    let times = [short_base, short_per_root, long_base, long_per_cylinder];
    if let Some(time) =
        times.iter().chain((single != -1.0).then_some(&single)).find(|time| !(0.0..=1e6).contains(*time))
    {
        return fault(&format!("{time}; expected milliseconds, from 0 to 1000000"));
    }
    let first = if first.is_empty() && single != -1.0 { vec![millis(single)] } else { first };
    let [short_base, short_per_root, long_base, long_per_cylinder] = times.map(millis);
    let threshold = threshold as u32;
    Ok(SeekSpec::TwoPiece { threshold, short_base, short_per_root, long_base, long_per_cylinder, first })
}

/// Parses a measured table: a line with the number of points, then `distance, milliseconds`.
fn table(text: &str) -> Result<Vec<(u32, Nanos)>, Fault> {
    let lines = (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty());
    let (mut points, mut promised, mut last) = (Vec::new(), None, 1);
    for (number, line) in lines {
        last = number;
        if let Some(count) = line.strip_prefix("Seek distances measured:") {
            let fault = || Fault::new(number, format!("{line}; expected a whole number"));
            promised = Some(count.trim().parse::<usize>().map_err(|_| fault())?);
            continue;
        }
        let fault = || {
            Fault::new(
                number,
                format!("`{line}`; expected a distance in cylinders, a comma, and milliseconds"),
            )
        };
        let (distance, time) = line.split_once(',').ok_or_else(fault)?;
        let distance: u32 = distance.trim().parse().map_err(|_| fault())?;
        let time: f64 = time.trim().parse().map_err(|_| fault())?;
        if !(0.0..=1e6).contains(&time) {
            return Err(fault());
        }
        if points.last().is_some_and(|(before, _)| *before >= distance) {
            return Err(Fault::new(
                number,
                format!("distance {distance} comes after a longer or equal one; sort the lines"),
            ));
        }
        points.push((distance, millis(time)));
    }
    match promised {
        Some(count) if count == points.len() && count > 0 => Ok(points),
        Some(count) => {
            let problem =
                format!("{} seek times, but the file announces {count}; is it cut off?", points.len());
            Err(Fault::new(last, problem))
        }
        None => Err(Fault::new(1, "no line `Seek distances measured: N`; this is not a seek table")),
    }
}
