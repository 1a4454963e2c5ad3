//! The hosts of the URLs in an agent's variables, such as `OPENAI_BASE_URL`, and in its settings
//! (`spec/network.md#agents`).

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;

use aifo_network::{NetworkRules, RuleScope, UrlHost};

use crate::agent_settings::AgentSettings;
use crate::agent_variables::{AGENT_VARIABLE_PREFIX, agent_variables};
use crate::agents::AgentSpec;

/// A URL in the user's settings that no rule can allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreachableUrl {
    /// The variable or the line of a file.
    source: String,
    host: UnreachableHost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnreachableHost {
    /// A port of this machine's localhost.
    LocalPort(u16),
    Address(IpAddr),
}

impl AgentSpec {
    /// Allows the agent the hosts of the URLs in its variables and settings. `variable` returns the launcher's
    /// own ones. Returns the URLs that cannot be allowed: of this machine, other than `host_ports`, or with
    /// an address.
    pub fn allow_urls(
        &self,
        rules: &mut NetworkRules,
        host_ports: &[u16],
        settings: &AgentSettings,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<UnreachableUrl> {
        let passed = agent_variables().into_iter();
        let passed = passed.map(|name| format!("{AGENT_VARIABLE_PREFIX}{name}"));
        let names = self.variables.iter().cloned().chain(passed);
        let values = names.filter_map(|name| Some((variable(&name)?.into_string().ok()?, name)));
        let set = self.set.iter().map(|(name, value)| (value.clone(), name.clone()));
        let mut unreachable = Vec::new();
        let of_settings = settings.urls.iter().cloned();
        for (value, source) in values.chain(set).chain(of_settings) {
            let is_http = value.starts_with("http://") || value.starts_with("https://");
            let host = match UrlHost::parse(&value).filter(|_| is_http) {
                Some(UrlHost::Rule(rule)) => {
                    // The text is a rule.
                    let _ = rules.allow(RuleScope::Agent, rule, source);
                    continue;
                }
                Some(UrlHost::LocalPort(port)) if host_ports.contains(&port) => continue,
                Some(host) => host,
                None => continue,
            };
            unreachable.extend(UnreachableUrl::new(source, &host));
        }
        unreachable
    }
}

impl UnreachableUrl {
    /// `None` for a host that a rule names.
    pub(crate) fn new(source: String, host: &UrlHost) -> Option<Self> {
        let host = match *host {
            UrlHost::Rule(_) => return None,
            UrlHost::LocalPort(port) => UnreachableHost::LocalPort(port),
            UrlHost::Address(address) => UnreachableHost::Address(address),
        };
        Some(UnreachableUrl { source, host })
    }

    /// Returns the setting by which containers reach it.
    pub fn remedy(&self) -> String {
        match self.host {
            UnreachableHost::LocalPort(port) => format!("relay the port with: --host-port {port}"),
            UnreachableHost::Address(address) => {
                format!("use a name there, and allow it with: --allow-net 'NAME address={address}'")
            }
        }
    }
}

impl fmt::Display for UnreachableUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' names ", self.source)?;
        match self.host {
            UnreachableHost::LocalPort(port) => write!(f, "port {port} of this machine")?,
            UnreachableHost::Address(address) => write!(f, "the address {address}")?,
        }
        write!(f, ", which containers do not reach; {}", self.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urls_of_an_agents_variables_are_allowed_for_it() {
        let mut agent = AgentSpec::unknown("it");
        let names = ["IT_BASE_URL", "IT_KEY", "IT_UNSET", "IT_LOCAL", "IT_RELAYED", "IT_ADDRESS"];
        agent.variables = names.map(str::to_owned).to_vec();
        agent.set = vec![("IT_SET".to_owned(), "http://set.example:8080/v1".to_owned())];
        let variable = |name: &str| {
            let value = match name {
                "IT_BASE_URL" => "https://model.example/v1",
                "IT_KEY" => "me@other.example:x",
                "IT_LOCAL" => "http://localhost:11434/v1",
                "IT_RELAYED" => "http://127.0.0.1:8000",
                "IT_ADDRESS" => "http://10.0.0.7:8000",
                _ => return None,
            };
            Some(OsString::from(value))
        };
        let mut rules = NetworkRules::default();
        let unreachable =
            agent.allow_urls(&mut rules, &[8000], &AgentSettings::default(), &variable);
        let printed: Vec<_> = rules.iter().map(ToString::to_string).collect();
        let expected = [
            "model.example:443 private (agent, IT_BASE_URL)",
            "set.example:8080 private (agent, IT_SET)",
        ];
        assert_eq!(printed, expected);
        let hints: Vec<_> = unreachable.iter().map(ToString::to_string).collect();
        let [local, address] = hints.as_slice() else { panic!("{hints:?}") };
        assert!(local.starts_with("'IT_LOCAL' names port 11434 of this machine"), "{local}");
        assert!(local.ends_with("relay the port with: --host-port 11434"), "{local}");
        assert!(address.ends_with("--allow-net 'NAME address=10.0.0.7'"), "{address}");
    }
}
