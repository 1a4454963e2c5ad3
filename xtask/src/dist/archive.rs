//! The archive of a release: an installation in one directory, and its SHA-256 beside it.
//!
//! Proves `spec/distribution.md#the-archive`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// Returns the name of the archive's directory: `aifo-0.1.0-x86_64-linux`.
pub(super) fn name(architecture: &str) -> String {
    format!("aifo-{}-{architecture}-linux", env!("CARGO_PKG_VERSION"))
}

/// Packs the directory `name` in `staging` into `out`, and writes its SHA-256 beside it. Equal files
/// give an equal archive: entries are sorted, and have one time and one owner. `level` is gzip's, 1 to 9.
pub(super) fn pack(staging: &Path, name: &str, out: &Path, level: u8) -> Result<PathBuf> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let file = format!("{name}.tar.gz");
    let archive = out.join(&file);
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--format=ustar", "--mode=u=rwX,go=rX"]).arg(format!("--mtime=@{}", time()));
    // -n: without the time of compression.
    tar.arg(format!("--use-compress-program=gzip -n{level}")).arg("--file").arg(&archive);
    shell::run(tar.arg("--directory").arg(staging).arg(name))?;
    let sum = shell::read(Command::new("sha256sum").arg(&file).current_dir(out))?;
    fs::write(out.join(format!("{file}.sha256")), sum + "\n")?;
    Ok(archive)
}

/// Seconds since the epoch: SOURCE_DATE_EPOCH, or the time of the commit, or 0.
fn time() -> String {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(shell::root());
    let commit = || shell::read(&mut git).ok().filter(|time| !time.is_empty());
    std::env::var("SOURCE_DATE_EPOCH").ok().or_else(commit).unwrap_or_else(|| "0".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::dist::prefix;

    /// Builds the programs of this profile, with the suites' features, and returns their directory.
    fn programs() -> PathBuf {
        shell::run(&mut crate::test_program::cargo_build()).unwrap();
        std::env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
    }

    #[test]
    fn equal_files_give_an_equal_archive() {
        let pack_once = |names: [&str; 2], mode, age| {
            let scratch = tempfile::tempdir().unwrap();
            let dir = scratch.path().join("x");
            fs::create_dir(&dir).unwrap();
            for name in names {
                fs::write(dir.join(name), name).unwrap();
                fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
                let time = SystemTime::now() - Duration::from_secs(age);
                File::open(dir.join(name)).unwrap().set_modified(time).unwrap();
            }
            let archive = pack(scratch.path(), "x", &scratch.path().join("out"), 1).unwrap();
            let sum = fs::read_to_string(archive.with_extension("gz.sha256")).unwrap();
            assert!(sum.ends_with("  x.tar.gz\n"), "{sum}");
            fs::read(archive).unwrap()
        };
        let first = pack_once(["a", "b"], 0o644, 0);
        assert_eq!(first, pack_once(["b", "a"], 0o600, 100_000));
    }

    /// Unpacks as README says, and uses the result as a new user does.
    #[test]
    fn an_unpacked_archive_is_an_installation() {
        let scratch = tempfile::tempdir().unwrap();
        let name = name("x86_64");
        let staged = scratch.path().join(&name);
        fs::create_dir_all(staged.join("bin")).unwrap();
        let programs = programs();
        for program in ["aifo-coder", "aifo-shim"] {
            // The debug build is large: what matters is that it runs.
            let mut strip = Command::new("strip");
            strip.arg("-o").arg(staged.join("bin").join(program)).arg(programs.join(program));
            shell::run(&mut strip).unwrap();
        }
        prefix::write(&staged.join("bin/aifo-coder"), &staged).unwrap();
        let archive = pack(scratch.path(), &name, scratch.path(), 1).unwrap();

        let sums = format!("{name}.tar.gz.sha256");
        let mut check = Command::new("sha256sum");
        shell::run(check.args(["--check", "--quiet", &sums]).current_dir(&scratch)).unwrap();
        let local = scratch.path().join("home/.local");
        fs::create_dir_all(&local).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(archive).arg("-C").arg(&local).arg("--strip-components=1");
        shell::run(&mut tar).unwrap();

        for program in ["aifo-coder", "aifo-shim"] {
            let version =
                shell::read(Command::new(local.join("bin").join(program)).arg("--version"));
            let expected = format!("{program} {}", env!("CARGO_PKG_VERSION"));
            assert!(version.unwrap().starts_with(&expected));
        }
        let mut man = Command::new("man");
        man.arg("-w").arg("aifo-coder-run").env("MANPATH", local.join("share/man"));
        let page = local.join(prefix::MANUALS).join("aifo-coder-run.1");
        assert!(page.is_file());
        if shell::find_in_path("man").is_some() {
            assert_eq!(shell::read(&mut man).unwrap(), page.to_string_lossy());
        }
        for (shell, file) in prefix::COMPLETIONS {
            let script = fs::read_to_string(local.join(file)).unwrap();
            assert!(script.contains("aifo-coder"), "{shell}");
        }
        let completed = shell::read(&mut bash(&local)).unwrap();
        assert!(completed.lines().any(|word| word == "doctor"), "{completed}");
        assert!(local.join("share/doc/aifo/LICENSE-MIT").is_file());
    }

    /// Completes `aifo-coder do`: with the loader of bash-completion if it is installed.
    fn bash(local: &Path) -> Command {
        const SCRIPT: &str = r#"
            loader=/usr/share/bash-completion/bash_completion
            if [ -r "$loader" ]; then
                . "$loader"
                _completion_loader aifo-coder || true
            else
                . "$XDG_DATA_HOME/bash-completion/completions/aifo-coder"
            fi
            words=($(complete -p aifo-coder)) || exit 1
            COMP_WORDS=(aifo-coder do) COMP_CWORD=1
            "${words[-2]}" aifo-coder do aifo-coder
            printf '%s\n' "${COMPREPLY[@]}"
        "#;
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", SCRIPT]).env("XDG_DATA_HOME", local.join("share"));
        bash.env("PATH", format!("{}:/usr/bin:/bin", local.join("bin").display()));
        bash
    }
}
