//! The files of an installation beside its binaries: manual pages, completions, licences.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Shells and the file, below a prefix, from which each loads the completions of `aifo-coder`.
pub(super) const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/aifo-coder"),
    ("zsh", "share/zsh/site-functions/_aifo-coder"),
    ("fish", "share/fish/vendor_completions.d/aifo-coder.fish"),
];

/// Where manual pages are, below a prefix.
pub(super) const MANUALS: &str = "share/man/man1";

/// Files of the workspace that are copied, and their directory below a prefix.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
const DOCUMENTATION: &str = "share/doc/aifo";

/// Writes the files below a prefix. Those that the launcher prints do not depend on this user's
/// configuration.
pub(super) fn write(coder: &Path, prefix: &Path) -> Result<()> {
    let launcher = || {
        let mut command = Command::new(coder);
        command.env_clear().current_dir("/");
        command
    };
    shell::run(launcher().arg("man").arg(prefix.join(MANUALS)))?;
    for (shell, file) in COMPLETIONS {
        let script = shell::read(launcher().args(["completions", shell]))? + "\n";
        let path = prefix.join(file);
        make_parent(&path)?;
        fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for name in DOCUMENTS {
        let path = prefix.join(DOCUMENTATION).join(name);
        make_parent(&path)?;
        fs::copy(shell::root().join(name), &path)
            .with_context(|| format!("cannot copy {name} to {}", path.display()))?;
    }
    eprintln!("{}: manual pages, completions, documents", prefix.join("share").display());
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
    let dir = path.parent().context("a file lies in a directory")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))
}
