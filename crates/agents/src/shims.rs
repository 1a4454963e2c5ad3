//! The directory of shims, which comes first in the agent PATH.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use aifo_policy::{KindSpec, NotifyRules, Policy, kinds};
use aifo_types::ToolName;

/// Creates a link to the shim for every tool and notification.
pub fn link_tools(directory: &Path, shim: &Path, tools: ShimTools<'_>) -> io::Result<()> {
    symlink(shim, directory.join(SHIM))?;
    link_sidecar_tools(directory, tools)?;
    let mut in_place = tools.in_place();
    in_place.try_for_each(|tool| symlink(IN_PLACE, directory.join(tool)))
}

/// Creates the links only, those of tools in place in a directory each: the first program of the agent's
/// container adds to PATH those that its image has (`spec/shim.md#in-place`).
pub(crate) fn link_names_apart(directory: &Path, tools: ShimTools<'_>) -> io::Result<()> {
    link_sidecar_tools(directory, tools)?;
    for tool in tools.in_place() {
        let own = directory.join("in-place").join(tool);
        std::fs::create_dir_all(&own)?;
        symlink(Path::new("../..").join(IN_PLACE), own.join(tool))?;
    }
    Ok(())
}

fn link_sidecar_tools(directory: &Path, tools: ShimTools<'_>) -> io::Result<()> {
    let names = tools.in_sidecars();
    names.iter().try_for_each(|name| symlink(SHIM, directory.join(name)))?;
    symlink(SHIM, directory.join(IN_PLACE))
}

/// The names of a session's shims.
#[derive(Clone, Copy, Debug)]
pub struct ShimTools<'a> {
    /// Names the tools.
    pub policy: &'a Policy,
    /// Names the notifications.
    pub notify: &'a NotifyRules,
    /// The tools that run in place; names of the others are ignored.
    pub in_place: &'a BTreeSet<ToolName>,
}

impl<'a> ShimTools<'a> {
    /// Returns the names of tools in sidecars, and of notifications.
    fn in_sidecars(self) -> BTreeSet<&'a str> {
        let mut names: BTreeSet<&str> = self.policy.all_tools();
        names.extend(self.notify.allowlist.iter().map(String::as_str));
        names
    }

    /// Returns the names of tools in place.
    fn in_place(self) -> impl Iterator<Item = &'a str> {
        let elsewhere = self.in_sidecars();
        let names = self.in_place.iter().map(ToolName::as_str);
        names.filter(move |name| !elsewhere.contains(name))
    }
}

/// The label of an agent image with the absolute paths of the interpreters that its own programs use,
/// separated by spaces. Only images with this label get shims in the place of interpreters: the programs
/// of another image could need the interpreters beneath.
pub const INTERPRETERS_LABEL: &str = "dev.aifo.interpreters";

/// Returns the paths of interpreters that shims cover in an agent container, given the label of its
/// image (`spec/agents.md#interpreters`).
pub fn covered_interpreters(label: Option<&str>) -> Vec<PathBuf> {
    let Some(label) = label else { return Vec::new() };
    let own: Vec<_> = label.split_whitespace().map(Path::new).collect();
    let paths = kinds().iter().flat_map(KindSpec::interpreter_paths);
    paths.filter(|path| !own.contains(&path.as_path())).collect()
}

/// Puts a directory in front of a PATH.
pub fn path_with_first(directory: &Path, path: Option<OsString>) -> OsString {
    let mut first = directory.as_os_str().to_owned();
    if let Some(rest) = path.filter(|path| !path.is_empty()) {
        first.push(":");
        first.push(rest);
    }
    first
}

/// Removes directories of shims from a PATH, such as those of a surrounding session: tools that
/// call tools must find the real ones.
pub fn path_without_shims(path: Option<OsString>) -> OsString {
    let path = path.unwrap_or_default();
    let kept = std::env::split_paths(&path).filter(|directory| !holds_shims(directory));
    // Joining fails only for names with a ':', which splitting a PATH never gives.
    std::env::join_paths(kept).unwrap_or_else(|_| path.clone())
}

fn holds_shims(directory: &Path) -> bool {
    let target = |tool| directory.join(tool).canonicalize().ok();
    Policy::builtin()
        .all_tools()
        .into_iter()
        .filter_map(target)
        .any(|file: PathBuf| file.file_name() == Some(OsStr::new(SHIM)))
}

const SHIM: &str = "aifo-shim";
/// The link whose links run in place.
const IN_PLACE: &str = "aifo-in-place";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shims_cover_the_interpreters_that_an_image_does_not_use() {
        assert!(covered_interpreters(None).is_empty());
        let of_node = covered_interpreters(Some("/usr/local/bin/node /opt/x"));
        let of_python = covered_interpreters(Some("/opt/agent/bin/python3"));
        for (path, node, python) in [
            ("/usr/bin/python3", true, true),
            ("/usr/local/bin/python3.13", true, true),
            ("/usr/bin/node", true, true),
            ("/usr/local/bin/node", false, true),
        ] {
            assert_eq!(of_node.contains(&path.into()), node, "{path}");
            assert_eq!(of_python.contains(&path.into()), python, "{path}");
        }
    }

    #[test]
    fn a_directory_of_shims_is_recognised() {
        let base = tempfile::tempdir().unwrap();
        let (shims, plain) = (base.path().join("shims"), base.path().join("bin"));
        std::fs::create_dir(&shims).unwrap();
        std::fs::create_dir(&plain).unwrap();
        let shim = plain.join("aifo-shim");
        std::fs::write(&shim, "").unwrap();
        let names = ["git", "cargo"].map(|name| ToolName::parse(name.as_bytes()).unwrap());
        let tools = ShimTools {
            policy: &Policy::builtin(),
            notify: &NotifyRules::default(),
            in_place: &BTreeSet::from(names),
        };
        link_tools(&shims, &shim, tools).unwrap();
        let target = |name: &str| shims.join(name).read_link().unwrap();
        assert_eq!((target("git"), target("cargo")), (IN_PLACE.into(), SHIM.into()));
        assert_eq!(shims.join("cargo").canonicalize().unwrap(), shim.canonicalize().unwrap());

        let path = path_with_first(&shims, Some(plain.clone().into_os_string()));
        assert_eq!(path_without_shims(Some(path)), plain.as_os_str());
        assert_eq!(path_with_first(&shims, None), shims.as_os_str());
    }
}
