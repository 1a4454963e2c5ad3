//! The connections of a pod, from the rules of the configuration (`spec/kubernetes.md#network`).

use std::collections::BTreeSet;
use std::path::Path;

use aifo_agents::AgentSpec;
use aifo_config::Config;
use aifo_egress::NetRules;
use aifo_network::NetworkRules;
use aifo_provider::UpstreamUrl;
use aifo_sidecar::Net;
use anyhow::bail;

use crate::PodNetwork;

/// Returns the connections of a network. A policy has ports, but no names.
pub(crate) fn network(
    config: &Config,
    spec: &AgentSpec,
    workspace: &Path,
) -> anyhow::Result<PodNetwork> {
    Ok(match config.net.value {
        Net::None => PodNetwork::None,
        Net::Shared | Net::Separate => PodNetwork::Open,
        Net::Host => bail!(
            "a pod of Pod Security \"restricted\" cannot have the network of its node\n\
             hint: use --net names or --net open"
        ),
        Net::Names | Net::Learn => {
            let (mut rules, _) = config.network_rules(workspace);
            if let Err(error) = rules.set_agent(&spec.hosts) {
                tracing::warn!("the agent's hosts are not allowed: {error}");
            }
            let of_urls = key_urls(config, spec).map(|url| url.port());
            let hosts = spec.hosts.model.iter().map(String::as_str);
            let rules = rules.iter().map(|rule| rule.rule.as_str());
            let ports = hosts.chain(rules).flat_map(ports).chain(of_urls).chain([HTTPS]);
            PodNetwork::Ports(ports.collect::<BTreeSet<u16>>().into_iter().collect())
        }
    })
}

/// Returns the URLs of `[keys]` for the agent's providers that a pod has.
pub(crate) fn key_urls(config: &Config, spec: &AgentSpec) -> impl Iterator<Item = UpstreamUrl> {
    let mut entries = config.key_settings().unwrap_or_default().entries;
    let urls = spec.keys.iter().filter_map(move |row| entries.remove(&row.provider)?.url);
    urls.filter(|url| !url.is_local())
}

/// Returns the rules of the user's settings.
pub(crate) fn own_rules(config: &Config) -> NetRules {
    let mut rules = NetworkRules::default();
    config.names.add_to(&mut rules);
    rules.of_all()
}

/// The port of models, registries and forges.
const HTTPS: u16 = 443;

/// Returns the ports of a rule, such as `registry.example:443,8443 private`.
fn ports(rule: &str) -> Vec<u16> {
    let name = rule.split_whitespace().next().unwrap_or_default();
    let ports = name.rsplit_once(':').map_or("", |(_, ports)| ports);
    ports.split(',').filter_map(|port| port.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_config::File;

    #[test]
    fn ports_of_rules() {
        assert_eq!(ports("registry.example:443,8443 private"), [443, 8443]);
        assert_eq!(ports("*.example:22"), [22]);
        assert_eq!(ports("@rust"), [0_u16; 0]);
        assert_eq!(ports("example"), [0_u16; 0]);
    }

    #[test]
    fn the_port_of_a_gateway_is_in_the_policy() {
        let mut config = Config::builtin();
        let users = "[keys.openai]\nurl = \"https://llm.example:8443/v1\"\n";
        config.apply_user(&File::new(Path::new("/c.toml"), users.to_owned())).unwrap();
        let network = |agent: &str| {
            let spec = config.agent_named(agent).unwrap();
            match network(&config, spec, Path::new("/")).unwrap() {
                PodNetwork::Ports(ports) => ports,
                other => panic!("{other:?}"),
            }
        };
        assert!(network("codex").contains(&8443));
        assert!(!network("claude").contains(&8443), "it has another provider");
    }
}
