//! A command of an engine, as data.

use std::ffi::{OsStr, OsString};
use std::fmt;

use crate::program::Program;

/// A program, its arguments, and variables for its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineCommand {
    pub(crate) program: Program,
    pub(crate) args: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl EngineCommand {
    pub(crate) fn new(program: &Program) -> Self {
        EngineCommand { program: program.clone(), args: Vec::new(), environment: Vec::new() }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable in the command environment. The value may be a secret.
    pub(crate) fn variable(mut self, name: &OsStr, value: &OsStr) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn prepare(&self) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program.file);
        command.args(&self.args).env("PATH", &self.program.path);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Formats the command to paste it into a shell, without its variables: as one line, or with `#` a line for each
/// option.
impl fmt::Display for EngineCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The PATH of the user's shell finds the same program.
        let file = &self.program.file;
        let program = file.file_name().unwrap_or(file.as_os_str());
        f.write_str(&quoted(program))?;
        for arg in &self.args {
            let is_option = f.alternate() && arg.as_encoded_bytes().starts_with(b"-");
            write!(f, "{}{}", if is_option { " \\\n  " } else { " " }, quoted(arg))?;
        }
        Ok(())
    }
}

/// Quotes a word for a POSIX shell. Invalid UTF-8 is replaced.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    // Fails only for NUL bytes, which no argument contains.
    shlex::try_quote(&word).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_a_line_to_paste() {
        let command = EngineCommand::new(&Program::at("/usr/bin/docker"))
            .args(["run", "--env", "TOKEN", "--label", "a=it's", "", "a b"])
            .variable("TOKEN".as_ref(), "secret".as_ref());
        let line = r#"docker run --env TOKEN --label "a=it's" '' 'a b'"#;
        assert_eq!(command.to_string(), line);
        let lines = "docker run \\\n  --env TOKEN \\\n  --label \"a=it's\" '' 'a b'";
        assert_eq!(format!("{command:#}"), lines);
    }
}
