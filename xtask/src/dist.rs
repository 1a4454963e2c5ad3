//! `cargo xtask dist`: release builds of both binaries, checked to be static, with manual pages and
//! shell completions, below a prefix or as an archive; or the wheel for Python (`spec/distribution.md`).

mod archive;
mod prefix;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::elf::{self, Linkage};
use crate::{host, shell};

/// The two release binaries.
pub(crate) struct Dist {
    /// `aifo-shim`: the shim, and the runner.
    pub(crate) shim: PathBuf,
    /// `aifo-coder`: the launcher.
    pub(crate) coder: PathBuf,
    /// The C library of both.
    pub(crate) libc: Libc,
}

impl Dist {
    /// Creates a directory of links with these names to the shim.
    pub(crate) fn link_shims(&self, dir: &Path, tools: &[&str]) -> Result<()> {
        fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        for tool in tools {
            symlink(&self.shim, dir.join(tool)).with_context(|| format!("cannot link {tool}"))?;
        }
        Ok(())
    }
}

/// A C library that is linked statically.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Libc {
    /// Starts faster and is smaller; preferred where its target is installed.
    Musl,
    /// Part of every Linux toolchain.
    Glibc,
}

impl Libc {
    /// The name as target triples spell it: `musl` or `glibc`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Libc::Musl => "musl",
            Libc::Glibc => "glibc",
        }
    }

    /// The name as a summary shows it.
    pub(crate) fn linked(self) -> &'static str {
        match self {
            Libc::Musl => "static musl",
            Libc::Glibc => "static glibc",
        }
    }

    /// Returns whether a shim with this C library starts by its own entry (`spec/shim.md#early-start`).
    fn starts_early(self, architecture: &str) -> bool {
        self == Libc::Glibc && architecture == "x86_64"
    }
}

const USAGE: &str = "usage: cargo xtask dist --prefix DIR | --archive [DIR] | --wheel [DIR]";

/// Runs the command: installs below a prefix, or writes the archive of a release.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let flag = args.first().and_then(|flag| flag.to_str());
    match (flag, &args[args.len().min(1)..]) {
        (Some("--prefix"), [dir]) => install_below(&std::path::absolute(dir)?),
        (Some("--archive"), []) => write_archive(&shell::root().join("target/archive")).map(drop),
        (Some("--archive"), [dir]) => write_archive(&std::path::absolute(dir)?).map(drop),
        (Some("--wheel"), []) => write_wheel(&shell::root().join("target/wheel")),
        (Some("--wheel"), [dir]) => write_wheel(&std::path::absolute(dir)?),
        _ => bail!(USAGE),
    }
}

/// Installs below a prefix such as `~/.local`.
fn install_below(prefix: &Path) -> Result<()> {
    prefix::write(&build(&prefix.join("bin"))?.coder, prefix)
}

/// Writes the archive of a release and its sum, and returns its path.
pub(crate) fn write_archive(out: &Path) -> Result<PathBuf> {
    let staging = aifo_engine::images::scratch()?;
    let name = archive::name(Target::of_host()?.architecture());
    install_below(&staging.path().join(&name))?;
    let archive = archive::pack(staging.path(), &name, out, 9)?;
    println!("{}", archive.display());
    Ok(archive)
}

/// Writes the wheel of the package for Python, with the runner of this machine's architecture.
fn write_wheel(out: &Path) -> Result<()> {
    let target = Target::of_host()?;
    let staging = aifo_engine::images::scratch()?;
    let runner = target.build(&SHIM, staging.path())?;
    let script = shell::root().join("clients/python/make_wheel.py");
    shell::run(Command::new("python3").arg(script).arg(runner).arg(target.architecture()).arg(out))
}

/// Builds both binaries into a directory.
pub(crate) fn build(out: &Path) -> Result<Dist> {
    let target = Target::of_host()?;
    let [shim, coder] = [&SHIM, &CODER].map(|package| target.build(package, out));
    Ok(Dist { shim: shim?, coder: coder?, libc: target.libc })
}

/// Builds only the shim into a directory.
pub(crate) fn shim(out: &Path) -> Result<PathBuf> {
    Target::of_host()?.build(&SHIM, out)
}

/// The packages and their rustc flags. The shim starts once per call, and relocation took a tenth
/// of its start; so it has a fixed address. An attacker who could exploit that already runs
/// programs as the same user. The launcher has a network listener and the token, and keeps its
/// random addresses.
const SHIM: Package =
    Package { name: "aifo-shim", profile: "shim", rustc: &["-C", "relocation-model=static"] };
