//! The clients in a mailbox directory.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use aifo_process::current_path;

use crate::mailbox::files::{ClientInfo, CommandName, Directory, client_info_file, client_script};

/// Writes the client of a command and its configuration. Replaces files of these names, but no
/// directory.
pub(crate) fn put_client(
    directory: &Directory,
    command: &CommandName,
    workspace: &Path,
    variables: &[String],
) -> io::Result<()> {
    let here = current_path(&directory.as_fd())?;
    let info = ClientInfo {
        workspace: relative_path(&here, workspace),
        host: workspace.to_string_lossy().into_owned(),
        variables: variables.to_vec(),
    };
    directory.replace_bytes(&client_info_file(command.as_str()), info.encode().as_bytes())?;
    let script = client_script(command, &here, &info);
    directory.replace(command.as_str(), EXECUTABLE, |file| file.write_all(&script))
}

/// Removes both files of a command.
pub(crate) fn remove_client(directory: &Directory, command: &CommandName) {
    for name in [command.as_str(), &client_info_file(command.as_str())] {
        // A container may have removed it, or replaced it with a directory.
        let _ = directory.remove(name);
    }
}

const EXECUTABLE: u32 = 0o755;

/// Returns the relative path from a directory to the workspace that contains it.
fn relative_path(directory: &Path, workspace: &Path) -> Option<String> {
    let steps = directory.strip_prefix(workspace).ok()?.components().count();
    Some(if steps == 0 { ".".to_owned() } else { vec![".."; steps].join("/") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_to_the_workspace() {
        let rows = [
            ("/w/p/.swe-swe/proxy", Some("../..")),
            ("/w/p", Some(".")),
            ("/w/p2/x", None),
            ("/home/me/.swe-swe/proxy", None),
        ];
        for (directory, expected) in rows {
            let path = relative_path(Path::new(directory), Path::new("/w/p"));
            assert_eq!(path.as_deref(), expected, "{directory}");
        }
    }
}
