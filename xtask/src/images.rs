//! `cargo xtask images`: builds, lists and updates images of toolchains, agents and suites.
//!
//! `aifo-engine` builds; this adds the workspace's shim, toolchain and lock file, and the suites' images.
//! See spec/images.md.

mod context;
mod engine;
mod suite;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::stderr;
use std::path::{Path, PathBuf};

use aifo_engine::{
    Program,
    images::{BaseChoice, BuildOptions, ImageNames, Lock},
};
use anyhow::{Context, Result, bail};

use crate::{dist, shell, table};

pub(crate) use engine::Engine;
pub(crate) use suite::build as build_for_suites;

const USAGE: &str =
    "usage: cargo xtask images build [NAME[@VERSION]..] [--base mmdebstrap[:SUITE]|IMAGE] \
[--ca FILE] [--rust-from-host] [--fresh] [--engine docker|podman]
       cargo xtask images update [NAME[@VERSION]..] [--base ..] [--ca FILE] [--engine ..]
       cargo xtask images list [--engine docker|podman]
       cargo xtask images test [--engine docker|podman]";

/// The command in hints.
const COMMAND: &str = "cargo xtask images";

/// Runs the command: `build`, `update`, `list` or `test`.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let args: Vec<&str> =
        args.iter().map(|arg| arg.to_str().context(USAGE)).collect::<Result<_>>()?;
    let Some((verb, rest)) = args.split_first() else { bail!(USAGE) };
    let options = Options::parse(rest)?;
    let engine = || options.engine.map_or_else(Engine::first_available, Ok);
    match *verb {
        "build" => build(engine()?, &options),
        "update" => update(engine()?, &options),
        "list" => {
            options.only_engine()?;
            list(engine()?)
        }
        "test" => {
            options.only_engine()?;
            suite::build(&options.engine.map_or_else(Engine::available, |engine| vec![engine]))
        }
        _ => bail!(USAGE),
    }
}

/// Builds agents' images for the suites, from Debian packages alone.
pub(crate) fn build_for_agents(engine: Engine, names: Vec<String>) -> Result<()> {
    let base = BaseChoice::Mmdebstrap(None);
    build(engine, &Options { names, base, ..Options::default() })
}

fn build(engine: Engine, options: &Options) -> Result<()> {
    let scratch = aifo_engine::images::scratch()?;
    let options = options.for_build(scratch.path())?;
    let lock = Lock::embedded()?;
    let (_, errors) = aifo_engine::images::build(&engine.host()?, &lock, &options, &mut stderr())?;
    match errors.into_iter().next() {
        None => Ok(()),
        Some(error) => Err(error.into()),
    }
}

/// Renews the workspace's own lock file.
fn update(engine: Engine, options: &Options) -> Result<()> {
    let options = options.for_update()?;
    let path = shell::root().join("crates/engine/images.lock");
    let mut lock = Lock::read(&path)?;
    aifo_engine::images::update(&engine.host()?, &mut lock, &options, &mut stderr(), |lock| {
        lock.write(&path)
    })?;
    Ok(())
}

fn list(engine: Engine) -> Result<()> {
    let rows = engine.host()?.images()?;
    if rows.is_empty() {
        eprintln!("{} has no image of aifo\nhint: build them with: {COMMAND} build", engine.name());
        return Ok(());
    }
    print!("{}", table::layout(["image", "tag", "size", "age"], &rows));
    Ok(())
}

/// Parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The images to build; empty: every toolchain's.
    names: Vec<String>,
    base: BaseChoice,
    /// The engine; `None`: the first available one, or all for `test`.
    engine: Option<Engine>,
    /// A PEM bundle for stages that download; `None`: `SSL_CERT_FILE`, or the base's own.
    ca: Option<PathBuf>,
    /// True if the rust image has a copy of the toolchain that builds this workspace.
    rust_from_host: bool,
    fresh: bool,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} takes a value\n{USAGE}"));
            match *arg {
                "--base" => options.base = BaseChoice::parse(value()?),
                "--engine" => options.engine = Some(Engine::parse(value()?)?),
                "--ca" => options.ca = Some(PathBuf::from(value()?)),
                "--rust-from-host" => options.rust_from_host = true,
                "--fresh" => options.fresh = true,
                name if !name.starts_with('-') => options.names.push(name.to_owned()),
                _ => bail!("unknown option '{arg}'\n{USAGE}"),
            }
        }
        Ok(options)
    }

    /// Adds the shim, if an image has it.
    fn for_build(&self, scratch: &Path) -> Result<BuildOptions> {
        let programs = aifo_engine::images::programs(&self.names)?;
        if programs.contains(&"aifo-coder") {
            bail!("'launcher' is built by an installed program: aifo-coder images build launcher");
        }
        let has_shim = programs.contains(&"aifo-shim");
        let shim = if has_shim { Some(dist::shim(&scratch.join("shim"))?) } else { None };
        Ok(BuildOptions { shim, ..self.for_update()? })
    }

    fn for_update(&self) -> Result<BuildOptions> {
        let ca = || std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
        Ok(BuildOptions {
            names: self.names.clone(),
            base: self.base.clone(),
            image_names: ImageNames::from_environment(),
            ca: self.ca.clone().or_else(ca),
            shim: None,
            coder: None,
            toolchain: if self.rust_from_host { Some(toolchain()?) } else { None },
            packages: BTreeMap::new(),
            fresh: self.fresh,
            command: COMMAND,
        })
    }

    /// Rejects options that only `build` takes.
    fn only_engine(&self) -> Result<()> {
        if *self != (Options { engine: self.engine, ..Options::default() }) {
            bail!(USAGE);
        }
        Ok(())
    }
}

/// The toolchain that builds this workspace.
fn toolchain() -> Result<PathBuf> {
    let file = shell::find_in_path("rustc").context("'rustc' is not in PATH")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(aifo_engine::images::toolchain(&Program { file, path }, shell::root())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_may_stand_anywhere() {
        let args = ["rust", "--base", "mmdebstrap", "node", "--engine", "podman", "--fresh"];
        let expected = Options {
            names: vec!["rust".into(), "node".into()],
            base: BaseChoice::Mmdebstrap(None),
            engine: Some(Engine::Podman),
            fresh: true,
            ..Options::default()
        };
        assert_eq!(Options::parse(&args).unwrap(), expected);
    }

    #[test]
    fn invalid_options_are_rejected() {
        for args in [&["--base"][..], &["--engine", "other"], &["--colour"]] {
            assert!(Options::parse(args).is_err(), "{args:?}");
        }
        assert!(Options::parse(&["rust"]).unwrap().only_engine().is_err());
        assert!(Options::parse(&["--engine", "docker"]).unwrap().only_engine().is_ok());
    }
}
