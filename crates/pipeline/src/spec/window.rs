//! Windows of event time.

use std::str::FromStr;

use sakiyomi_model::Nanos;

/// The stretches of event time over which a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// From each multiple of a size to the next.
    Tumbling {
        /// Size in nanoseconds.
        size_ns: u64,
    },
    /// Windows of one size that start at each multiple of a step.
    Sliding {
        /// Size in nanoseconds.
        size_ns: u64,
        /// Step in nanoseconds.
        step_ns: u64,
    },
    /// Windows of a key that end after a gap without rows.
    Session {
        /// The time, in nanoseconds.
        gap_ns: u64,
    },
}

/// A window as it is to be written.
const WINDOW_EXAMPLES: &str = "tumbling:1min, sliding:1min,10s or session:30s";

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Window, String> {
        let wrong = || format!("\"{text}\" is not a window; write it like {WINDOW_EXAMPLES}");
        let (kind, times) = text.split_once(':').ok_or_else(wrong)?;
        let times = times.split(',').map(|time| {
            let time = time.trim().parse::<Nanos>().map_err(|error| error.to_string())?;
            if time == Nanos::ZERO {
                Err("the length of a window must be more than 0".to_owned())
            } else {
                Ok(time.0)
            }
        });
        let times = times.collect::<Result<Vec<u64>, String>>()?;
        match (kind.trim(), times[..].as_ref()) {
            ("tumbling", &[size_ns]) => Ok(Window::Tumbling { size_ns }),
            ("sliding", &[size_ns, step_ns]) if step_ns <= size_ns => {
                Ok(Window::Sliding { size_ns, step_ns })
            }
            ("sliding", &[_, _]) => Err(format!("\"{text}\": the step is longer than the window")),
            ("session", &[gap_ns]) => Ok(Window::Session { gap_ns }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read_or_refused_with_an_example() {
        assert_eq!("tumbling:1min".parse(), Ok(Window::Tumbling { size_ns: 60_000_000_000 }));
        assert_eq!(
            "sliding:1s, 250ms".parse(),
            Ok(Window::Sliding { size_ns: 1_000_000_000, step_ns: 250_000_000 })
        );
        assert_eq!("session:30s".parse(), Ok(Window::Session { gap_ns: 30_000_000_000 }));
        for text in
            ["", "tumbling", "tumbling:", "tumbling:1", "tumbling:0", "sliding:1s", "sliding:1s,2s", "hop:1s"]
        {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }
}
