//! From what plotters writes to what a page can carry.
//!
//! Plotters writes every point of a line with both coordinates, and every element with its opacity: a chart of 2,000
//! points would be four times as large as it need be. Here lines and areas become paths of relative steps, and
//! neighbours that look alike become one path. The root element gets a view box, so that the chart scales, and a
//! title for those who cannot see it.

use std::fmt::Write as _;

/// Rewrites a drawing of plotters: one element on each line, text content on lines of its own.
pub(super) fn finish(drawing: &str, name: &str, title: &str, (width, height): (u32, u32)) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {width} {height}\" width=\"100%\" \
         role=\"img\" aria-labelledby=\"title-{name}\" font-family=\"sans-serif\">\n\
         <title id=\"title-{name}\">{title}</title>\n"
    );
    let mut path = Path::default();
    for line in drawing.lines().filter(|line| !line.starts_with("<svg ")) {
        let line = line.replace(" opacity=\"1\"", "").replace(" font-family=\"sans-serif\"", "");
        if let Some(element) = Outline::read(&line) {
            path.add(&element, &mut svg);
        } else {
            path.end(&mut svg);
            svg.push_str(&line);
            svg.push('\n');
        }
    }
    svg
}

/// A `polyline` or `polygon` of plotters.
struct Outline<'a> {
    /// All attributes but the points.
    style: String,
    points: &'a str,
    closed: bool,
}

impl Outline<'_> {
    fn read(line: &str) -> Option<Outline<'_>> {
        let (attributes, closed) = match line.strip_prefix("<polygon ") {
            Some(attributes) => (attributes, true),
            None => (line.strip_prefix("<polyline ")?, false),
        };
        let (style, points) = attributes.strip_suffix("/>")?.split_once("points=\"")?;
        // Areas lie edge to edge: smoothing each edge by itself would let what is behind shine through.
        let crisp = if closed {
            " shape-rendering=\"crispEdges\""
        } else {
            " stroke-linejoin=\"round\" stroke-linecap=\"round\""
        };
        Some(Outline {
            style: format!("{}{crisp}", style.trim_end()),
            points: points.trim_end_matches('"'),
            closed,
        })
    }

    /// The points as a path: where it starts, then relative steps.
    fn steps(&self) -> String {
        let mut points = self.points.split_whitespace().filter_map(|point| {
            let (x, y) = point.split_once(',')?;
            Some((x.parse::<i64>().ok()?, y.parse::<i64>().ok()?))
        });
        let Some((mut x, mut y)) = points.next() else { return String::new() };
        let mut steps = Steps { text: format!("M{x} {y}"), pending: (0, 0) };
        for (next_x, next_y) in points {
            steps.go(next_x - x, next_y - y);
            (x, y) = (next_x, next_y);
        }
        steps.flush();
        if self.closed {
            steps.text.push('z');
        }
        steps.text
    }
}

/// Relative steps in the making; those in one direction are joined.
struct Steps {
    text: String,
    pending: (i64, i64),
}

impl Steps {
    fn go(&mut self, dx: i64, dy: i64) {
        let (px, py) = self.pending;
        let same_way = |a: i64, b: i64| a.signum() * b.signum() >= 0;
        let joins = (px == 0 && dx == 0 && same_way(py, dy)) || (py == 0 && dy == 0 && same_way(px, dx));
        if !joins {
            self.flush();
        }
        self.pending = (self.pending.0 + dx, self.pending.1 + dy);
    }

    fn flush(&mut self) {
        // Writing to a string cannot fail.
        let _ = match std::mem::take(&mut self.pending) {
            (0, 0) => Ok(()),
            (dx, 0) => write!(self.text, "h{dx}"),
            (0, dy) => write!(self.text, "v{dy}"),
            (dx, dy) => write!(self.text, "l{dx} {dy}"),
        };
    }
}

/// A path in the making, to which outlines of the same style are added.
#[derive(Default)]
struct Path {
    style: String,
    steps: String,
}

impl Path {
    fn add(&mut self, outline: &Outline<'_>, svg: &mut String) {
        if self.style != outline.style {
            self.end(svg);
            self.style.clone_from(&outline.style);
        }
        self.steps.push_str(&outline.steps());
    }

    fn end(&mut self, svg: &mut String) {
        if !self.steps.is_empty() {
            let _ = writeln!(svg, "<path {} d=\"{}\"/>", self.style, self.steps);
        }
        *self = Path::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlines_become_relative_paths_and_like_ones_are_joined() {
        let drawing = "<svg width=\"9\">\n\
            <polyline fill=\"none\" opacity=\"1\" stroke=\"#000000\" points=\"1,2 3,2 9,2 9,5 \"/>\n\
            <polyline fill=\"none\" opacity=\"1\" stroke=\"#000000\" points=\"9,9 8,7 \"/>\n\
            <polygon opacity=\"1\" fill=\"#FFFFFF\" points=\"0,0 4,0 0,4 \"/>\n\
            </svg>\n";
        insta::assert_snapshot!(finish(drawing, "name", "A title", (10, 20)), @r##"
        <svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 10 20" width="100%" role="img" aria-labelledby="title-name" font-family="sans-serif">
        <title id="title-name">A title</title>
        <path fill="none" stroke="#000000" stroke-linejoin="round" stroke-linecap="round" d="M1 2h8v3M9 9l-1 -2"/>
        <path fill="#FFFFFF" shape-rendering="crispEdges" d="M0 0h4l-4 4z"/>
        </svg>
        "##);
    }
}
