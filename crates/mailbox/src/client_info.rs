//! What a command's clients are to know (`spec/mailbox.md#what-a-client-knows`).

/// The content of `COMMAND.mailbox`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientInfo {
    /// The way from the directory to the workspace, `../..` or the like, if there is one.
    pub workspace: Option<String>,
    /// The workspace as the host calls it.
    pub host: String,
    /// The variables of a caller that pass.
    pub variables: Vec<String>,
}

/// Of the form of this file and of everything a client says.
const VERSION: &str = "1";

impl ClientInfo {
    /// Reads it. `None` if it is of another version, or no card at all.
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

    /// The form that [`ClientInfo::parse`] reads. A path with a line end in it is left out: clients would
    /// take its second half for something else.
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
    fn it_is_read_as_it_was_written() {
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
