//! `aifo-shim --install DIR [NAME]..`: links for all tools (`spec/shim.md#installing`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use aifo_policy::{NotifyRules, Policy};

/// Directories searched for `python3.N`, each of which gets a link of its own.
const PYTHON_DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt/venv/bin"];

const SHIM: &str = "aifo-shim";
/// A link to the binary; links to it are of tools that run in place.
const IN_PLACE: &str = "aifo-in-place";
/// The word before the names of tools that run in place.
const IN_PLACE_OPTION: &str = "--in-place";

/// Copies this binary into a directory and links every tool name, and `further` names, to it; those after
/// `--in-place` that are no other tool's to the link `aifo-in-place`. Replaces earlier links. Returns the number of
/// links.
///
/// Errors: a further name is not the name of a file; the directory is not writable, or a file that is not such a link has such a name. In
/// these cases nothing is changed.
pub(crate) fn install(directory: &Path, further: &[OsString]) -> io::Result<usize> {
    let tools = names().into_iter().map(|name| (OsString::from(name), SHIM));
    let mut links: BTreeMap<OsString, &str> = tools.collect();
    let at = further.iter().position(|name| name == IN_PLACE_OPTION).unwrap_or(further.len());
    let (further, in_place) = further.split_at(at);
    let in_place: Vec<_> = in_place.iter().skip(1).map(|name| (name, IN_PLACE)).collect();
    let own = (!in_place.is_empty()).then(|| (OsString::from(IN_PLACE), SHIM));
    links.extend(own);
    for (name, target) in further.iter().map(|name| (name, SHIM)).chain(in_place) {
        if Path::new(name).file_name() != Some(name) || name == SHIM {
            let message = format!("'{}' is not a name for a link", name.display());
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        links.entry(name.clone()).or_insert(target);
    }
    fs::create_dir_all(directory)?;
    for name in links.keys() {
        check_free(&directory.join(name))?;
    }
    install_binary(&directory.join(SHIM))?;
    for (name, target) in &links {
        let link = directory.join(name);
        match fs::remove_file(&link) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        symlink(target, &link)?;
    }
    Ok(links.len())
}

/// Returns the tools of the table, the notification tools, and the image's versioned pythons.
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

/// Checks that a path does not exist or is a link to `aifo-shim` or `aifo-in-place`.
fn check_free(path: &Path) -> io::Result<()> {
    match fs::read_link(path) {
        Ok(target) if target.file_name().is_some_and(|name| name == SHIM || name == IN_PLACE) => {
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            format!("'{}' exists and is not a link to {SHIM}; nothing was changed", path.display()),
        )),
    }
}

/// Copies this binary to `target` by a rename, so that no process executes a partial file.
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