const CODER: Package = Package { name: "aifo-coder", profile: "release", rustc: &[] };

/// A package (also its binary's name), its profile and extra rustc arguments.
struct Package {
    name: &'static str,
    profile: &'static str,
    rustc: &'static [&'static str],
}

/// A build target.
struct Target {
    triple: String,
    libc: Libc,
}

impl Target {
    /// Returns the host's musl target if that is installed, else the host itself.
    fn of_host() -> Result<Self> {
        let version = shell::read(rustc().arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("`rustc -vV` prints no host")?;
        let musl = musl_target(host);
        if is_installed(&musl) {
            return Ok(Target { triple: musl, libc: Libc::Musl });
        }
        Ok(Target { triple: host.to_owned(), libc: Libc::Glibc })
    }

    /// The first part of the triple, for example `x86_64`.
    fn architecture(&self) -> &str {
        self.triple.split('-').next().unwrap_or(&self.triple)
    }

    /// Builds a binary, copies it, checks that it is static, and prints its size.
    fn build(&self, package: &Package, out: &Path) -> Result<PathBuf> {
        let Package { name, profile, rustc } = package;
        let target_dir = shell::root().join("target/dist");
        let mut cargo = shell::cargo(["rustc", "-p", name, "--profile", profile]);
        cargo.args(["--target", &self.triple]).arg("--target-dir").arg(&target_dir);
        if self.libc == Libc::Glibc {
            // Only with `--target`: without it the flag breaks proc-macros.
            cargo.env("RUSTFLAGS", "-C target-feature=+crt-static");
        }
        // `aifo-shim --version` prints the commit; a source archive has none.
        if let Some(commit) = host::short_commit() {
            cargo.env("AIFO_COMMIT", commit);
        }
        shell::run(cargo.arg("--").args(*rustc))?;

        fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        let path = out.join(name);
        install(&target_dir.join(&self.triple).join(profile).join(name), &path)?;
        if elf::linkage(&path)? != Linkage::Static {
            bail!("'{}' is not static", path.display());
        }
        let starts_early = self.libc.starts_early(self.architecture());
        if *name == SHIM.name && elf::has_own_entry(&path)? != starts_early {
            let starts = if starts_early { "does not start" } else { "starts" };
            bail!("'{}' {starts} by its own entry", path.display());
        }
        let kib = fs::metadata(&path)?.len() / 1024;
        eprintln!("{}: {kib} KiB, static, {}", path.display(), self.libc.name());
        Ok(path)
    }
}

/// Replaces a file by a rename; copying over a running program fails.
fn install(from: &Path, to: &Path) -> Result<()> {
    let fresh = to.with_extension("new");
    fs::copy(from, &fresh).with_context(|| format!("cannot copy {}", from.display()))?;
    fs::rename(&fresh, to).with_context(|| format!("cannot replace {}", to.display()))
}

fn rustc() -> Command {
    let mut rustc = Command::new("rustc");
    rustc.current_dir(shell::root());
    rustc
}

fn musl_target(host: &str) -> String {
    let arch = host.split('-').next().unwrap_or(host);
    format!("{arch}-unknown-linux-musl")
}

/// rustc prints a directory for every known target; only installed ones exist.
fn is_installed(target: &str) -> bool {
    let mut command = rustc();
    command.args(["--print", "target-libdir", "--target", target]).stderr(Stdio::null());
    let Ok(output) = command.output() else { return false };
    let dir = String::from_utf8_lossy(&output.stdout);
    output.status.success() && Path::new(dir.trim()).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_musl_twin_keeps_the_architecture() {
        assert_eq!(musl_target("x86_64-unknown-linux-gnu"), "x86_64-unknown-linux-musl");
        assert_eq!(musl_target("aarch64-unknown-linux-gnu"), "aarch64-unknown-linux-musl");
    }

    #[test]
    fn only_glibc_on_x86_64_has_the_own_entry() {
        assert!(Libc::Glibc.starts_early("x86_64"));
        assert!(!Libc::Musl.starts_early("x86_64"));
        assert!(!Libc::Glibc.starts_early("aarch64"));
    }

    #[test]
    fn an_unknown_target_is_not_installed() {
        assert!(!is_installed("no-such-target"));
    }
}
