//! The spans of a chart joined to columns, at most as many as a picture can show.

use super::{Join, Layer, Panel, Span, TimeRange};

/// Maximum number of columns; more spans are joined.
pub(crate) const COLUMNS_MAX: usize = 200;

/// A panel, joined to the columns that are drawn.
pub(crate) struct Columns {
    pub(crate) spans: Vec<Span>,
    /// By layer, for each column.
    pub(crate) values: Vec<Vec<Option<f64>>>,
    /// The highest sum of all layers in one span of each column; empty if nothing is joined.
    pub(crate) highest: Vec<f64>,
    /// Largest number of spans in a column.
    pub(crate) joined: usize,
}

/// Returns the columns of panels that share a time axis, with common boundaries.
pub(crate) fn of(panels: &[Panel], range: TimeRange) -> Vec<Columns> {
    let longest = panels.iter().map(|panel| panel.spans.len()).max().unwrap_or(0);
    let width = (longest > COLUMNS_MAX).then(|| width(panels, range));
    panels.iter().map(|panel| columns(panel, range, width)).collect()
}

/// Returns the length of a column in nanoseconds: a multiple of a span, if spans have a common length.
fn width(panels: &[Panel], range: TimeRange) -> u64 {
    let least = ((range.to_ns - range.from_ns) / COLUMNS_MAX as u64).saturating_add(1);
    let first = panels.iter().max_by_key(|panel| panel.spans.len()).and_then(|panel| panel.spans.first());
    let span = first.map_or(0, |&(start, end)| end.saturating_sub(start));
    let multiple = least.div_ceil(span.max(1)).saturating_mul(span.max(1));
    // A multiple this large means that the first span is longer than the others.
    if multiple > least.saturating_mul(2) { least } else { multiple }
}

fn columns(panel: &Panel, range: TimeRange, width: Option<u64>) -> Columns {
    let number = |index: usize| width.map(|width| (panel.spans[index].0 - range.from_ns) / width);
    let indices: Vec<usize> = (0..panel.spans.len()).collect();
    let groups: Vec<&[usize]> =
        indices.chunk_by(|&a, &b| width.is_some() && number(a) == number(b)).collect();
    let span = |group: &&[usize]| {
        let ends = group.iter().map(|&index| panel.spans[index].1);
        (panel.spans[group[0]].0, ends.max().unwrap_or_default())
    };
    let joined = groups.iter().map(|group| group.len()).max().unwrap_or(0);
    let sum =
        |&index: &usize| -> f64 { panel.layers.iter().map(|layer| layer.values[index].unwrap_or(0.0)).sum() };
    let highest = |group: &&[usize]| group.iter().map(sum).fold(0.0, f64::max);
    Columns {
        spans: groups.iter().map(span).collect(),
        values: panel
            .layers
            .iter()
            .map(|layer| groups.iter().map(|group| join(layer, group, &panel.spans)).collect())
            .collect(),
        highest: if joined > 1 { groups.iter().map(highest).collect() } else { Vec::new() },
        joined,
    }
}

/// Joins the values of a layer at these indices; `None` without values.
fn join(layer: &Layer, group: &[usize], spans: &[Span]) -> Option<f64> {
    let values = || group.iter().filter_map(|&index| Some((index, layer.values[index]?)));
    values().next()?;
    let weight = |index: usize| match layer.join {
        Join::MeanOverTime => spans[index].1.saturating_sub(spans[index].0) as f64,
        _ => layer.weights.get(index).copied().unwrap_or(1.0),
    };
    match layer.join {
        Join::Sum => Some(values().map(|(_, value)| value).sum()),
        Join::Max => Some(values().map(|(_, value)| value).fold(f64::NEG_INFINITY, f64::max)),
        Join::Mean | Join::MeanOverTime => {
            let all: f64 = values().map(|(index, _)| weight(index)).sum();
            let sum: f64 = values().map(|(index, value)| value * weight(index)).sum();
            let plain = || values().map(|(_, value)| value).sum::<f64>() / values().count() as f64;
            Some(if all > 0.0 { sum / all } else { plain() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::palette;

    fn panel(chunks: u64, join: Join) -> Panel {
        Panel {
            name: String::new(),
            layers: vec![Layer {
                label: String::new(),
                color: palette::MEAN,
                values: (0..chunks).map(|index| Some(index as f64)).collect(),
                join,
                weights: Vec::new(),
            }],
            spans: (0..chunks).map(|index| (index * 10, index * 10 + 10)).collect(),
            bands: Vec::new(),
        }
    }

    fn columns_of(panel: Panel) -> Columns {
        let range = TimeRange::of(panel.spans.iter().copied());
        of(&[panel], range).remove(0)
    }

    #[test]
    fn as_many_chunks_as_can_be_seen_stay_as_they_are() {
        let columns = columns_of(panel(COLUMNS_MAX as u64, Join::Mean));
        assert_eq!((columns.spans.len(), columns.joined), (COLUMNS_MAX, 1));
        assert!(columns.highest.is_empty());
    }

    #[test]
    fn more_are_joined_by_whole_chunks() {
        let columns = columns_of(panel(1000, Join::Mean));
        assert!(columns.spans.len() <= COLUMNS_MAX && columns.joined > 1);
        let (first, last) = (columns.spans[0], columns.spans[columns.spans.len() - 1]);
        assert_eq!((first.0, last.1), (0, 10_000));
        assert_eq!(first.1 % 10, 0);
        let joined = columns.joined as f64;
        assert_eq!(columns.values[0][0], Some((joined - 1.0) / 2.0));
        assert_eq!(columns.highest[0], joined - 1.0);
    }

    #[test]
    fn sums_and_maxima_are_kept() {
        let sum: f64 = columns_of(panel(1000, Join::Sum)).values[0].iter().flatten().sum();
        assert_eq!(sum, 999.0 * 500.0);
        let columns = columns_of(panel(1000, Join::Max));
        assert_eq!(columns.values[0].last().copied().flatten(), Some(999.0));
    }

    #[test]
    fn a_mean_is_by_weight_and_nothing_stays_nothing() {
        let mut weighed = panel(1000, Join::Mean);
        weighed.layers[0].weights = (0..1000).map(|index| if index == 0 { 1.0 } else { 0.0 }).collect();
        assert_eq!(columns_of(weighed).values[0][0], Some(0.0));
        let mut empty = panel(1000, Join::Mean);
        empty.layers[0].values.fill(None);
        assert!(columns_of(empty).values[0].iter().all(Option::is_none));
    }
}
