//! Finds the interpreter of a program that is called by a path (`spec/decide.md#programs-by-path`).

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use aifo_agents::link_target;
use aifo_policy::{KindSpec, kinds};
use aifo_process::open_regular;
use aifo_types::{ToolName, normalise_path};

/// The interpreter of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Interpreter {
    pub(crate) tool: ToolName,
    /// The path by which the kernel executes it: of the program, or in a script's first line.
    pub(crate) program: PathBuf,
    /// The file outside of the workspace to which it leads.
    pub(crate) target: PathBuf,
    /// True if the interpreter runs the program as a script.
    pub(crate) is_script: bool,
}

impl Interpreter {
    /// Returns the interpreter of a file, by an absolute path; `None` if it has none of a toolchain's
    /// name. Links are followed as text: their targets need not exist on this machine.
    pub(crate) fn of(path: &Path, workspace: &Path) -> Option<Self> {
        let script = script_interpreter(path);
        let program = normalise_path(script.as_deref().unwrap_or(path));
        let tool = ToolName::parse(program.file_name()?.as_bytes()).ok()?;
        if !kinds().iter().any(|spec| spec.is_interpreter(tool.as_str())) {
            return None;
        }
        let target = link_target(&program, workspace)?;
        Some(Interpreter { tool, program, target, is_script: script.is_some() })
    }

    /// Returns whether the shim covers the target in an agent container.
    pub(crate) fn is_covered(&self) -> bool {
        kinds().iter().flat_map(KindSpec::interpreter_paths).any(|path| path == self.target)
    }

    /// Returns whether the program is the interpreter itself, not a link to it.
    pub(crate) fn is_target(&self) -> bool {
        self.program == self.target
    }
}

/// Returns the absolute path in a script's first line.
fn script_interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    open_regular(path).ok()?.take(MAX_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(PathBuf::from(OsStr::from_bytes(word))).filter(|path| path.is_absolute())
}

/// The kernel reads no more of a script.
const MAX_LINE: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_fifo_is_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        let fifo = root.path().join("python3");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert_eq!(Interpreter::of(&fifo, root.path()), None);
    }

    #[test]
    fn links_and_first_lines_are_followed() {
        let root = std::env::temp_dir().canonicalize().unwrap();
        let root = root.join(format!("aifo-why-{}", std::process::id()));
        let bin = root.join("env/bin");
        fs::create_dir_all(&bin).unwrap();
        symlink("python3", bin.join("python")).unwrap();
        symlink("/usr/bin/python3.99", bin.join("python3")).unwrap();
        symlink("/usr/local/bin/node", bin.join("node")).unwrap();
        symlink("loop", bin.join("loop")).unwrap();
        let pip = format!("#!{}/python -I\nimport pip\n", bin.display());
        for (name, text) in [("pip", &*pip), ("cli", "#! /usr/bin/env node\n"), ("elf", "\x7fELF")]
        {
            fs::write(bin.join(name), text).unwrap();
        }
        let of = |name: &str| Interpreter::of(&bin.join(name), &root);
        let python = of("python").unwrap();
        assert_eq!(python.target, Path::new("/usr/bin/python3.99"));
        assert_eq!(
            (python.is_script, python.is_covered(), python.is_target()),
            (false, false, false)
        );
        let pip = of("pip").unwrap();
        assert_eq!(
            (pip.program, pip.target, pip.is_script),
            (bin.join("python"), python.target, true)
        );
        let node = of("node").unwrap();
        assert!(node.is_covered() && node.tool.as_str() == "node");
        for name in ["cli", "elf", "loop", "absent"] {
            assert_eq!(of(name), None, "{name}");
        }
        let itself = Interpreter::of(Path::new("/usr/bin/python3"), &root).unwrap();
        assert!(itself.is_covered() && itself.is_target());
        fs::remove_dir_all(&root).unwrap();
    }
}
