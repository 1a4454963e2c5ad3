//! `cargo xtask test docker` and `podman`: the suites that need a container engine.
//!
//! Their tests are ignored unless asked for, and say so by name in an ordinary run. Here they are
//! asked for, and where no engine answers each suite is named as skipped: nothing is silently green.

use anyhow::{Result, bail};

use crate::images::{self, Engine};
use crate::{shell, suites};

/// What the names of the suites in containers begin with.
const PREFIX: &str = "container_";

/// The variable that names the engine to the suites.
const ENGINE: &str = "AIFO_TEST_ENGINE";

/// The file that podman reads in place of the machine's own.
const PODMAN_SETTINGS: &str = "CONTAINERS_CONF";

/// What became of the suites of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The engine does not answer, or there is no suite for it; which was told.
    Skipped,
}

/// Runs these suites, or all where none is named. Who asks for them by name wants them run: where
/// they are skipped, it fails.
pub(crate) fn run(engine: Engine, names: &[String], args: &[String]) -> Result<()> {
    match suites_of(engine, names, args)? {
        Outcome::Passed => Ok(()),
        Outcome::Skipped => bail!("no suite ran with {}", engine.name()),
    }
}

/// Runs all suites with an engine, if it answers.
pub(crate) fn all(engine: Engine) -> Result<Outcome> {
    suites_of(engine, &[], &[])
}

/// Makes the images of the suites in every engine that answers: what they are made of is fetched
/// once for all of them.
pub(crate) fn images() -> Result<Outcome> {
    let engines = Engine::that_answer();
    if engines.is_empty() {
        eprintln!("skipped: images of the container suites: no engine answers");
        return Ok(Outcome::Skipped);
    }
    images::build_for_suites(&engines).map(|()| Outcome::Passed)
}

fn suites_of(engine: Engine, names: &[String], args: &[String]) -> Result<Outcome> {
    let suites = chosen(suites::suites()?, names)?;
    if suites.is_empty() {
        eprintln!("skipped: no suite is named {PREFIX}..");
        return Ok(Outcome::Skipped);
    }
    if let Err(reason) = engine.answers() {
        for suite in &suites {
            eprintln!("skipped: {suite}: no {} engine answers ({reason})", engine.name());
        }
        return Ok(Outcome::Skipped);
    }
    images::build_for_suites(&[engine])?;
    let mut command = shell::cargo(["test", "-p", suites::PACKAGE]);
    for suite in &suites {
        command.args(["--test", suite]);
    }
    let (separator, rest) = match args.split_first() {
        Some((separator, rest)) => (separator.as_str(), rest),
        None => ("--", &[][..]),
    };
    command.args([separator, "--include-ignored"]).args(rest);
    command.env(ENGINE, engine.name());
    // Without it podman raises limits of every container, which not every root may.
    command.env(PODMAN_SETTINGS, shell::root().join("xtask/images/test/containers.conf"));
    shell::run(&mut command).map(|()| Outcome::Passed)
}

/// The suites in containers among all, or those of them that were named.
fn chosen(all: Vec<String>, names: &[String]) -> Result<Vec<String>> {
    let suites: Vec<String> = all.into_iter().filter(|name| name.starts_with(PREFIX)).collect();
    if names.is_empty() {
        return Ok(suites);
    }
    if let Some(name) = names.iter().find(|name| !suites.contains(name)) {
        bail!("unknown container suite '{name}'\nsuites: {}", suites.join(" "));
    }
    Ok(names.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_suites_are_known_by_their_names() {
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let all = || owned(&["argv", "container_start", "containers", "container_limits"]);
        assert_eq!(chosen(all(), &[]).unwrap(), ["container_start", "container_limits"]);
        assert_eq!(chosen(all(), &owned(&["container_start"])).unwrap(), ["container_start"]);
        assert!(chosen(all(), &owned(&["argv"])).is_err());
    }
}
