//! Which commands of the host containers may run (`spec/mailbox.md#the-daemon`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aifo_types::{ExecRequest, ToolName};

/// An allowlist that a user wrote on a command line: nothing else can widen it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCommands {
    programs: BTreeMap<ToolName, PathBuf>,
    variables: Vec<String>,
}

/// A command that may be run, and with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct HostCommand<'a> {
    /// Its executable file, an absolute path that was found before anybody asked.
    pub program: &'a Path,
    /// The caller's variables that pass to it, by their names.
    pub variables: &'a [String],
}

impl HostCommands {
    /// No command yet, and these variables for each.
    pub fn new(variables: Vec<String>) -> Self {
        HostCommands { programs: BTreeMap::new(), variables }
    }

    /// Allows a command, which is this program from now on.
    pub fn allow(&mut self, name: ToolName, program: PathBuf) {
        self.programs.insert(name, program);
    }

    /// Judges a request: `None` if its command is not on the list.
    pub fn judge(&self, request: &ExecRequest) -> Option<HostCommand<'_>> {
        let program = self.programs.get(&request.tool)?;
        Some(HostCommand { program, variables: &self.variables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::ExecId;

    #[test]
    fn what_was_named_may_run_as_what_it_was() {
        let name = |name: &str| ToolName::parse(name.as_bytes()).unwrap();
        let mut commands = HostCommands::new(vec!["CI".to_owned()]);
        commands.allow(name("make"), "/usr/bin/make".into());
        let judge = |tool: &str| {
            let id = ExecId::from_random([7; 16]);
            let request = ExecRequest { id, tool: name(tool), args: Vec::new(), cwd: None };
            commands.judge(&request).map(|command| command.program.to_owned())
        };
        assert_eq!(judge("make"), Some("/usr/bin/make".into()));
        assert_eq!(judge("gmake"), None);
        assert_eq!(judge("Make"), None);
    }
}
