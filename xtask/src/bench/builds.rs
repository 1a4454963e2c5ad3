//! Build benchmarks: `cargo build` of a crate with 50 dependencies, with the same compiler natively and
//! in a sidecar.
//!
//! The dependencies are crates of the same workspace, so no registry is needed.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::call::expect_success;
use super::measure::Bench;
use super::report::Measured::{self, Absent, Slowdown};
use super::stats::Pairs;
use crate::images::Engine;
use crate::serve::{self, Backend, Options, Serve};
use crate::shell;

/// How many crates the built one depends on.
const DEPENDENCIES: usize = 50;
/// Functions of each crate: some work for the compiler.
const STEPS: usize = 6;
const IMAGE: &str = "aifo-toolchain-rust";

/// A build in a local sidecar, relative to a native one.
pub(super) fn locally(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, &Compiler::of_host()?, Backend::Local)
}

/// A build in a container, relative to a native one by the same version of the compiler.
pub(super) fn in_container(bench: &Bench<'_>) -> Result<Measured> {
    let compiler = Compiler::of_host()?;
    if let Err(error) = Engine::Docker.check_available() {
        return Ok(Absent(format!("docker is not available: {error}")));
    }
    let Some(image) = compiler.image() else {
        return Ok(Absent(format!(
            "no image with rustc {0}: AIFO_CODER_IMAGE_TAG={0} aifo-coder images build \
             --rust-from-host rust",
            compiler.version
        )));
    };
    measure(bench, &compiler, Backend::Containers { engine: "docker", image: &image })
}

/// This machine's default Rust toolchain.
struct Compiler {
    /// The directory of cargo and rustc themselves, not of rustup's links.
    programs: PathBuf,
    version: String,
}

impl Compiler {
    fn of_host() -> Result<Self> {
        let rustc = || {
            let mut rustc = Command::new("rustc");
            rustc.current_dir(shell::root());
            rustc
        };
        let sysroot = shell::read(rustc().args(["--print", "sysroot"]))?;
        let version = shell::read(rustc().arg("--version"))?;
        let version = version.split(' ').nth(1).context("rustc prints no version")?;
        let programs = Path::new(sysroot.trim()).join("bin");
        Ok(Compiler { programs, version: version.to_owned() })
    }

    /// The image with this version as its tag or in its label.
    fn image(&self) -> Option<String> {
        let tagged = format!("{IMAGE}:{}", self.version);
        let usual = format!("{IMAGE}:latest");
        let format = "{{index .Config.Labels \"dev.aifo.versions\"}}";
        let labelled = |image: &str| {
            let mut inspect =
                Engine::Docker.command(["image", "inspect", "--format", format, image]);
            let output = inspect.output().ok().filter(|output| output.status.success())?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        match labelled(&tagged) {
            Some(_) => Some(tagged),
            None => (labelled(&usual)? == self.version).then_some(usual),
        }
    }

    /// PATH of the native side: this compiler first.
    fn path(&self) -> Result<OsString> {
        serve::path_with(&self.programs)
    }
}

fn measure(bench: &Bench<'_>, compiler: &Compiler, backend: Backend<'_>) -> Result<Measured> {
    let project = Project::create()?;
    let serve = Serve::start(&Options {
        dist: bench.dist,
        workspace: &project.path,
        kinds: &["rust"],
        backend,
        path: compiler.path()?,
        arguments: &[],
        variables: &[],
        log: project.scratch.path().join("serve.log"),
    })?;
    let shims = project.scratch.path().join("shims");
    bench.dist.link_shims(&shims, &["cargo"])?;
    let native = || project.build(&compiler.programs.join("cargo"), compiler.path()?, &[]);
    let proxied = || project.build(&shims.join("cargo"), compiler.path()?, serve.client_env());
    Pairs::measure(1, native, proxied)?;
    let pairs = Pairs::measure(bench.depth.builds(), native, proxied)?;
    serve.stop()?;
    Ok(Slowdown(pairs))
}

/// A crate and those that it depends on.
struct Project {
    path: PathBuf,
    scratch: TempDir,
}

impl Project {
    fn create() -> Result<Self> {
        let scratch = aifo_engine::images::scratch()?;
        let path = scratch.path().canonicalize()?.join("project");
        let names: Vec<String> = (0..DEPENDENCIES).map(|it| format!("part{it}")).collect();
        let mut dependencies = String::new();
        for name in &names {
            dependencies += &format!("{name} = {{ path = \"{name}\" }}\n");
            write_crate(&path.join(name), name, "", &source(name))?;
        }
        let sum: Vec<String> = names.iter().map(|name| format!("{name}::total(1)")).collect();
        let main = format!("fn main() {{\n    println!(\"{{}}\", {});\n}}\n", sum.join(" + "));
        let root = format!("[dependencies]\n{dependencies}[workspace]\n");
        write_crate(&path, "whole", &root, "")?;
        fs::remove_file(path.join("src/lib.rs"))?;
        fs::write(path.join("src/main.rs"), main)?;
        Ok(Project { path, scratch })
    }

    /// Builds from nothing and returns the time.
    fn build(
        &self,
        cargo: &Path,
        path: OsString,
        client_env: &[(String, String)],
    ) -> Result<Duration> {
        match fs::remove_dir_all(self.path.join("target")) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut command = Command::new(cargo);
        // Cargo's own variables of `cargo xtask` would change the build.
        command.args(["build", "--offline", "--quiet"]).env_clear().env("PATH", path);
        command.env("HOME", std::env::var_os("HOME").unwrap_or_default());
        command.envs(client_env.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.path).stdin(Stdio::null());
        let start = Instant::now();
        let output = command.output()?;
        let time = start.elapsed();
        expect_success(&output)?;
        Ok(time)
    }
}

fn write_crate(directory: &Path, name: &str, more: &str, source: &str) -> Result<()> {
    fs::create_dir_all(directory.join("src"))?;
    let manifest =
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    fs::write(directory.join("Cargo.toml"), manifest + more)?;
    fs::write(directory.join("src/lib.rs"), source)?;
    Ok(())
}

/// A module of [`STEPS`] functions and one that calls them.
fn source(name: &str) -> String {
    let mut text = "pub fn total(n: u64) -> u64 {\n    let mut sum = 0;\n".to_owned();
    for part in 0..STEPS {
        text += &format!("    sum += step{part}(n);\n");
    }
    text += "    sum\n}\n";
    for part in 0..STEPS {
        text += &format!(
            "fn step{part}(n: u64) -> u64 {{\n    let words: Vec<String> = \
             (0..n).map(|it| format!(\"{name} {{it}} {part}\")).collect();\n    \
             words.iter().map(|word| word.len() as u64).sum()\n}}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_builds_without_a_registry() {
        let project = Project::create().unwrap();
        let compiler = Compiler::of_host().unwrap();
        let cargo = compiler.programs.join("cargo");
        let time = project.build(&cargo, compiler.path().unwrap(), &[]).unwrap();
        assert!(time > Duration::ZERO && project.path.join("target/debug/whole").is_file());
        let dependencies = fs::read_to_string(project.path.join("Cargo.toml")).unwrap();
        assert_eq!(dependencies.matches("path = ").count(), DEPENDENCIES);
    }
}
