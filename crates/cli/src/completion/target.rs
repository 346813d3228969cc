//! Finds the argument that a word of an unfinished command line belongs to.

use clap::{Arg, Command};

/// The part of the command line that a word belongs to.
pub(super) struct Target<'a> {
    /// The program, built.
    pub(super) program: &'a Command,
    /// The command that the words name.
    pub(super) command: &'a Command,
    /// Its path of names, without the program's: `trace convert`.
    pub(super) path: String,
    /// The positional words before it.
    pub(super) operands: Vec<&'a str>,
    /// The word as typed so far.
    pub(super) current: &'a str,
    pub(super) place: Place<'a>,
}

pub(super) enum Place<'a> {
    /// The value of an option, after `prefix` of the word, such as `--drive=` or empty.
    Value { option: &'a Arg, prefix: &'a str },
    /// An option.
    Option,
    /// The `index`-th word of a positional argument, or a subcommand if there are some.
    Positional { argument: Option<&'a Arg>, index: usize },
}

/// State of the parse after some words.
struct Walk<'a> {
    command: &'a Command,
    path: Vec<&'a str>,
    /// The option that expects the next word as its value.
    pending: Option<&'a Arg>,
    /// The positional words so far.
    operands: Vec<&'a str>,
    /// Number of positional words that the arguments before the next one take.
    taken: usize,
    /// Whether `--` has ended the options.
    escaped: bool,
}

impl<'a> Target<'a> {
    /// Finds the target of `current` after the words `before` it, without the program's name.
    pub(super) fn find(cli: &'a Command, before: &'a [String], current: &'a str) -> Target<'a> {
        let mut walk = Walk {
            command: cli,
            path: Vec::new(),
            pending: None,
            operands: Vec::new(),
            taken: 0,
            escaped: false,
        };
        before.iter().for_each(|word| walk.step(word));
        let place = walk.place(current);
        Target {
            program: cli,
            command: walk.command,
            path: walk.path.join(" "),
            operands: walk.operands,
            current,
            place,
        }
    }
}

impl<'a> Walk<'a> {
    fn step(&mut self, word: &'a str) {
        if self.pending.take().is_some() {
            return;
        }
        if self.escaped || !word.starts_with('-') || word == "-" {
            self.step_positional(word);
        } else if word == "--" {
            self.escaped = true;
            // Some arguments are permitted only after it.
            if self.command.get_positionals().any(Arg::is_last_set) {
                let others = self.command.get_positionals().take_while(|argument| !argument.is_last_set());
                self.taken = others.map(most_words).fold(0, usize::saturating_add);
            }
        } else if let Some(name) = word.strip_prefix("--") {
            self.pending =
                if name.contains('=') { None } else { self.long(name).filter(|arg| needs_value(arg)) };
        } else {
            self.pending =
                self.cluster(&word[1..]).filter(|(_, rest)| rest.is_empty()).map(|(option, _)| option);
        }
    }

    fn step_positional(&mut self, word: &'a str) {
        if let Some(below) = self.command.find_subcommand(word).filter(|_| !self.escaped && self.taken == 0) {
            self.command = below;
            self.path.push(below.get_name());
            return;
        }
        // A command to run has options of its own.
        let (argument, _) = self.positional();
        self.escaped |= argument.is_some_and(Arg::is_trailing_var_arg_set);
        self.taken += 1;
        self.operands.push(word);
    }

    fn place(&self, current: &'a str) -> Place<'a> {
        if let Some(option) = self.pending {
            return Place::Value { option, prefix: "" };
        }
        if self.escaped || !current.starts_with('-') {
            let (argument, index) = self.positional();
            return Place::Positional { argument, index };
        }
        if let Some((name, _)) = current.strip_prefix("--").and_then(|rest| rest.split_once('='))
            && let Some(option) = self.long(name)
        {
            return Place::Value { option, prefix: &current[..name.len() + 3] };
        }
        Place::Option
    }

    /// Returns the next positional argument, and the number of its words so far; an argument with an unlimited number
    /// takes all of them.
    fn positional(&self) -> (Option<&'a Arg>, usize) {
        let mut left = self.taken;
        for argument in self.command.get_positionals() {
            let takes = most_words(argument);
            if left < takes {
                return (Some(argument), left);
            }
            left -= takes;
        }
        (None, left)
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_opts().find(|option| option.get_long() == Some(name))
    }

    /// Returns the option of a cluster such as `-nm5` that takes a value, and the part of the value in the cluster.
    fn cluster(&self, letters: &'a str) -> Option<(&'a Arg, &'a str)> {
        letters.char_indices().find_map(|(at, letter)| {
            let option = self.command.get_opts().find(|option| option.get_short() == Some(letter))?;
            needs_value(option).then(|| (option, &letters[at + letter.len_utf8()..]))
        })
    }
}

/// Returns the maximum number of words of an argument.
fn most_words(argument: &Arg) -> usize {
    argument.get_num_args().map_or(1, |range| range.max_values())
}

/// Returns whether the next word is the option's value.
fn needs_value(option: &Arg) -> bool {
    option.get_action().takes_values() && option.get_num_args().is_none_or(|range| range.min_values() > 0)
}
