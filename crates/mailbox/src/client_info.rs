//! The `.mailbox` file: information for a command's clients (`spec/mailbox.md#client-information`).

/// The content of `COMMAND.mailbox`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientInfo {
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
    /// Parses the file. `None` if it has another version or is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let is_ours = lines.next() == Some(("mailbox", VERSION));
        let mut info = is_ours.then(ClientInfo::default)?;
        for (key, value) in lines {
            match key {
                "workspace" => info.workspace = Some(value.to_owned()),
                "host" => info.host = value.to_owned(),
                "env" => info.variables.push(value.to_owned()),
                _ => {}
            }
        }
        Some(info)
    }

    /// Encodes the file. Omits a value that contains a line end, since it could be read as another
    /// field.
    pub fn encode(&self) -> String {
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
    fn encoded_information_is_parsed() {
        let info = ClientInfo {
            workspace: Some("../..".to_owned()),
            host: "/home/me/a project".to_owned(),
            variables: vec!["CI".to_owned()],
        };
        assert_eq!(ClientInfo::parse(&info.encode()), Some(info.clone()));
        let odd = ClientInfo { host: "/a\nenv LD_PRELOAD".to_owned(), ..info };
        assert_eq!(ClientInfo::parse(&odd.encode()).unwrap().variables, ["CI"]);
        assert_eq!(ClientInfo::parse("mailbox 1\n"), Some(ClientInfo::default()));
        for text in ["", "mailbox 2\n", "host /x\nmailbox 1\n"] {
            assert_eq!(ClientInfo::parse(text), None, "{text}");
        }
    }
}
