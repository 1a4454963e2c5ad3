//! Allowlist of host commands for containers (`spec/mailbox.md#the-daemon`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aifo_types::{ExecRequest, ToolName};

/// The allowlist from the daemon's command line. No other input extends it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCommands {
    programs: BTreeMap<ToolName, PathBuf>,
    variables: Vec<String>,
}

/// An allowed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct HostCommand<'a> {
    /// The executable, as an absolute path that was resolved when the daemon started.
    pub program: &'a Path,
    /// The names of the caller's variables that it gets.
    pub variables: &'a [String],
}

impl HostCommands {
    /// Creates an empty allowlist whose commands get these variables.
    pub fn new(variables: Vec<String>) -> Self {
        HostCommands { programs: BTreeMap::new(), variables }
    }

    /// Allows `name`, which runs `program`.
    pub fn allow(&mut self, name: ToolName, program: PathBuf) {
        self.programs.insert(name, program);
    }

    /// Returns the command of a request, or `None` if the allowlist does not have it.
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
    fn only_listed_commands_are_allowed() {
        let name = |name: &str| ToolName::parse(name.as_bytes()).unwrap();
        let mut commands = HostCommands::new(vec!["CI".to_owned()]);
        commands.allow(name("make"), "/usr/bin/make".into());
        let judge = |tool: &str| {
            let id = ExecId::from_random([7; 16]);
            let request = ExecRequest::new(id, name(tool));
            commands.judge(&request).map(|command| command.program.to_owned())
        };
        assert_eq!(judge("make"), Some("/usr/bin/make".into()));
        assert_eq!(judge("gmake"), None);
        assert_eq!(judge("Make"), None);
    }
}
