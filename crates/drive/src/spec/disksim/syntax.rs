//! Grammar of DiskSim's parameter files: blocks of `key = value`, with the line of each element. Independent of the
//! meaning of blocks and fields.
//!
//! ```text
//! file     = { block | "source" word | "instantiate" "[" words "]" "as" word | "topology" node }
//! block    = kind [ name ] "{" [ field { "," field } [ "," ] ] "}"
//! field    = key-words "=" value
//! value    = word | "[" [ value { "," value } ] "]" | block | "source" word
//! node     = kind name "[" { node } "]"
//! ```
//!
//! Words are separated by whitespace and the characters `{ } [ ] , =`; a key consists of several words. `#` begins a
//! comment.

/// An error with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Line, from 1.
    pub(super) line: u32,
    /// Problem and advice.
    pub(super) problem: String,
}

impl Fault {
    pub(super) fn new(line: u32, problem: impl Into<String>) -> Fault {
        Fault { line, problem: problem.into() }
    }
}

/// A parsed file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct File {
    /// Top-level blocks.
    pub(super) blocks: Vec<Block>,
    /// Top-level `source FILE` statements.
    pub(super) sources: Vec<Word>,
    /// `instantiate [ names ] as BLOCK` statements.
    pub(super) instances: Vec<Instances>,
    /// `topology …` statements.
    pub(super) topologies: Vec<Node>,
}

/// A word with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) line: u32,
}

/// `kind name { fields }`; the name is optional in a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: Option<String>,
    pub(super) line: u32,
    pub(super) fields: Vec<Field>,
}

/// `key = value`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) line: u32,
    pub(super) value: Value,
}

/// A value of a field or list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A number or a name.
    Word(Word),
    /// `[ … ]`, with the line of the opening bracket.
    List(Vec<Value>, u32),
    /// A block.
    Block(Block),
    /// `source FILE`: the one block of another file.
    Source(Word),
}

impl Value {
    /// Returns the line where the value begins.
    pub(super) fn line(&self) -> u32 {
        match self {
            Value::Word(word) | Value::Source(word) => word.line,
            Value::List(_, line) => *line,
            Value::Block(block) => block.line,
        }
    }

    /// Returns the description used in errors.
    pub(super) fn describe(&self) -> String {
        match self {
            Value::Word(word) => format!("`{}`", word.text),
            Value::List(..) => "a list".to_owned(),
            Value::Block(block) => format!("a block `{}`", block.kind),
            Value::Source(word) => format!("`source {}`", word.text),
        }
    }
}

/// `instantiate [ names ] as of`; ranges `a0 .. a3` are expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instances {
    pub(super) names: Vec<String>,
    pub(super) of: String,
}

/// A component of the system with the components attached to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) below: Vec<Node>,
}

/// Maximum nesting, deeper than any real file; bounds recursion.
const DEPTH_MAX: u32 = 64;
/// Maximum length of a range: `a0 .. a4000000000` is a mistake.
const RANGE_MAX: u32 = 10_000;

