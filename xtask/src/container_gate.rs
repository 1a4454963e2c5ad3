//! `cargo xtask test docker` and `podman`: the suites that need a container engine.
//!
//! These are the container suites, which are ignored by default, and the suites of the local
//! backend that also run with sidecars in containers. Without an engine, each suite is reported as
//! skipped.

use std::process::Command;

use anyhow::{Result, bail};

use crate::container_suites::{self, ContainerRuns, Row};
use crate::images::{self, Engine};
use crate::test_program::Arguments;
use crate::{another_user, shell, test_program};

/// Prefix of the container suites' names.
pub(crate) const PREFIX: &str = "container_";

/// Names the engine to the suites.
const ENGINE: &str = "AIFO_TEST_ENGINE";

/// Makes the suites of the local backend run their sidecars in this engine's containers.
const BACKEND: &str = "AIFO_TEST_BACKEND";

/// Names the image that every kind uses.
const IMAGE: &str = "AIFO_TEST_IMAGE";

/// The configuration file that podman reads instead of the machine's.
const PODMAN_SETTINGS: &str = "CONTAINERS_CONF";

/// The result of an engine's suites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The engine is not available or has no suite; stderr has the reason.
    Skipped,
}

/// Runs these suites, or all if none is named. Fails if they are skipped.
pub(crate) fn run(engine: Engine, names: &[String], args: &[String]) -> Result<()> {
    match suites_of(engine, names, args, Extent::Whole)? {
        Outcome::Passed => Ok(()),
        Outcome::Skipped => bail!("no suite ran with {}", engine.name()),
    }
}

/// The container suites on parts of a session that are the same with each engine.
const OF_ANY_ENGINE: [&str; 11] = [
    "container_agents",
    "container_attach",
    "container_keys",
    "container_mailbox",
    "container_mirrors",
    "container_network_shown",
    "container_network_stream",
    "container_questions",
    "container_registries",
    "container_stacks",
    "container_venv",
];

/// Runs the suites that CI requires with an engine, if that is available. The first available one runs all;
/// others leave out suites that do not depend on the engine.
pub(crate) fn all(engine: Engine) -> Result<Outcome> {
    let is_first = Engine::available().first() == Some(&engine);
    suites_of(engine, &[], &[], if is_first { Extent::Everywhere } else { Extent::OfEngine })
}

/// Which suites run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// All, some of the local backend also with other images and as another user.
    Whole,
    /// Container suites, and once those of the local backend that are marked `everywhere`.
    Everywhere,
    /// Container suites, without those of [`OF_ANY_ENGINE`].
    OfEngine,
}

/// Builds the suites' images in every available engine; packages are fetched once.
pub(crate) fn images() -> Result<Outcome> {
    let engines = Engine::available();
    if engines.is_empty() {
        eprintln!("skipped: images of the container suites: no engine is available");
        return Ok(Outcome::Skipped);
    }
    images::build_for_suites(&engines).map(|()| Outcome::Passed)
}

fn suites_of(engine: Engine, names: &[String], args: &[String], extent: Extent) -> Result<Outcome> {
    let mut own = chosen(test_program::suites()?, names);
    if extent == Extent::OfEngine {
        own.retain(|name| !OF_ANY_ENGINE.contains(&name.as_str()));
    }
    let rows = container_suites::rows()?;
    let again: Vec<&Row> = container_suites::in_containers(&rows)
        .filter(|row| names.is_empty() || names.contains(&row.suite))
        .filter(|row| match extent {
            Extent::Whole => true,
            Extent::Everywhere => row.runs == ContainerRuns::Everywhere,
            Extent::OfEngine => false,
        })
        .collect();
    let known = |name: &String| own.contains(name) || again.iter().any(|row| row.suite == *name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        bail!(
            "unknown container suite '{name}'\nhint: see the table in spec/coverage.md, or name a suite {PREFIX}.."
        );
    }
    if let Err(reason) = engine.check_available() {
        for suite in again.iter().map(|row| &row.suite).chain(&own) {
            eprintln!("skipped: {suite}: {} is not available ({reason})", engine.name());
        }
        return Ok(Outcome::Skipped);
    }
    images::build_for_suites(&[engine])?;
    let before = held_for_suites(engine)?;
    let again = again_in_containers(engine, &again, args, extent);
    // A failure there does not hide those of the container suites.
    let own = if own.is_empty() { Ok(()) } else { ask(engine, &own, args) };
    match (again, own) {
        (Err(again), Err(own)) => bail!("{again:#}\n{own:#}"),
        (again, own) => again.and(own)?,
    }
    check_nothing_left(engine, &before)?;
    Ok(Outcome::Passed)
}

