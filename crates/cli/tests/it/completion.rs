//! Completion in the shells themselves: a test types a line and Tab in an interactive shell on a terminal, and checks
//! the completed line.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use sakiyomi_testing::{has_terminals, skipped, wait_until};

use crate::scratch::{Scratch, repository};

/// Typed text and its completion. A trailing space means that the word is finished.
const COMPLETED: &[(&str, &str)] = &[
    ("sakiyomi sw", "sakiyomi sweep "),
    ("sakiyomi sim t --wr", "sakiyomi sim t --wrap "),
    ("./bin/sakiyomi sim t --wr", "./bin/sakiyomi sim t --wrap "),
    ("true; ./bin/sakiyomi trace conv", "true; ./bin/sakiyomi trace convert "),
    // Drives, or files.
    ("sakiyomi sim t --drive near", "sakiyomi sim t --drive nearline-18tb "),
    ("sakiyomi sim t --drive=near", "sakiyomi sim t --drive=nearline-18tb "),
    ("sakiyomi sim t --drive mi", "sakiyomi sim t --drive mine.toml "),
    ("sakiyomi sim t --drive=my\\ d", "sakiyomi sim t --drive=my\\ drive.toml "),
    ("sakiyomi mount a b --drive fixe", "sakiyomi mount a b --drive fixed:"),
    // Keys and their names.
    ("sakiyomi sim t --set queue.po", "sakiyomi sim t --set queue.policy="),
    ("sakiyomi sim t --set queue.policy=lo", "sakiyomi sim t --set queue.policy=look "),
    ("sakiyomi sim t --set=queue.policy=lo", "sakiyomi sim t --set=queue.policy=look "),
    ("sakiyomi sweep t --vary queue.policy=fcfs,lo", "sakiyomi sweep t --vary queue.policy=fcfs,look "),
    (
        "sakiyomi scenario run small.toml --vary process.reader.cal",
        "sakiyomi scenario run small.toml --vary process.reader.call=",
    ),
    // Formats and methods.
    ("sakiyomi trace info t --format sys", "sakiyomi trace info t --format systor17 "),
    ("sakiyomi probe --method read,popu", "sakiyomi probe --method read,populate:"),
    // Paths and commands.
    ("sakiyomi sim my\\ t", "sakiyomi sim my\\ trace.csv "),
    ("sakiyomi sim t --out res", "sakiyomi sim t --out results/"),
    ("sakiyomi sim t --out=res", "sakiyomi sim t --out=results/"),
    ("sakiyomi run -- distinctive-com", "sakiyomi run -- distinctive-command "),
    ("sakiyomi run -- cat my\\ t", "sakiyomi run -- cat my\\ trace.csv "),
    // Nothing to say.
    ("sakiyomi sim t --warm-up re", "sakiyomi sim t --warm-up re"),
];

/// Returns a directory with files to complete, and sakiyomi in `bin`.
fn prepared(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    for directory in ["bin", "results", "home"] {
        fs::create_dir(scratch.0.join(directory)).unwrap();
    }
    let program = env!("CARGO_BIN_EXE_sakiyomi");
    symlink(program, scratch.0.join("bin/sakiyomi")).unwrap();
    symlink(program, scratch.0.join("bin/distinctive-command")).unwrap();
    for file in ["my trace.csv", "mine.toml", "my drive.toml", "result.txt"] {
        scratch.file(file, "");
    }
    let scenario = "name = 's'\ndrive.fixed = 'latency=1ms'\n[[process]]\nname = 'reader'\nsize = '1MiB'\n";
    scratch.file("small.toml", scenario);
    scratch
}

fn has(program: &str) -> bool {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// An interactive shell on a pseudo-terminal, which writes the line to `line` at Ctrl-X Ctrl-B.
struct Interactive<'a> {
    scratch: &'a Scratch,
    terminal: Child,
}

impl Interactive<'_> {
    fn start<'a>(scratch: &'a Scratch, shell: &str) -> Interactive<'a> {
        let path = format!("{}:{}", scratch.0.join("bin").display(), std::env::var("PATH").unwrap());
        let mut script = Command::new("script");
        script.args(["-q", "-f", "-e", "-c", shell, "/dev/null"]).current_dir(&scratch.0);
        script.env("PATH", path).env("TERM", "dumb").env("HOME", scratch.0.join("home"));
        script.env("ZDOTDIR", &scratch.0).env("LC_ALL", "C.UTF-8").env_remove("BASH_ENV");
        script.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = Interactive { scratch, terminal: script.spawn().unwrap() };
        shell.wait_for("ready");
        shell
    }

    fn wait_for(&self, name: &str) {
        wait_until(&format!("the shell does not write {name}"), || self.scratch.0.join(name).exists());
    }

    /// Returns the line after `typed` and Tab.
    fn completed(&mut self, typed: &str) -> String {
        let file = self.scratch.0.join("line");
        let _ = fs::remove_file(&file);
        // Ctrl-U empties the line.
        let keys = format!("\x15{typed}\t\x18\x02");
        let input = self.terminal.stdin.as_mut().unwrap();
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).unwrap();
        self.wait_for("line");
        fs::read_to_string(file).unwrap()
    }
}

