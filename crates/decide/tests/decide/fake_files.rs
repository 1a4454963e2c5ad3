//! File systems and calls, parsed from text.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use aifo_decide::{
    Decision, FileFacts, RuntimeNotFound, Settings, SmartToggles, Toggle, ToolCall, decide,
    leads_to_interpreter,
};

/// Files and links, with their parent directories.
pub(crate) struct FakeFiles {
    entries: BTreeMap<PathBuf, Entry>,
    directories: BTreeSet<PathBuf>,
}

enum Entry {
    File,
    Executable,
    Link(PathBuf),
}

impl FakeFiles {
    /// Parses one entry per line: `/file`, `/executable *` or `/link -> /target`.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let entries: BTreeMap<PathBuf, Entry> = lines
            .map(|line| match (line.split_once(" -> "), line.strip_suffix(" *")) {
                (Some((link, target)), _) => (link.into(), Entry::Link(target.into())),
                (None, Some(file)) => (file.into(), Entry::Executable),
                (None, None) => (line.into(), Entry::File),
            })
            .collect();
        let above = entries.keys().flat_map(|path| path.ancestors().skip(1));
        let directories = above.map(Path::to_owned).collect();
        FakeFiles { entries, directories }
    }

    fn entry(&self, path: &Path) -> Option<&Entry> {
        self.entries.get(&self.real_path(path)?)
    }

    /// Resolves a path as the kernel does: `..` applies to the target of a link.
    fn walk(&self, from: PathBuf, path: &Path, links_left: usize) -> Option<PathBuf> {
        let mut here = from;
        for component in path.components() {
            match component {
                Component::RootDir => here = "/".into(),
                Component::ParentDir => drop(here.pop()),
                Component::CurDir | Component::Prefix(_) => {}
                Component::Normal(name) => {
                    let next = here.join(name);
                    here = match self.entries.get(&next) {
                        Some(Entry::Link(to)) => self.walk(here, to, links_left.checked_sub(1)?)?,
                        Some(_) => next,
                        None => self.directories.contains(&next).then_some(next)?,
                    };
                }
            }
        }
        Some(here)
    }
}

impl FileFacts for FakeFiles {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        self.walk("/".into(), path, 8)
    }

    fn is_file(&self, path: &Path) -> bool {
        matches!(self.entry(path), Some(Entry::File | Entry::Executable))
    }

    fn is_executable(&self, path: &Path) -> bool {
        matches!(self.entry(path), Some(Entry::Executable))
    }
}

/// Parses a call: `node app.js` or `cd /tmp && node x.js`. `''` is an empty argument; there is no
/// other quoting.
pub(crate) fn call(line: &str) -> (PathBuf, Vec<Vec<u8>>) {
    let (cwd, command) = match line.strip_prefix("cd ").and_then(|rest| rest.split_once(" && ")) {
        Some((cwd, command)) => (cwd, command),
        None => ("/workspace", line),
    };
    let words = command.split(' ').map(|word| if word == "''" { "" } else { word });
    (cwd.into(), words.map(|word| word.as_bytes().to_vec()).collect())
}

/// Decides the call in `line`.
pub(crate) fn decide_line(
    line: &str,
    settings: &Settings,
    files: &FakeFiles,
) -> Result<Decision, RuntimeNotFound> {
    let (cwd, words) = call(line);
    let (tool, args) = words.split_first().expect("a tool");
    let called = cwd.join(Path::new(OsStr::from_bytes(tool)));
    let by_path = tool.contains(&b'/') && leads_to_interpreter(&called, files);
    let tool = tool.rsplit(|byte| *byte == b'/').next().expect("a name");
    let program = by_path.then_some(called.as_path());
    decide(&ToolCall { tool, program, args, cwd: &cwd }, settings, files)
}

/// Settings with both toggles on, the rest by default.
pub(crate) fn smart() -> Settings {
    let smart = SmartToggles::from_toggles(Toggle::On, Toggle::On, Toggle::On);
    Settings { smart, ..Settings::default() }
}
