//! A call of a tool, with its caller and environment.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The suites' fake tool (`tests/src/bin/aifo-test-tool.rs`) under an allowed name.
pub(crate) const FAKE: &str = "ninja";
/// `/bin/sh` under an allowed name.
pub(crate) const SHELL: &str = "hadolint";
/// `/bin/cat` under an allowed name.
pub(crate) const CAT: &str = "pkg-config";
/// A script whose interpreter is missing.
pub(crate) const NO_INTERPRETER: &str = "clang";
/// A file that may not be executed.
pub(crate) const NOT_EXECUTABLE: &str = "clang++";

/// A call. The caller is a shell and runs the tool with `"$@"`: its script prepares the call as far
/// as a shell can; the other fields do the rest.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    /// Its class, a row of the classes in `spec/native.md`.
    pub(crate) class: &'static str,
    /// Unique in its class.
    pub(crate) name: String,
    /// The tool name as typed.
    pub(crate) tool: &'static str,
    pub(crate) args: Vec<OsString>,
    /// A script for `/bin/sh`; `{outside}` is a directory outside the workspace.
    pub(crate) caller: String,
    pub(crate) stdin: Stdin,
    pub(crate) output: Output,
    /// Added to the caller environment.
    pub(crate) env: Vec<(&'static str, OsString)>,
    /// Files in the caller directory, by name.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    /// Steps while the call runs, in order.
    pub(crate) steps: Vec<Step>,
    pub(crate) starts: Starts,
}

/// The caller's stdin.
#[derive(Clone, Debug)]
pub(crate) enum Stdin {
    Null,
    /// A pipe with these bytes.
    Pipe(Vec<u8>),
    /// A pipe that stays open until the call or a step closes it.
    Open,
    /// A unix socket with these bytes.
    Socket(Vec<u8>),
    /// A TCP connection with these bytes.
    Inet(Vec<u8>),
}

/// The caller's stdout and stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A pipe each.
    Apart,
    /// One pipe for both.
    Merged,
    /// A unix socket pair each, as Node gives its children.
    Sockets,
    /// A terminal, which is also stdin.
    Terminal,
}

/// An action on a running call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Wait until its output contains this.
    Expect(&'static str),
    /// Send it this signal.
    Signal(i32),
    /// Wait until a signal has stopped it.
    Stopped,
    /// Wait until a shim reads its terminal. It may do so after the tool's first output, which does
    /// not pass through it.
    Raw,
    /// Write to its open pipe, or type on its terminal.
    Feed(&'static str),
    /// Close its open pipe.
    Close,
}

/// Selects whether the tool can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starts {
    Yes,
    /// No. The error text on stderr differs, so only its presence is compared.
    No,
}

/// A caller that execs the tool.
const BECOMES: &str = "exec \"$@\"";

impl Invocation {
    /// The simplest call: empty stdin, and a pipe for each output.
    pub(crate) fn new<A: Into<OsString>>(
        name: impl Into<String>,
        tool: &'static str,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Invocation {
            class: "",
            name: name.into(),
            tool,
            args: args.into_iter().map(Into::into).collect(),
            caller: BECOMES.to_owned(),
            stdin: Stdin::Null,
            output: Output::Apart,
            env: Vec::new(),
            files: Vec::new(),
            steps: Vec::new(),
            starts: Starts::Yes,
        }
    }

    /// A call of a shell that runs `script`.
    pub(crate) fn shell(name: impl Into<String>, script: impl Into<String>) -> Self {
        Invocation::new(name, SHELL, ["-c".to_owned(), script.into()])
    }

    /// A call of the fake tool.
    pub(crate) fn fake<const N: usize>(name: impl Into<String>, args: [&str; N]) -> Self {
        Invocation::new(name, FAKE, args)
    }

    /// A call of python with a program.
    pub(crate) fn python(name: impl Into<String>, program: &str) -> Self {
        Invocation::new(name, "python3", ["-c", program])
    }

    /// A call of node with a program.
    pub(crate) fn node(name: impl Into<String>, program: &str) -> Self {
        Invocation::new(name, "node", ["-e", program])
    }

    /// Copies stdin to stdout.
    pub(crate) fn cat(name: impl Into<String>) -> Self {
        Invocation::new(name, CAT, [""; 0])
    }

    pub(crate) fn caller(mut self, script: impl Into<String>) -> Self {
        self.caller = script.into();
        self
    }

    /// Runs `preparation` before the caller execs the tool.
    pub(crate) fn after(self, preparation: &str) -> Self {
        self.caller(format!("{preparation}; {BECOMES}"))
    }

    /// Execs the tool with these redirections.
    pub(crate) fn redirected(self, redirections: &str) -> Self {
        self.caller(format!("{BECOMES} {redirections}"))
    }

    pub(crate) fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    pub(crate) fn piped(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin(Stdin::Pipe(bytes.into()))
    }

    pub(crate) fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    pub(crate) fn merged(self) -> Self {
        self.output(Output::Merged)
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    pub(crate) fn file(mut self, name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((name, content.into()));
        self
    }

    pub(crate) fn steps(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.steps.extend(steps);
        self
    }

    pub(crate) fn never_starts(mut self) -> Self {
        self.starts = Starts::No;
        self
    }

    /// True if versions 1 and 2 support it, with one pipe for both outputs: only arguments and a
    /// directory.
    pub(crate) fn fits_version_2(&self) -> bool {
        self.caller == BECOMES
            && self.env.is_empty()
            && self.steps.is_empty()
            && matches!(self.stdin, Stdin::Null)
            && matches!(self.output, Output::Apart | Output::Merged)
    }

    /// Class and name.
    pub(crate) fn title(&self) -> String {
        format!("{}: {}", self.class, self.name)
    }
}

/// Bytes as an argument.
pub(crate) fn bytes(bytes: impl Into<Vec<u8>>) -> OsString {
    OsString::from_vec(bytes.into())
}