impl Drop for Interactive<'_> {
    fn drop(&mut self) {
        let _ = self.terminal.kill();
        let _ = self.terminal.wait();
    }
}

fn assert_completed(scratch: &Scratch, shell: &str) {
    let mut interactive = Interactive::start(scratch, shell);
    for (typed, expected) in COMPLETED {
        assert_eq!(interactive.completed(typed), *expected, "{shell}: {typed}");
    }
}

/// Returns whether a shell can be run on a terminal here; reports a skip of `test` otherwise.
fn can_type_into(shell: &str, test: &str) -> bool {
    if !has(shell) {
        skipped(test, format_args!("needs {shell}"));
        return false;
    }
    has_terminals(test)
}

#[test]
fn bash_completes_drives_keys_formats_and_paths() {
    if !can_type_into("bash", "bash_completes") {
        return;
    }
    let scratch = prepared("completion_bash");
    scratch.file(
        "rc",
        "PS1='$ '; unset HISTFILE; set -o emacs
         source <(sakiyomi completions bash)
         bind -x '\"\\C-x\\C-b\": printf %s \"$READLINE_LINE\" > line.new; mv line.new line'
         PROMPT_COMMAND='touch ready'",
    );
    assert_completed(&scratch, "bash --noprofile --rcfile rc -i");
}

#[test]
fn zsh_completes_drives_keys_formats_and_paths() {
    if !can_type_into("zsh", "zsh_completes") {
        return;
    }
    let scratch = prepared("completion_zsh");
    scratch.file(
        ".zshrc",
        "PS1='$ '
         autoload -Uz compinit && compinit -u -D
         source <(sakiyomi completions zsh)
         bindkey -e
         bindkey '^I' complete-word
         show() { print -rn -- \"$BUFFER\" > line.new; mv line.new line }
         zle -N show; bindkey '^X^B' show
         zle-line-init() { touch ready }
         zle -N zle-line-init",
    );
    assert_completed(&scratch, "zsh -d -i");
}

#[test]
fn zsh_loads_the_script_from_its_path_of_functions() {
    if !can_type_into("zsh", "zsh_loads_the_script") {
        return;
    }
    let scratch = prepared("completion_zsh_fpath");
    fs::create_dir(scratch.0.join("functions")).unwrap();
    scratch.file("functions/_sakiyomi", scratch.ok("completions zsh"));
    scratch.file(
        ".zshrc",
        "PS1='$ '; fpath=($PWD/functions $fpath)
         autoload -Uz compinit && compinit -u -D
         bindkey -e
         bindkey '^I' complete-word
         show() { print -rn -- \"$BUFFER\" > line.new; mv line.new line }
         zle -N show; bindkey '^X^B' show
         zle-line-init() { touch ready }
         zle -N zle-line-init",
    );
    let mut interactive = Interactive::start(&scratch, "zsh -d -i");
    let completed = interactive.completed("sakiyomi sim t --drive near");
    assert_eq!(completed, "sakiyomi sim t --drive nearline-18tb ");
}

#[test]
fn fish_completes_drives_keys_formats_and_paths() {
    if !has("fish") {
        return skipped("fish_completes", "needs fish");
    }
    let scratch = prepared("completion_fish");
    let path = format!("{}:{}", scratch.0.join("bin").display(), std::env::var("PATH").unwrap());
    for (typed, expected) in COMPLETED {
        // Fish returns the word, and adds the space itself; lines with several commands are beyond `complete -C`.
        if typed.contains(';') {
            continue;
        }
        let script =
            format!("sakiyomi completions fish | source; complete -C '{}'", typed.replace('\\', "\\\\"));
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &script]).current_dir(&scratch.0).stdin(Stdio::null());
        fish.env("PATH", &path).env("HOME", scratch.0.join("home")).env("LC_ALL", "C.UTF-8");
        let output = fish.output().unwrap();
        let offered = String::from_utf8(output.stdout).unwrap();
        let words: Vec<&str> = offered.lines().map(|line| line.split('\t').next().unwrap()).collect();
        // The last word begins after the last unquoted space.
        let mut spaces = typed.match_indices(' ').filter(|&(at, _)| !typed[..at].ends_with('\\'));
        let begin = spaces.next_back().unwrap().0;
        let wanted = expected[begin..].trim().replace('\\', "");
        if typed == expected {
            assert!(words.is_empty(), "{typed}: {offered}");
        } else {
            assert_eq!(words, [wanted.as_str()], "{typed}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

#[test]
fn a_request_of_a_shell_is_answered_in_lines() {
    let scratch = Scratch::new("completion_lines");
    let answer = scratch.ok("__complete 3 sakiyomi drive show near");
    let first = repository("crates/drive/drives/nearline-18tb.toml");
    let name = fs::read_to_string(first).unwrap();
    let name = name.lines().find_map(|line| line.strip_prefix("name = \"")).unwrap().trim_end_matches('"');
    assert_eq!(answer, format!("files\nnearline-18tb\t{name}\n"));
    // For any request of a shell.
    for words in
        ["__complete", "__complete x", "__complete 99 sakiyomi", "__complete 0", "__complete 1 sakiyomi"]
    {
        scratch.ok(words);
    }
}
