//! The gateway of a session's network by name, and the names that it refused (`spec/network.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use aifo_egress::{
    AddressClass, ConnectionError, ConnectionEvent, Gateway, Name, NetRules, ParentError,
    ParentProxy, Phase, Stack, Verdict,
};
use aifo_sidecar::{ServedStack, StackListeners, StackServer};

use crate::host_ports::relay_all;
use crate::relayed_stack::serve_relayed;

/// Serves the stacks of a session. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NamedNetwork {
    gateway: Gateway,
    /// Those of rules, then those of this machine.
    ports: Vec<u16>,
    host_ports: usize,
    log: Arc<Mutex<ConnectionLog>>,
}

/// The names that connections were refused for, or that they reached without a rule.
#[derive(Debug, Default)]
struct ConnectionLog {
    /// Each refused name, with its port if a connection was refused, and the rule that would allow it, if one
    /// would.
    named: BTreeMap<String, Option<String>>,
    /// Further ones.
    omitted: usize,
    /// The names, with their ports, that were reached without a rule.
    learnt: BTreeSet<String>,
}

/// The treatment of names without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlistedNames {
    Refuse,
    /// They are allowed and listed.
    Allow,
}

/// A tool can look up any number of names.
const MAX_REFUSALS: usize = 200;

/// Names in the summary.
const MAX_LISTED: usize = 10;

impl NamedNetwork {
    /// Creates the gateway. It dials through the HTTP proxy of the launcher's environment, if there is one.
    /// Errors: that proxy's URL is not supported.
    pub(crate) fn new(
        rules: NetRules,
        unlisted: UnlistedNames,
        host_ports: &[u16],
    ) -> Result<Self, ParentError> {
        let listed = rules.clone();
        let rules = match unlisted {
            UnlistedNames::Refuse => rules,
            UnlistedNames::Allow => rules.learning(),
        };
        let ports = rules.ports().into_iter().chain(host_ports.iter().copied()).collect();
        let log = Arc::new(Mutex::new(ConnectionLog::default()));
        let shared = Arc::clone(&log);
        let gateway = Gateway::new(Arc::new(rules), move |event| {
            let mut log = shared.lock().unwrap_or_else(PoisonError::into_inner);
            match event.phase {
                Phase::Opened => log.learn(&event, &listed),
                Phase::Closed => log.record(&event),
            }
        });
        let gateway = match ParentProxy::from_environment(|name| std::env::var(name).ok())? {
            Some(parent) => gateway.with_parent_proxy(parent),
            None => gateway,
        };
        Ok(NamedNetwork { gateway, ports, host_ports: host_ports.len(), log })
    }

    /// Returns the server of the session's stacks.
    pub(crate) fn server(&self) -> StackServer {
        let gateway = self.gateway.clone();
        let names = self.ports.len().saturating_sub(self.host_ports);
        let host_ports = self.ports.get(names..).unwrap_or_default().to_vec();
        StackServer {
            ports: self.ports.clone(),
            serve: Arc::new(move |name, served| match served {
                ServedStack::Passed(listeners) => {
                    let StackListeners { dns_udp, dns_tcp, ports: mut listeners } = listeners;
                    let of_host = listeners.split_off(names.min(listeners.len()));
                    let stack = Stack { dns_udp, dns_tcp, listeners };
                    let serving = gateway.serve(name.to_owned(), stack);
                    Box::pin(async move {
                        tokio::join!(serving, relay_all(of_host));
                    })
                }
                ServedStack::Relayed(stack) => {
                    let gateway = gateway.relayed(name.to_owned());
                    Box::pin(serve_relayed(stack, gateway, host_ports.clone()))
                }
            }),
        }
    }

    /// Returns a line about the refused names, and one about those that were reached without a rule.
    pub(crate) fn report(&self) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        [log.report(), log.report_learnt()].into_iter().flatten().collect()
    }
}