/// Runs container suites with an engine that is available and has their images.
pub(crate) fn ask(engine: Engine, suites: &[String], args: &[String]) -> Result<()> {
    let before = held_for_suites(engine)?;
    let args = Arguments::parse(args);
    let run = |names: &[String]| {
        let command = |names: &[String]| {
            let mut command = test(engine, ENGINE);
            command.args(["--", "--include-ignored"]).args(names);
            command
        };
        test_program::run_tests(command, names)
    };
    test_program::run_all(suites.iter().map(|suite| (suite.as_str(), &[][..])), &args, run)?;
    check_nothing_left(engine, &before)
}

/// Runs suites of the local backend in containers: all of them, then some with other images and as
/// another user.
fn again_in_containers(
    engine: Engine,
    rows: &[&Row],
    args: &[String],
    extent: Extent,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let everywhere: Vec<&Row> =
        rows.iter().copied().filter(|row| row.runs == ContainerRuns::Everywhere).collect();
    let args = Arguments::parse(args);
    let runs = |rows: &[&Row], image: Option<&str>| {
        test_program::run_all(with_left_out(rows), &args, |names| {
            let command = |names: &[String]| {
                let mut command = test(engine, BACKEND);
                command.envs(image.map(|image| (IMAGE, image))).arg("--").args(names);
                command
            };
            test_program::run_tests(command, names)
        })
    };
    runs(rows, None)?;
    if everywhere.is_empty() || extent == Extent::Everywhere {
        return Ok(());
    }
    runs(&everywhere, Some("aifo-test-dash:latest"))?;
    match another_user::possible(engine) {
        Ok(()) => {
            let copies = another_user::Copies::new()?;
            let variables = [(BACKEND, engine.name())];
            let run = |names: &[String]| copies.run(names, &variables);
            test_program::run_all(with_left_out(&everywhere), &args, run)
        }
        Err(reason) => {
            eprintln!("skipped: suites as another user with {}: {reason}", engine.name());
            Ok(())
        }
    }
}

/// The suites of these rows, each with its tests that do not run in containers.
fn with_left_out<'a>(rows: &[&'a Row]) -> impl Iterator<Item = (&'a str, &'a [String])> {
    rows.iter().map(|row| (row.suite.as_str(), row.left_out.as_slice()))
}

/// Returns `cargo test` of the suites' program, with the engine name in this variable.
fn test(engine: Engine, variable: &str) -> Command {
    let mut command = test_program::cargo_test();
    command.env(variable, engine.name());
    // Without it podman raises limits of every container, which root in a container may not do.
    command.env(PODMAN_SETTINGS, shell::root().join("xtask/images/test/containers.conf"));
    command
}

/// Fails if the suites left containers or networks. Leftovers of an earlier run are ignored.
fn check_nothing_left(engine: Engine, before: &[String]) -> Result<()> {
    let mut left = held_for_suites(engine)?;
    left.retain(|line| !before.contains(line));
    if !left.is_empty() {
        bail!("the suites left on {}:\n{}", engine.name(), left.join("\n"));
    }
    Ok(())
}

/// The engine containers and networks whose label names a suite's directory, a line each.
fn held_for_suites(engine: Engine) -> Result<Vec<String>> {
    let filter = ["--filter", "label=dev.aifo.folder", "--format", "{{.ID}} {{.Labels}}"];
    let mut held = Vec::new();
    for list in [&["ps", "--all"][..], &["network", "ls"]] {
        let mut command = engine.command(list.iter().chain(&filter).copied());
        let lines = shell::read(&mut command)?;
        held.extend(lines.lines().filter(|line| line.contains(FOLDERS)).map(str::to_owned));
    }
    Ok(held)
}

/// Prefix of the directories that container suites use.
const FOLDERS: &str = "/var/tmp/aifo-t";

/// Returns the container suites among `all`, or those that are named.
fn chosen(all: Vec<String>, names: &[String]) -> Vec<String> {
    let suites = all.into_iter().filter(|name| name.starts_with(PREFIX));
    suites.filter(|name| names.is_empty() || names.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_of_any_engine_exist() {
        let suites = chosen(test_program::suites().unwrap(), &[]);
        assert!(OF_ANY_ENGINE.iter().all(|name| suites.iter().any(|suite| suite == name)));
    }

    #[test]
    fn container_suites_are_known_by_their_names() {
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let all = || owned(&["argv", "container_start", "containers", "container_limits"]);
        assert_eq!(chosen(all(), &[]), ["container_start", "container_limits"]);
        assert_eq!(chosen(all(), &owned(&["container_start"])), ["container_start"]);
        assert_eq!(chosen(all(), &owned(&["argv"])), [""; 0]);
    }
}
