//! Commands of calls and rules, in a form that can be compared.

use super::shell::ShellText;

/// The command of a call (`spec/acp.md#commands`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCommand {
    /// The words, if the command is exactly one program with its arguments.
    single: Option<Vec<String>>,
    /// The words of every program in it, as far as they can be parsed.
    parts: Vec<Vec<String>>,
}

impl CallCommand {
    /// Parses shell text.
    pub fn from_text(text: &str) -> Self {
        of_text(text, 0)
    }

    /// Parses an argument list.
    pub fn from_argv(argv: &[String]) -> Self {
        of_argv(argv.to_vec(), 0)
    }

    /// Combines several texts of which one will run. Allow rules match none of them, deny rules
    /// match each.
    pub fn from_any<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let parts = texts.into_iter().flat_map(|text| of_text(text, 0).parts).collect();
        CallCommand { single: None, parts }
    }

    /// Returns the words, if the command is exactly one program with its arguments.
    pub fn single(&self) -> Option<&[String]> {
        self.single.as_deref()
    }

    /// Returns the words of every program in it, as far as they can be parsed.
    pub fn parts(&self) -> &[Vec<String>] {
        &self.parts
    }

    /// Returns whether it is exactly this program with these arguments.
    pub(super) fn is(&self, command: &RuleCommand) -> bool {
        self.single.as_ref() == Some(&command.argv)
    }

    /// Returns whether one of its programs is this one with these arguments. A rule's program
    /// without a directory matches in any directory.
    pub(super) fn runs(&self, command: &RuleCommand) -> bool {
        let Some((program, args)) = command.argv.split_first() else { return false };
        self.parts.iter().any(|part| {
            part.split_first().is_some_and(|(name, rest)| {
                let is_program =
                    name == program || (!program.contains('/') && base(name) == program);
                is_program && rest == args
            })
        })
    }
}

/// The command of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCommand {
    text: String,
    argv: Vec<String>,
    is_plain: bool,
}

impl RuleCommand {
    /// Parses a rule's command; `None` unless it is one program with its arguments.
    pub fn parse(text: &str) -> Option<Self> {
        let CallCommand { single, mut parts } = CallCommand::from_text(text);
        let is_plain = single.is_some();
        let argv = match single {
            Some(argv) => argv,
            // A word with an expansion can be denied as it is written.
            None if parts.len() == 1 => parts.pop()?,
            None => return None,
        };
        Some(RuleCommand { text: text.to_owned(), argv, is_plain })
    }

    /// Returns the original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether it has no shell expansion, so that it can be allowed.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }
}

fn of_text(text: &str, depth: usize) -> CallCommand {
    let ShellText { mut commands, is_plain } = ShellText::parse(text);
    if is_plain && let Some(argv) = commands.pop() {
        return of_argv(argv, depth);
    }
    let parts = commands.into_iter().flat_map(|argv| of_argv(argv, depth).parts).collect();
    CallCommand { single: None, parts }
}

fn of_argv(argv: Vec<String>, depth: usize) -> CallCommand {
    if depth > MAX_DEPTH || argv.is_empty() {
        return CallCommand::default();
    }
    let Some(texts) = shell_texts(&argv) else {
        return CallCommand { parts: vec![argv.clone()], single: Some(argv) };
    };
    let inner: Vec<CallCommand> = texts.iter().map(|text| of_text(text, depth + 1)).collect();
    let parts = inner.iter().flat_map(|command| command.parts.clone());
    let single = match inner.as_slice() {
        [only] if runs_nothing_else(&argv) => only.single.clone(),
        _ => None,
    };
    CallCommand { parts: parts.chain([argv]).collect(), single }
}

/// Maximum nesting of shells.
const MAX_DEPTH: usize = 16;

const SHELLS: [&str; 9] = ["sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish"];
/// Directories of the system's shells.
const SHELL_DIRS: [&str; 4] = ["", "/bin/", "/usr/bin/", "/usr/local/bin/"];

/// Returns the arguments that may be the text of a shell's `-c`, or `None` without a shell or `-c`.
fn shell_texts(argv: &[String]) -> Option<Vec<&str>> {
    let mut words = argv.iter().map(String::as_str);
    let mut program = base(words.next()?);
    if matches!(program, "busybox" | "toybox") {
        program = words.next()?;
    }
    if !SHELLS.contains(&program) {
        return None;
    }
    let is_option = |word: &&str| word.starts_with(['-', '+']) && word.len() > 1;
    let (options, others): (Vec<&str>, Vec<&str>) = words.partition(is_option);
    let is_command = |option: &&str| {
        option.starts_with("--command") || (!option.starts_with("--") && option.contains('c'))
    };
    let within = options.iter().filter_map(|option| option.strip_prefix("--command="));
    let texts = others.into_iter().chain(within).collect();
    options.iter().any(is_command).then_some(texts)
}