/// Parses a whole file.
pub(super) fn parse(text: &str) -> Result<File, Fault> {
    let mut parser = Parser { tokens: tokens(text), at: 0, depth: 0 };
    let mut file = File::default();
    while let Some(first) = parser.word() {
        match first.text.as_str() {
            "source" => file.sources.push(parser.need_word("the name of a file after `source`")?),
            "instantiate" => file.instances.push(parser.instances(&first)?),
            "topology" => {
                let kind = parser.need_word("the kind of the topmost part after `topology`")?;
                file.topologies.push(parser.node(kind)?);
            }
            _ if parser.peek().is_some_and(|token| token.kind == Kind::Mark('{')) => {
                file.blocks.push(parser.block(first, None)?);
            }
            _ => {
                let name = parser.need_word(&format!("a name for the block `{}`", first.text))?;
                file.blocks.push(parser.block(first, Some(name.text))?);
            }
        }
    }
    match parser.peek() {
        None => Ok(file),
        Some(token) => Err(Fault::new(
            token.line,
            format!("{} where a block, `source`, `instantiate` or `topology` should begin", token.describe()),
        )),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Word(String),
    Mark(char),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    kind: Kind,
    line: u32,
}

impl Token {
    fn describe(&self) -> String {
        match &self.kind {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Mark(mark) => format!("`{mark}`"),
        }
    }
}

/// Splits a text into words and punctuation, without comments.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or(line);
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let (kind, length) = if is_mark(first) {
                (Kind::Mark(first), 1)
            } else {
                let length = rest.find(|c: char| is_mark(c) || c.is_whitespace()).unwrap_or(rest.len());
                (Kind::Word(rest[..length].to_owned()), length)
            };
            tokens.push(Token { kind, line: number });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn is_mark(c: char) -> bool {
    matches!(c, '{' | '}' | '[' | ']' | ',' | '=')
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    /// Returns the line of the next token, or of the last one at the end.
    fn line(&self) -> u32 {
        self.peek().or(self.tokens.last()).map_or(1, |token| token.line)
    }

    /// Returns an error with the expected and the found token.
    fn expected(&self, what: &str) -> Fault {
        let found = self.peek().map_or_else(|| "the end of the file".to_owned(), Token::describe);
        Fault::new(self.line(), format!("expected {what}, found {found}"))
    }

    /// Consumes and returns the next token if it is a word.
    fn word(&mut self) -> Option<Word> {
        let token = self.peek()?;
        let Kind::Word(text) = &token.kind else { return None };
        let word = Word { text: text.clone(), line: token.line };
        self.at += 1;
        Some(word)
    }

    fn need_word(&mut self, what: &str) -> Result<Word, Fault> {
        self.word().ok_or_else(|| self.expected(what))
    }

    /// Consumes the next token if it is `mark`; returns whether it was.
    fn mark(&mut self, mark: char) -> bool {
        let there = self.peek().is_some_and(|token| token.kind == Kind::Mark(mark));
        self.at += usize::from(there);
        there
    }

    fn need_mark(&mut self, mark: char, place: &str) -> Result<(), Fault> {
        if self.mark(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}` {place}"))) }
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            return Ok(());
        }
        Err(Fault::new(self.line(), format!("more than {DEPTH_MAX} blocks or lists within one another")))
    }

    /// Parses a block's braces and its fields.
    fn block(&mut self, kind: Word, name: Option<String>) -> Result<Block, Fault> {
        self.need_mark('{', &format!("to begin the block `{}`", kind.text))?;
        self.deeper()?;
        let mut fields = Vec::new();
        while !self.mark('}') {
            if self.peek().is_none() {
                let what = format!("`}}` to end the block `{}` that begins on line {}", kind.text, kind.line);
                return Err(self.expected(&what));
            }
            let field = self.field()?;
            let after = format!("after the value of `{}`", field.key);
            fields.push(field);
            if !self.mark(',') && !self.peek().is_some_and(|token| token.kind == Kind::Mark('}')) {
                return Err(self.expected(&format!("`,` or `}}` {after}")));
            }
        }
        self.depth -= 1;
        Ok(Block { kind: kind.text, name, line: kind.line, fields })
    }

    fn field(&mut self) -> Result<Field, Fault> {
        let first = self.need_word("a field `name = value`")?;
        let (mut key, line) = (first.text, first.line);
        while let Some(word) = self.word() {
            key.push(' ');
            key.push_str(&word.text);
        }
        self.need_mark('=', &format!("after `{key}`"))?;
        let value = self.value(&format!("a value for `{key}`"))?;
        Ok(Field { key, line, value })
    }

    fn value(&mut self, what: &str) -> Result<Value, Fault> {
        let line = self.line();
        if self.mark('[') {
            return self.list(line);
        }
        let first = self.need_word(what)?;
        if first.text == "source" {
            return Ok(Value::Source(self.need_word("the name of a file after `source`")?));
        }
        if self.peek().is_some_and(|token| token.kind == Kind::Mark('{')) {
            return Ok(Value::Block(self.block(first, None)?));
        }
        let named = self.tokens.get(self.at + 1).is_some_and(|token| token.kind == Kind::Mark('{'));
        match self.peek() {
            Some(Token { kind: Kind::Word(name), .. }) if named => {
                let name = Some(name.clone());
                self.at += 1;
                Ok(Value::Block(self.block(first, name)?))
            }
            _ => Ok(Value::Word(first)),
        }
    }

    /// Parses a list after its opening bracket.
    fn list(&mut self, line: u32) -> Result<Value, Fault> {
        self.deeper()?;
        let mut values = Vec::new();
        while !self.mark(']') {
            if self.peek().is_none() {
                return Err(self.expected(&format!("`]` to end the list that begins on line {line}")));
            }
            values.push(self.value("a value or `]`")?);
            if !self.mark(',') && !self.peek().is_some_and(|token| token.kind == Kind::Mark(']')) {
                return Err(self.expected("`,` or `]` after a value of a list"));
            }
        }
        self.depth -= 1;
        Ok(Value::List(values, line))
    }

    fn instances(&mut self, at: &Word) -> Result<Instances, Fault> {
        self.need_mark('[', "after `instantiate`")?;
        let mut names: Vec<String> = Vec::new();
        while !self.mark(']') {
            let word = self.need_word("a name or `]`")?;
            if let Some((from, to)) =
                word.text.split_once("..").filter(|(from, to)| !from.is_empty() && !to.is_empty())
            {
                names.extend(expanded(from, &Word { text: to.to_owned(), line: word.line })?);
            } else if word.text != ".." {
                names.push(word.text);
            } else {
                let to = self.need_word("a name after `..`")?;
                let from = names.pop().unwrap_or_default();
                names.extend(expanded(&from, &to)?);
            }
            self.mark(',');
        }
        match self.word() {
            Some(word) if word.text == "as" => {}
            _ => return Err(Fault::new(at.line, "`instantiate [ … ]` lacks `as` and the name of a block")),
        }
        Ok(Instances { names, of: self.need_word("the name of a block after `as`")?.text })
    }

    fn node(&mut self, kind: Word) -> Result<Node, Fault> {
        let name = self.need_word(&format!("a name after `{}`", kind.text))?;
        self.need_mark('[', &format!("after `{}`", name.text))?;
        self.deeper()?;
        let mut below = Vec::new();
        while !self.mark(']') {
            let kind = self.need_word(&format!("a part or `]` under `{}`", name.text))?;
            below.push(self.node(kind)?);
            self.mark(',');
        }
        self.depth -= 1;
        Ok(Node { kind: kind.text, name: name.text, below })
    }
}

/// Expands a range, or describes what is wrong with it.
fn expanded(from: &str, to: &Word) -> Result<Vec<String>, Fault> {
    range(from, &to.text).ok_or_else(|| {
        let range = format!("`{from} .. {}`", to.text);
        Fault::new(to.line, format!("{range} is not a range; expected the same name with rising numbers"))
    })
}

/// Expands a range: `disk3`, `disk5` → `disk3`, `disk4`, `disk5`.
fn range(from: &str, to: &str) -> Option<Vec<String>> {
    let split = |name: &str| -> Option<(String, u32)> {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        Some((stem.to_owned(), name[stem.len()..].parse().ok()?))
    };
    let ((stem, first), (other, last)) = (split(from)?, split(to)?);
    let fits = stem == other && first <= last && last - first < RANGE_MAX;
    fits.then(|| (first..=last).map(|number| format!("{stem}{number}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SYSTEM: &str = "\
disksim_bus BUS1 { # the inner one
   Arbitration time = 0.5,
   list (of all) = [ 1, [2, 3], kind { a = b } ],
   Model = source x.model,
   Inner = dm_disk NAME { a = 1 }
} # end
source some.diskspecs
instantiate [ disk0 .. disk2, lone, disk7..disk8 ] as DISK
topology disksim_iodriver driver0 [
   disksim_bus bus0 [ disksim_disk disk0 [], disksim_disk disk1 [] ]
]
";

    fn word(text: &str, line: u32) -> Value {
        Value::Word(Word { text: text.to_owned(), line })
    }

    #[test]
    fn a_system_is_read_with_its_lines() {
        let file = parse(SYSTEM).unwrap();
        let bus = &file.blocks[0];
        assert_eq!((bus.kind.as_str(), bus.name.as_deref(), bus.line), ("disksim_bus", Some("BUS1"), 1));
        let keys: Vec<(&str, u32)> =
            bus.fields.iter().map(|field| (field.key.as_str(), field.line)).collect();
        assert_eq!(keys, [("Arbitration time", 2), ("list (of all)", 3), ("Model", 4), ("Inner", 5)]);
        assert_eq!(bus.fields[0].value, word("0.5", 2));
        let Value::List(items, 3) = &bus.fields[1].value else { panic!("{:?}", bus.fields[1]) };
        assert_eq!(items[..2], [word("1", 3), Value::List(vec![word("2", 3), word("3", 3)], 3)]);
        assert_eq!(items[2].describe(), "a block `kind`");
        assert_eq!(bus.fields[2].value.describe(), "`source x.model`");
        let Value::Block(inner) = &bus.fields[3].value else { panic!("{:?}", bus.fields[3]) };
        assert_eq!(inner.name.as_deref(), Some("NAME"));
        assert_eq!(file.sources, [Word { text: "some.diskspecs".to_owned(), line: 7 }]);
        assert_eq!(file.instances[0].names, ["disk0", "disk1", "disk2", "lone", "disk7", "disk8"]);
        assert_eq!(file.topologies[0].below[0].below[1].name, "disk1");
    }

    #[test]
    fn faults_name_their_line_and_what_was_expected() {
        let cases = [
            ("a B {\n x = 1\n y = 2 }", 3, "expected `,` or `}` after the value of `x`, found `y`"),
            (
                "a B {\n x = 1,\n\n",
                2,
                "expected `}` to end the block `a` that begins on line 1, found the end of the file",
            ),
            ("a B {\n x 1,\n}", 2, "expected `=` after `x 1`, found `,`"),
            ("a B {\n x = ,\n}", 2, "expected a value for `x`, found `,`"),
            ("a B {\n = 3\n}", 2, "expected a field `name = value`, found `=`"),
            ("a B\nc", 2, "expected `{` to begin the block `a`, found `c`"),
            (
                "a B { x = [1,\n 2",
                2,
                "expected `,` or `]` after a value of a list, found the end of the file",
            ),
            ("a B { x = [1 2] }", 1, "expected `,` or `]` after a value of a list, found `2`"),
            (
                "a B { x = [1,",
                1,
                "expected `]` to end the list that begins on line 1, found the end of the file",
            ),
            ("\n]", 2, "`]` where a block, `source`, `instantiate` or `topology` should begin"),
            ("source", 1, "expected the name of a file after `source`, found the end of the file"),
            ("instantiate [ a ]", 1, "`instantiate [ … ]` lacks `as` and the name of a block"),
            (
                "instantiate [ a2 .. a1 ] as A",
                1,
                "`a2 .. a1` is not a range; expected the same name with rising numbers",
            ),
            ("topology a b [ c ]", 1, "expected a name after `c`, found `]`"),
            ("topology a b [ c d [ ]", 1, "expected a part or `]` under `b`, found the end of the file"),
        ];
        for (text, line, problem) in cases {
            assert_eq!(parse(text).unwrap_err(), Fault::new(line, problem), "{text}");
        }
    }

    #[test]
    fn depth_has_a_bound() {
        let problem = parse(&format!("a B {{ x = {}", "[".repeat(100_000))).unwrap_err().problem;
        assert_eq!(problem, "more than 64 blocks or lists within one another");
        let problem = parse(&format!("topology {}", "a b [".repeat(100_000))).unwrap_err().problem;
        assert_eq!(problem, "more than 64 blocks or lists within one another");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "([a-z0-9 .#\n{}\\[\\],=]|source|topology|instantiate|as|\\PC){0,200}") {
            if let Err(fault) = parse(&text) {
                prop_assert!((1..=text.lines().count().max(1) as u32).contains(&fault.line));
            }
        }

        #[test]
        fn cut_and_changed_files_never_panic(at in 0..SYSTEM.len(), to in any::<char>(), cut in any::<bool>()) {
            let mut text: String = SYSTEM.to_owned();
            if cut { text.truncate(at) } else { text.replace_range(at..=at, &to.to_string()) }
            let _ = parse(&text);
        }
    }
}
