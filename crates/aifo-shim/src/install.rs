//! `aifo-shim --install DIR`: a link under every tool's name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use aifo_policy::{NotifyRules, Policy};

/// Where pythons of an image lie, each of which gets a link under its own versioned name.
const PYTHON_DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt/venv/bin"];

const SHIM: &str = "aifo-shim";

/// Copies this binary into a folder and links every tool's name to it; returns how many links there
/// are. What is there already and is ours is replaced; anything else stops it before anything is
/// changed.
///
/// Errors: the folder cannot be written, or a file that is not ours has a tool's name.
pub(crate) fn install(directory: &Path) -> io::Result<usize> {
    fs::create_dir_all(directory)?;
    let names = names();
    for name in &names {
        check_free(&directory.join(name))?;
    }
    install_binary(&directory.join(SHIM))?;
    for name in &names {
        let link = directory.join(name);
        match fs::remove_file(&link) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        symlink(SHIM, &link)?;
    }
    Ok(names.len())
}

/// Every tool of the table, the notification tools, and this image's own pythons.
fn names() -> BTreeSet<String> {
    let policy = Policy::builtin();
    let mut names: BTreeSet<String> = policy.all_tools().into_iter().map(str::to_owned).collect();
    names.extend(NotifyRules::default().allowlist);
    let entries = PYTHON_DIRECTORIES.iter().filter_map(|directory| fs::read_dir(directory).ok());
    for entry in entries.flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let python = policy.kind_named("python");
        if name.starts_with("python3.") && python.is_some_and(|kind| kind.allowance(name).is_some())
        {
            names.insert(name.to_owned());
        }
    }
    names
}

/// A link of ours, or nothing.
fn check_free(path: &Path) -> io::Result<()> {
    match fs::read_link(path) {
        Ok(target) if target.file_name().is_some_and(|name| name == SHIM) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            format!("'{}' is there and is no link to {SHIM}; it is left alone", path.display()),
        )),
    }
}

/// Puts a copy of us there, in one step, so that a running shim is never half a file.
fn install_binary(target: &Path) -> io::Result<()> {
    let binary = fs::canonicalize("/proc/self/exe")?;
    if target.canonicalize().is_ok_and(|there| there == binary) {
        return Ok(());
    }
    let mut temporary = target.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    fs::copy(&binary, &temporary)?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755))?;
    fs::rename(&temporary, target)
}
