//! `cargo xtask test kubernetes`: the suites of sessions in a cluster, on that of the user's kubectl.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::images::{self, Engine};
use crate::test_program::{self, Arguments};

/// The suites that run in any cluster.
const SUITES: [&str; 2] = ["container_pods", "container_pod_agents"];

/// Names the prefix of the suites' images, to which they are pushed.
const CLUSTER: &str = "AIFO_TEST_CLUSTER";

/// Runs the suites: `[--images PREFIX] [SUITE]..`. Without a cluster, each is reported as skipped.
pub(crate) fn run(words: &[String], args: &[String]) -> Result<()> {
    let (prefix, names) = match words {
        [option, prefix, names @ ..] if option == "--images" => (Some(prefix.clone()), names),
        names => (std::env::var(CLUSTER).ok(), names),
    };
    if let Some(name) = names.iter().find(|name| !SUITES.contains(&name.as_str())) {
        bail!("unknown suite '{name}'\nhint: the suites of clusters are: {}", SUITES.join(" "));
    }
    let chosen = SUITES
        .into_iter()
        .filter(|suite| names.is_empty() || names.iter().any(|name| name == suite));
    let chosen: Vec<&str> = chosen.collect();
    if let Err(reason) = reach_cluster() {
        for suite in chosen {
            eprintln!("skipped: {suite}: kubectl reaches no cluster ({reason})");
        }
        return Ok(());
    }
    let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) else {
        bail!(
            "the cluster needs the suites' images\n\
             hint: name a registry that this machine and the cluster reach: --images REGISTRY/, or {CLUSTER}"
        );
    };
    let engine = Engine::first_available()?;
    images::build_for_suites(&[engine])?;
    let args = Arguments::parse(args);
    let suites = chosen.into_iter().map(|suite| (suite, &[][..]));
    test_program::run_each(suites, &args, |names| {
        let command = |names: &[String]| {
            let mut command = test_program::cargo_test();
            command.env(CLUSTER, &prefix).env("AIFO_TEST_ENGINE", engine.name());
            // The tests look for their session among those of the namespace.
            command.args(["--", "--include-ignored", "--test-threads=1"]).args(names);
            command
        };
        test_program::run_tests(command, names)
    })
}

/// Errors: the reason why kubectl reaches no cluster.
fn reach_cluster() -> Result<()> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(["get", "pods", "--output=name", "--request-timeout=10s"]).stdin(Stdio::null());
    match kubectl.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("{}", stderr.trim().lines().last().unwrap_or_default())
        }
        Err(error) => bail!("kubectl: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suites_exist() {
        let all = test_program::suites().unwrap();
        assert!(SUITES.iter().all(|suite| all.iter().any(|name| name == suite)));
        let error = run(&["nosuch".to_owned()], &[]).unwrap_err().to_string();
        assert!(error.contains("unknown suite 'nosuch'"), "{error}");
    }
}
