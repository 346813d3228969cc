//! LIKE with a constant pattern: `%` is any text, `_` any character, and `\` takes the next character as it is.

/// Maximum length of a pattern. The kernel refuses patterns whose regular expression has more than 10 MiB when compiled,
/// which shorter ones do not reach: a `_` takes some hundred bytes.
const PATTERN_MAX_BYTES: usize = 4096;

/// A pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    AnyChar,
    AnyText,
}

impl Pattern {
    /// Compiles a pattern; `None` if only the kernel has it.
    pub(super) fn new(pattern: &str) -> Option<Pattern> {
        if pattern.len() > PATTERN_MAX_BYTES {
            return None;
        }
        let mut letters = pattern.chars();
        let mut tokens = Vec::new();
        while let Some(letter) = letters.next() {
            tokens.push(match letter {
                '%' => Token::AnyText,
                '_' => Token::AnyChar,
                // A backslash at the end is a backslash.
                '\\' => Token::Char(letters.next().unwrap_or('\\')),
                letter => Token::Char(letter),
            });
        }
        tokens.dedup_by(|a, b| *a == Token::AnyText && *b == Token::AnyText);
        Some(Pattern { tokens })
    }

    /// Returns whether the whole text matches. Only the last `%` needs to be tried again at later places, because any
    /// match of an earlier one leaves the most text.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (mut token, mut rest) = (0, text.chars());
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let before = rest.clone();
            let is_match = match (self.tokens.get(token), rest.next()) {
                (Some(Token::AnyText), _) if token + 1 == self.tokens.len() => return true,
                (Some(Token::AnyText), _) => {
                    rest = before.clone();
                    retry = Some((token + 1, before));
                    true
                }
                (None, None) => return true,
                (Some(Token::AnyChar), Some(_)) => true,
                (Some(Token::Char(wanted)), Some(letter)) => *wanted == letter,
                _ => false,
            };
            if is_match {
                token += 1;
                continue;
            }
            let Some((after, from)) = &mut retry else { return false };
            if from.next().is_none() {
                return false;
            }
            (token, rest) = (*after, from.clone());
        }
    }
}
