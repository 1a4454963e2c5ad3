//! The shell script client (`spec/mailbox.md#the-script`).

use std::path::Path;

use crate::mailbox::files::client_info::ClientInfo;
use crate::mailbox::files::name::CommandName;

/// Returns the script for a command in a directory. It runs in any POSIX shell.
pub(crate) fn client_script(command: &CommandName, directory: &Path, info: &ClientInfo) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let workspace = info.workspace.as_deref().unwrap_or_default();
    let values: [(&str, Vec<u8>); 6] = [
        ("@NAME@", command.as_str().as_bytes().to_vec()),
        ("@COMMAND@", quoted(command.as_str().as_bytes())),
        ("@DIRECTORY@", quoted(directory.as_os_str().as_bytes())),
        ("@WORKSPACE@", quoted(workspace.as_bytes())),
        ("@HOST@", quoted(info.host.as_bytes())),
        ("@VARIABLES@", quoted(info.variables.join(" ").as_bytes())),
    ];
    let mut script = Vec::new();
    for line in TEMPLATE.split_inclusive('\n') {
        let placeholder = values
            .iter()
            .find_map(|(placeholder, value)| Some((line.split_once(placeholder)?, value)));
        match placeholder {
            Some(((before, after), value)) => {
                script.extend_from_slice(before.as_bytes());
                script.extend_from_slice(value);
                script.extend_from_slice(after.as_bytes());
            }
            None => script.extend_from_slice(line.as_bytes()),
        }
    }
    script
}

const TEMPLATE: &str = include_str!("client.sh");

/// Quotes a word for the shell.
fn quoted(word: &[u8]) -> Vec<u8> {
    // Fails only for NUL bytes, which no path or name contains.
    shlex::bytes::try_quote(word).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_the_shell() {
        let info = ClientInfo {
            workspace: Some("../..".to_owned()),
            host: "/home/it's $HOME".to_owned(),
            variables: vec!["CI".to_owned(), "TERM".to_owned()],
        };
        let make = CommandName::parse(b"make").unwrap();
        let script = client_script(&make, Path::new("/home/it's $HOME/.swe-swe/proxy"), &info);
        let script = String::from_utf8(script).unwrap();
        assert!(script.starts_with("#!/bin/sh\n# Runs make on the host."));
        for line in [
            "command=make\n",
            "made_in=\"/home/it's \"'$HOME/.swe-swe/proxy'\n",
            "workspace=../..\n",
            "host=\"/home/it's \"'$HOME'\n",
            "variables='CI TERM'\n",
        ] {
            assert!(script.contains(line), "{line}{script}");
        }
        assert!(!script.contains('@') || !script.contains("@COMMAND@"));
    }
}
