//! `cargo xtask images`: builds and lists images of toolchains, agents and suites.
//!
//! The Dockerfiles are in `xtask/images/`; see spec/images.md.

mod build;
mod context;
mod debian;
mod engine;
mod list;
mod recipe;
mod suite;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub(crate) use engine::Engine;
pub(crate) use suite::build as build_for_suites;

const USAGE: &str =
    "usage: cargo xtask images build [NAME[@VERSION]..] [--base mmdebstrap[:SUITE]|IMAGE] \
[--ca FILE] [--rust-from-host] [--fresh] [--engine docker|podman]
       cargo xtask images list [--engine docker|podman]
       cargo xtask images test [--engine docker|podman]";

/// Runs the command: `build`, `list` or `test`.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let args: Vec<&str> =
        args.iter().map(|arg| arg.to_str().context(USAGE)).collect::<Result<_>>()?;
    let Some((verb, rest)) = args.split_first() else { bail!(USAGE) };
    let options = Options::parse(rest)?;
    match *verb {
        "build" => {
            let engine = options.engine.map_or_else(Engine::first_available, Ok)?;
            build::build(engine, &options)
        }
        "list" => {
            options.only_engine()?;
            list::list(options.engine.map_or_else(Engine::first_available, Ok)?)
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
    build::build(engine, &Options { names, base: Base::Mmdebstrap(None), ..Options::default() })
}

/// Parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The images to build; empty: every toolchain's.
    names: Vec<String>,
    base: Base,
    /// The engine; `None`: the first available one, or all for `test`.
    engine: Option<Engine>,
    /// A PEM bundle for stages that download; `None`: `SSL_CERT_FILE`, or the base's own.
    ca: Option<PathBuf>,
    rust: Rust,
    reuse: Reuse,
}

/// The base of all images.
#[derive(Debug, Default, PartialEq, Eq)]
enum Base {
    /// Debian's own image, of the release that each recipe names.
    #[default]
    Slim,
    /// Built from Debian packages alone, of this release; `None`: of the recipe's.
    Mmdebstrap(Option<String>),
    /// An image of the engine, or one it can pull.
    Image(String),
}

/// The source of the rust image's toolchain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rust {
    #[default]
    Debian,
    /// A copy of the toolchain that builds this workspace.
    Host,
}

/// Selects whether an earlier build may be reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reuse {
    /// Yes, if its inputs are the same.
    #[default]
    Same,
    /// No: packages are fetched again.
    Nothing,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} takes a value\n{USAGE}"));
            match *arg {
                "--base" => options.base = Base::parse(value()?),
                "--engine" => options.engine = Some(Engine::parse(value()?)?),
                "--ca" => options.ca = Some(PathBuf::from(value()?)),
                "--rust-from-host" => options.rust = Rust::Host,
                "--fresh" => options.reuse = Reuse::Nothing,
                name if !name.starts_with('-') => options.names.push(name.to_owned()),
                _ => bail!("unknown option '{arg}'\n{USAGE}"),
            }
        }
        Ok(options)
    }

    /// Rejects options that only `build` takes.
    fn only_engine(&self) -> Result<()> {
        if *self != (Options { engine: self.engine, ..Options::default() }) {
            bail!(USAGE);
        }
        Ok(())
    }
}

impl Base {
    fn parse(value: &str) -> Self {
        match value.split_once(':') {
            Some(("mmdebstrap", release)) => Base::Mmdebstrap(Some(release.to_owned())),
            None if value == "mmdebstrap" => Base::Mmdebstrap(None),
            _ => Base::Image(value.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_may_stand_anywhere() {
        let args = ["rust", "--base", "mmdebstrap", "node", "--engine", "podman", "--fresh"];
        let expected = Options {
            names: vec!["rust".into(), "node".into()],
            base: Base::Mmdebstrap(None),
            engine: Some(Engine::Podman),
            reuse: Reuse::Nothing,
            ..Options::default()
        };
        assert_eq!(Options::parse(&args).unwrap(), expected);
    }

    #[test]
    fn bases_are_distinguished() {
        assert_eq!(Base::parse("mmdebstrap:trixie"), Base::Mmdebstrap(Some("trixie".into())));
        assert_eq!(Base::parse("debian:trixie"), Base::Image("debian:trixie".into()));
        assert_eq!(Base::parse("host:5000/a/b"), Base::Image("host:5000/a/b".into()));
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for args in [&["--base"][..], &["--engine", "other"], &["--colour"]] {
            assert!(Options::parse(args).is_err(), "{args:?}");
        }
        assert!(Options::parse(&["rust"]).unwrap().only_engine().is_err());
        assert!(Options::parse(&["--engine", "docker"]).unwrap().only_engine().is_ok());
    }
}
