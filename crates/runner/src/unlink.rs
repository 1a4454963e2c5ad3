//! The runner's own file, where it was only put to be started.

use std::fs;
use std::io;

/// The argument by which a runner removes the file that it was started from.
pub const UNLINK: &str = "--unlink";

/// Removes the file that we were started from, and its directory, which was made for it. What we start
/// from it later is still found: the kernel keeps an open file.
///
/// Errors: we may not, or the directory is not one of those that are made for a runner.
pub fn unlink_executable() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    let directory = program.parent().filter(|directory| {
        let name = directory.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(DIRECTORY_PREFIX.as_bytes())
    });
    let Some(directory) = directory else {
        return Err(io::Error::other(format!("'{}' is here to stay", program.display())));
    };
    fs::remove_file(&program)?;
    fs::remove_dir(directory)
}

/// How the names of folders begin that are made for a runner alone.
const DIRECTORY_PREFIX: &str = ".aifo-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installed_runner_is_not_removed() {
        let program = std::env::current_exe().unwrap();
        let error = unlink_executable().unwrap_err().to_string();
        assert_eq!(error, format!("'{}' is here to stay", program.display()));
        assert!(program.is_file());
    }
}
