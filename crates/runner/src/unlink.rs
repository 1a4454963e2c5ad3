//! Removing the runner's executable.

use std::fs;
use std::io;

/// The option that removes the runner's executable before it serves.
pub const UNLINK: &str = "--unlink";

/// Removes the executable of this process and its directory, which was made for it.
/// `/proc/self/exe` still works afterwards.
///
/// Errors: no permission, or the directory's name does not begin with `.aifo-`.
pub fn unlink_executable() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    let directory = program.parent().filter(|directory| {
        let name = directory.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(DIRECTORY_PREFIX.as_bytes())
    });
    let Some(directory) = directory else {
        return Err(io::Error::other(format!(
            "'{}' is not in a directory made for a runner",
            program.display()
        )));
    };
    fs::remove_file(&program)?;
    fs::remove_dir(directory)
}

/// The prefix of directories that are made for a runner.
const DIRECTORY_PREFIX: &str = ".aifo-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_runner_is_not_removed() {
        let program = std::env::current_exe().unwrap();
        let error = unlink_executable().unwrap_err().to_string();
        assert_eq!(
            error,
            format!("'{}' is not in a directory made for a runner", program.display())
        );
        assert!(program.is_file());
    }
}
