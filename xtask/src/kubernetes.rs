//! `cargo xtask test kubernetes`: the suites of sessions in a cluster, on that of the user's kubectl
//! (`spec/kubernetes.md#in-other-clusters`).

mod cluster;
mod kubectl;
mod options;

use anyhow::{Result, bail};

use self::cluster::TestCluster;
use self::options::Options;
use crate::images::{self, Engine};
use crate::test_program::{self, Arguments};

/// The suites that run in any cluster.
const SUITES: [&str; 4] =
    ["container_pods", "container_pod_calls", "container_pod_faults", "container_pod_agents"];

/// Names the prefix of the suites' images, to which they are pushed.
const CLUSTER: &str = "AIFO_TEST_CLUSTER";

/// Runs the suites. Without a cluster, each is reported as skipped.
pub(crate) fn run(words: &[String], args: &[String]) -> Result<()> {
    let options = Options::parse(words)?;
    let names = &options.suites;
    if let Some(name) = names.iter().find(|name| !SUITES.contains(&name.as_str())) {
        bail!("unknown suite '{name}'\nhint: the suites of clusters are: {}", SUITES.join(" "));
    }
    let chosen = SUITES
        .into_iter()
        .filter(|suite| names.is_empty() || names.iter().any(|name| name == suite));
    let chosen: Vec<&str> = chosen.collect();
    if let Err(reason) = kubectl::reach(options.context.as_deref()) {
        if let Some(context) = &options.context {
            bail!(
                "cannot use context '{context}': {reason}\n\
                 hint: list the contexts with: kubectl config get-contexts"
            );
        }
        for suite in chosen {
            eprintln!("skipped: {suite}: kubectl reaches no cluster ({reason})");
        }
        return Ok(());
    }
    let Some(prefix) = options.image_prefix() else {
        bail!(
            "the cluster needs the suites' images\n\
             hint: name a registry that this machine and the cluster reach: --images REGISTRY/, or {CLUSTER}; or a \
             command that loads an image into the cluster: --load 'kind load docker-image'"
        );
    };
    let engine = Engine::first_available()?;
    images::build_for_suites(&[engine])?;
    let cluster = TestCluster::prepare(&options, &prefix, engine)?;
    let args = Arguments::parse(args);
    let suites = chosen.into_iter().map(|suite| (suite, &[][..]));
    let tested = test_program::run_all(suites, &args, |names| {
        let command = |names: &[String]| {
            let mut command = test_program::cargo_test();
            command.env(CLUSTER, &prefix).env("AIFO_TEST_ENGINE", engine.name());
            command.envs(cluster.variables());
            // The tests look for their session among those of the namespace.
            command.args(["--", "--include-ignored", "--test-threads=1"]).args(names);
            command
        };
        test_program::run_tests(command, names)
    });
    let removed = cluster.remove();
    tested.and(removed)
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
