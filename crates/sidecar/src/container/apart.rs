//! What keeps a network of a session's from those of others, where the engine alone does not
//! (`spec/containers.md#network`).

use aifo_engine::{ContainerSpec, Flavor};
use aifo_types::Subnet;

use super::Shared;

/// What podman takes networks from, in its order, unless its own settings say otherwise: first the one
/// that is there from the beginning (`containers.conf(5)`, `default_subnet` and
/// `default_subnet_pools`).
const PODMAN: [&str; 6] = [
    "10.88.0.0/16",
    "10.89.0.0/16",
    "10.90.0.0/15",
    "10.92.0.0/14",
    "10.96.0.0/11",
    "10.128.0.0/9",
];

/// The argument before such a range (`spec/runner.md#options`).
const ISOLATE_NETWORK: &str = "--isolate-network";

/// For the routes, and for having no capability afterwards.
const CAPABILITIES: [&str; 2] = ["NET_ADMIN", "SETPCAP"];

impl Shared {
    /// Has the first process of a container with a network stack of its own keep it apart.
    pub(super) fn keep_apart(&self, spec: &mut ContainerSpec) {
        let pools = match (self.config.engine.flavor(), &self.config.pools) {
            // Its daemon does, by rules of each network's own.
            (Flavor::Docker, _) => return,
            (Flavor::Podman, Some(pools)) => pools.clone(),
            (Flavor::Podman, None) => defaults(),
        };
        if pools.is_empty() {
            return;
        }
        spec.capabilities.extend(CAPABILITIES);
        for pool in pools {
            spec.args.extend([ISOLATE_NETWORK.into(), pool.to_string().into()]);
        }
    }
}

fn defaults() -> Vec<Subnet> {
    PODMAN.iter().filter_map(|pool| pool.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_ranges() {
        let words: Vec<_> = defaults().iter().map(Subnet::to_string).collect();
        assert_eq!(words, PODMAN);
    }
}