impl std::fmt::Debug for NamedNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedNetwork").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl ConnectionLog {
    /// Records a connection that no listed rule allows.
    fn learn(&mut self, event: &ConnectionEvent, listed: &NetRules) {
        let Some((name, port)) = Name::parse(event.name.as_bytes()).ok().zip(event.port) else {
            return;
        };
        if listed.judge(&name, port) == Verdict::Refused && self.learnt.len() < MAX_REFUSALS {
            self.learnt.insert(format!("{name}:{port}"));
        }
    }

    /// Returns a line with all names, because it is the result of the session.
    fn report_learnt(&self) -> Option<String> {
        let rules: Vec<_> = self.learnt.iter().map(|rule| format!("\"{rule}\"")).collect();
        let list = rules.join(", ");
        (!rules.is_empty())
            .then(|| format!("names were reached without a rule; to allow them: allow = [{list}]"))
    }

    /// Records and logs a refusal, each one once.
    fn record(&mut self, event: &ConnectionEvent) {
        let Some(error) = event.error.as_ref() else { return };
        let subject = match event.port {
            Some(port) => format!("{}:{port}", event.name),
            None => event.name.clone(),
        };
        if !error.is_refusal() {
            tracing::info!("{} did not reach {subject}: {error}", event.stack);
            return;
        }
        if self.named.contains_key(&subject) {
            return;
        }
        if self.named.len() >= MAX_REFUSALS {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        let rule = match error {
            ConnectionError::NoRule => event.hint().map(|_| subject.clone()),
            // The user's own network; other refused addresses are never the name's intended ones.
            ConnectionError::Address {
                class: AddressClass::Private | AddressClass::Shared,
                ..
            } => Some(format!("'{subject} private'")),
            _ => None,
        };
        let who = match event.stack.as_str() {
            "agent" => "the agent was",
            _ => "tools were",
        };
        match &rule {
            Some(rule) => {
                let cause = match error {
                    ConnectionError::NoRule => String::new(),
                    error => format!(": {error}"),
                };
                tracing::warn!("{who} refused {subject}{cause}; allow it with: --allow-net {rule}");
            }
            None => tracing::warn!("{who} refused {subject}: {error}"),
        }
        self.named.insert(subject, rule);
    }

    fn report(&self) -> Option<String> {
        let count = self.named.len().saturating_add(self.omitted);
        if count == 0 {
            return None;
        }
        let listed: Vec<_> = self.named.keys().take(MAX_LISTED).map(String::as_str).collect();
        let rules = self.named.values().flatten().take(MAX_LISTED);
        let flags: Vec<_> = rules.map(|rule| format!("--allow-net {rule}")).collect();
        let mut text = format!("the network refused {}", listed.join(", "));
        if let Some(more @ 1..) = count.checked_sub(listed.len()) {
            text += &format!(" and {more} more");
        }
        if !flags.is_empty() {
            text += &format!("; allow what is needed with: {}", flags.join(" "));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn event(
        stack: &str,
        name: &str,
        port: Option<u16>,
        error: ConnectionError,
    ) -> ConnectionEvent {
        ConnectionEvent {
            id: 1,
            stack: stack.to_owned(),
            peer: None,
            name: name.to_owned(),
            port,
            verdict: Verdict::Refused,
            phase: Phase::Closed,
            address: None,
            via_parent: false,
            sent: 0,
            received: 0,
            error: Some(error),
        }
    }

    #[test]
    fn the_summary_has_each_refusal_once_and_the_rules_that_allow_it() {
        let mut log = ConnectionLog::default();
        assert_eq!(log.report(), None);
        let address: IpAddr = [10, 0, 0, 7].into();
        let class = AddressClass::Private;
        for _ in 0..2 {
            let private = ConnectionError::Address { address, class };
            log.record(&event("tools", "b.example", Some(443), private));
            log.record(&event("agent", "a.example", None, ConnectionError::NoRule));
            log.record(&event("tools", "c.example", Some(443), ConnectionError::NoSni));
            let failed = ConnectionError::Connect("timed out".to_owned());
            log.record(&event("tools", "d.example", Some(443), failed));
        }
        let expected = "the network refused a.example, b.example:443, c.example:443; allow what is \
                        needed with: --allow-net a.example --allow-net 'b.example:443 private'";
        assert_eq!(log.report().as_deref(), Some(expected));
    }

    #[test]
    fn learnt_names_are_those_without_a_rule() {
        let listed = NetRules::parse(&["a.example:443".to_owned()]).unwrap();
        let mut log = ConnectionLog::default();
        assert_eq!(log.report_learnt(), None);
        for (name, port) in [("b.example", 443), ("a.example", 443), ("a.example", 22)] {
            let event = event("tools", name, Some(port), ConnectionError::NoRule);
            log.learn(&event, &listed);
        }
        let expected = "names were reached without a rule; to allow them: \
                        allow = [\"a.example:22\", \"b.example:443\"]";
        assert_eq!(log.report_learnt().as_deref(), Some(expected));
    }

    #[test]
    fn a_tool_that_looks_up_many_names_costs_little() {
        let mut log = ConnectionLog::default();
        for number in 0..1000 {
            let name = format!("n{number}.example");
            log.record(&event("tools", &name, None, ConnectionError::NoRule));
        }
        assert_eq!(log.named.len(), MAX_REFUSALS);
        assert!(log.report().unwrap().contains(" and 990 more; allow"));
    }
}