/// Returns whether the words are `sh -l -c TEXT` in any spelling, without other options.
fn runs_nothing_else(argv: &[String]) -> bool {
    let [program, options @ .., _] = argv else { return false };
    let name = base(program);
    let dir = program.strip_suffix(name).unwrap_or_default();
    let is_known = SHELL_DIRS.contains(&dir) && SHELLS.contains(&name) && name != "fish";
    let known =
        |option: &String| matches!(option.as_str(), "-l" | "--login" | "-c" | "-lc" | "-cl");
    is_known && options.iter().all(known)
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> CallCommand {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        CallCommand::from_argv(&words)
    }

    /// Checks `is` and `runs` for `make CC=gcc`.
    #[track_caller]
    fn check(command: &CallCommand, is: bool, runs: bool) {
        let rule = RuleCommand::parse("make CC=gcc").unwrap();
        assert_eq!((command.is(&rule), command.runs(&rule)), (is, runs), "{command:?}");
    }

    #[test]
    fn a_text_and_words_are_one_command() {
        for text in ["make CC=gcc", "  make  'CC=gcc' ", "make CC=\"gcc\"", "ma\\ke CC=gcc"] {
            check(&CallCommand::from_text(text), true, true);
        }
        check(&argv(&["make", "CC=gcc"]), true, true);
        check(&argv(&["make CC=gcc"]), false, false);
        for text in ["make", "make CC=gcc x", "make CC=gccx", "make CC gcc", "CC=gcc make", ""] {
            check(&CallCommand::from_text(text), false, false);
        }
        for text in ["/usr/bin/make CC=gcc", "./make CC=gcc"] {
            check(&CallCommand::from_text(text), false, true);
        }
    }

    #[test]
    fn a_shell_that_runs_one_command_is_that_command() {
        let options: [&[&str]; 6] =
            [&["-c"], &["-lc"], &["-cl"], &["-l", "-c"], &["--login", "-c"], &["-c", "-l"]];
        for shell in ["sh", "bash", "dash", "ash", "zsh", "/bin/sh", "/usr/bin/bash"] {
            for options in options {
                let words = [&[shell], options, &["make CC=gcc"]].concat();
                check(&argv(&words), true, true);
                let text = words.iter().map(|word| shlex::try_quote(word).unwrap());
                check(&CallCommand::from_text(&text.collect::<Vec<_>>().join(" ")), true, true);
            }
        }
        check(&argv(&["sh", "-c", "bash -lc 'make CC=gcc'"]), true, true);
    }

    #[test]
    fn a_shell_with_more_than_one_command_only_runs_it() {
        let rows: [&[&str]; 13] = [
            &["bash", "-lc", "cd x && make CC=gcc"],
            &["bash", "-lc", "make CC=gcc; x"],
            &["bash", "-lc", "make CC=gcc", "x"],
            &["bash", "-ic", "make CC=gcc"],
            &["bash", "-ec", "make CC=gcc"],
            &["bash", "--rcfile", "x", "-c", "make CC=gcc"],
            &["bash", "-o", "pipefail", "-c", "make CC=gcc | tee x"],
            &["bash", "+x", "-c", "make CC=gcc"],
            &["/tmp/sh", "-c", "make CC=gcc"],
            &["fish", "-c", "make CC=gcc"],
            &["fish", "--command=make CC=gcc"],
            &["busybox", "sh", "-c", "make CC=gcc"],
            &["sh", "-c", "x; sh -c 'echo $(make CC=gcc)'"],
        ];
        for words in rows {
            check(&argv(words), false, true);
        }
        check(&argv(&["bash", "make", "CC=gcc"]), false, false);
        check(&argv(&["bash", "-lc", "echo make CC=gcc"]), false, false);
        check(&CallCommand::from_any(["x", "make CC=gcc"]), false, true);
    }

    #[test]
    fn a_compound_text_runs_each_of_its_commands() {
        let rows = [
            "make CC=gcc; x",
            "x && make CC=gcc",
            "make CC=gcc | x",
            "make CC=gcc\nx",
            "make CC=gcc &",
            "make CC=gcc > log",
            "(make CC=gcc)",
            "A=1 make CC=gcc",
            "echo $(make CC=gcc)",
            "echo `make CC=gcc`",
            "if make CC=gcc; then x; fi",
            "x || bash -lc 'make CC=gcc'",
        ];
        for text in rows {
            check(&CallCommand::from_text(text), false, true);
        }
        // Expansions are unknown.
        for text in ["make $X", "make CC=g*", "$M CC=gcc", "make CC=$(x)"] {
            check(&CallCommand::from_text(text), false, false);
        }
    }

    #[test]
    fn the_command_of_a_rule_is_one_program() {
        let argv = |text| RuleCommand::parse(text).map(|command| (command.argv, command.is_plain));
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(argv("make  CC=gcc"), Some((words(&["make", "CC=gcc"]), true)));
        assert_eq!(argv("bash -lc 'make CC=gcc'"), Some((words(&["make", "CC=gcc"]), true)));
        assert_eq!(argv("rm -rf *"), Some((words(&["rm", "-rf", "*"]), false)));
        for text in ["", " ", "a && b", "A=1", "bash -lc 'a; b'"] {
            assert_eq!(argv(text), None, "{text}");
        }
    }

    #[test]
    fn nested_shells_are_followed() {
        let deep = |count: usize| {
            let mut words = argv(&["make", "CC=gcc"]);
            let mut text = "make CC=gcc".to_owned();
            for _ in 0..count {
                text = format!("sh -c {}", shlex::try_quote(&text).unwrap());
                words = CallCommand::from_text(&text);
            }
            words
        };
        check(&deep(5), true, true);
    }
}
