//! The `.mailbox` file: information for a command's clients (`spec/mailbox.md#client-information`).

/// The content of `COMMAND.mailbox`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientInfo {
    /// Relative path from the mailbox to the workspace, such as `../..`, if there is one.
    pub workspace: Option<String>,
    /// The host's path of the workspace.
    pub host: String,
    /// Names of variables that are forwarded.
    pub variables: Vec<String>,
}

/// Version of this file and of all client files.
const VERSION: &str = "1";

impl ClientInfo {
    /// Encodes the file. Omits a value that contains a line end, since it could be read as another
    /// field.
    pub(crate) fn encode(&self) -> String {
        let workspace = self.workspace.iter().map(|value| ("workspace", value));
        let variables = self.variables.iter().map(|value| ("env", value));
        let fields = workspace.chain([("host", &self.host)]).chain(variables);
        let lines = fields.filter(|(_, value)| !value.contains('\n'));
        let lines = lines.map(|(key, value)| format!("{key} {value}\n"));
        std::iter::once(format!("mailbox {VERSION}\n")).chain(lines).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_a_line_end_is_omitted() {
        let info = ClientInfo {
            workspace: Some("../..".to_owned()),
            host: "/home/me/a project".to_owned(),
            variables: vec!["CI".to_owned()],
        };
        let encoded = "mailbox 1\nworkspace ../..\nhost /home/me/a project\nenv CI\n";
        assert_eq!(info.encode(), encoded);
        let odd = ClientInfo { host: "/a\nenv LD_PRELOAD".to_owned(), ..info };
        assert_eq!(odd.encode(), "mailbox 1\nworkspace ../..\nenv CI\n");
    }
}
