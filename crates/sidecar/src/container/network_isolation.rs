//! Isolates a session network from other networks, where the engine does not
//! (`spec/containers.md#network`).

use aifo_engine::{ContainerSpec, Flavor};
use aifo_types::Subnet;

use super::Shared;

/// Podman's default address pools, in its order; the first is the default network
/// (`containers.conf(5)`, `default_subnet` and `default_subnet_pools`).
const PODMAN_POOLS: [&str; 6] = [
    "10.88.0.0/16",
    "10.89.0.0/16",
    "10.90.0.0/15",
    "10.92.0.0/14",
    "10.96.0.0/11",
    "10.128.0.0/9",
];

/// The runner's option before each pool (`spec/runner.md#options`).
const ISOLATE_OPTION: &str = "--isolate-network";

/// For adding routes, and for dropping all capabilities afterwards.
const CAPABILITIES: [&str; 2] = ["NET_ADMIN", "SETPCAP"];

impl Shared {
    /// Adds the options with which a container's first process isolates its network stack.
    pub(super) fn isolate_network(&self, spec: &mut ContainerSpec) {
        let pools = match (self.config.engine.flavor(), &self.config.pools) {
            // Docker's daemon isolates each network.
            (Flavor::Docker, _) => return,
            (Flavor::Podman, Some(pools)) => pools.clone(),
            (Flavor::Podman, None) => default_pools(),
        };
        if pools.is_empty() {
            return;
        }
        spec.capabilities.extend(CAPABILITIES);
        for pool in pools {
            spec.args.extend([ISOLATE_OPTION.into(), pool.to_string().into()]);
        }
    }
}

fn default_pools() -> Vec<Subnet> {
    PODMAN_POOLS.iter().filter_map(|pool| pool.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_pools_are_subnets() {
        let words: Vec<_> = default_pools().iter().map(Subnet::to_string).collect();
        assert_eq!(words, PODMAN_POOLS);
    }
}
