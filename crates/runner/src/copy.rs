//! The runner's own file, where it was only put to be started.

use std::fs;
use std::io;

/// The argument by which a runner removes the file that it was started from.
pub const UNLINK: &str = "--unlink";

/// Removes the file that we were started from, and its folder, which was made for it. What we start
/// from it later is still found: the kernel keeps an open file.
///
/// Errors: we may not, or the folder is not one of those that are made for a runner.
pub fn unlink_own() -> io::Result<()> {
    let program = fs::read_link("/proc/self/exe")?;
    let folder = program.parent().filter(|folder| {
        let name = folder.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(FOLDER_PREFIX.as_bytes())
    });
    let Some(folder) = folder else {
        return Err(io::Error::other(format!("'{}' is here to stay", program.display())));
    };
    fs::remove_file(&program)?;
    fs::remove_dir(folder)
}

/// How the names of folders begin that are made for a runner alone.
const FOLDER_PREFIX: &str = ".aifo-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_stays() {
        let ours = std::env::current_exe().unwrap();
        let refused = unlink_own().unwrap_err().to_string();
        assert_eq!(refused, format!("'{}' is here to stay", ours.display()));
        assert!(ours.is_file());
    }
}
