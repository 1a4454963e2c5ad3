//! The gateway of a session's network by name, and the names that it refused (`spec/network.md`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aifo_egress::{
    AddressClass, ConnectionError, ConnectionEvent, Gateway, NetRules, ParentError, ParentProxy,
    Phase, Stack,
};
use aifo_sidecar::{StackListeners, StackServer};

/// Serves the stacks of a session. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NamedNetwork {
    gateway: Gateway,
    ports: Vec<u16>,
    refusals: Arc<Mutex<Refusals>>,
}

/// The names that connections were refused for.
#[derive(Debug, Default)]
struct Refusals {
    /// Each name, with its port if a connection was refused, and the rule that would allow it, if one
    /// would.
    named: BTreeMap<String, Option<String>>,
    /// Further ones.
    omitted: usize,
}

/// A tool can look up any number of names.
const MAX_REFUSALS: usize = 200;

/// Names in the summary.
const MAX_LISTED: usize = 10;

impl NamedNetwork {
    /// Creates the gateway. It dials through the HTTP proxy of the launcher's environment, if there is one.
    /// Errors: that proxy's URL is not supported.
    pub(crate) fn new(rules: NetRules) -> Result<Self, ParentError> {
        let ports = rules.ports().into_iter().collect();
        let refusals = Arc::new(Mutex::new(Refusals::default()));
        let reported = Arc::clone(&refusals);
        let gateway = Gateway::new(Arc::new(rules), move |event| {
            let mut refusals = reported.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.record(&event);
        });
        let gateway = match parent_proxy(|name| std::env::var(name).ok())? {
            Some(parent) => gateway.with_parent_proxy(parent),
            None => gateway,
        };
        Ok(NamedNetwork { gateway, ports, refusals })
    }

    /// Returns the server of the session's stacks.
    pub(crate) fn server(&self) -> StackServer {
        let gateway = self.gateway.clone();
        StackServer {
            ports: self.ports.clone(),
            serve: Arc::new(move |name, listeners| {
                let StackListeners { dns_udp, dns_tcp, ports: listeners } = listeners;
                let stack = Stack { dns_udp, dns_tcp, listeners };
                Box::pin(gateway.serve(name.to_owned(), stack))
            }),
        }
    }

    /// Returns a line about the refused names, if there are any.
    pub(crate) fn report(&self) -> Option<String> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).report()
    }
}

/// Returns the proxy of `https_proxy`, without the names of `no_proxy`.
fn parent_proxy(
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<ParentProxy>, ParentError> {
    let set = |lower: &str, upper: &str| {
        variable(lower).or_else(|| variable(upper)).filter(|value| !value.is_empty())
    };
    let Some(url) = set("https_proxy", "HTTPS_PROXY") else { return Ok(None) };
    let parent = ParentProxy::parse(&url)?;
    let bypass = set("no_proxy", "NO_PROXY").unwrap_or_default();
    Ok(Some(parent.with_bypass(&bypass)))
}

impl std::fmt::Debug for NamedNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedNetwork").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Refusals {
    /// Records and logs a refusal, each one once.
    fn record(&mut self, event: &ConnectionEvent) {
        let Some(error) = event.error.as_ref().filter(|_| event.phase == Phase::Closed) else {
            return;
        };
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

    use aifo_egress::Verdict;

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
        let mut refusals = Refusals::default();
        assert_eq!(refusals.report(), None);
        let address: IpAddr = [10, 0, 0, 7].into();
        let class = AddressClass::Private;
        for _ in 0..2 {
            let private = ConnectionError::Address { address, class };
            refusals.record(&event("tools", "b.example", Some(443), private));
            refusals.record(&event("agent", "a.example", None, ConnectionError::NoRule));
            refusals.record(&event("tools", "c.example", Some(443), ConnectionError::NoSni));
            let failed = ConnectionError::Connect("timed out".to_owned());
            refusals.record(&event("tools", "d.example", Some(443), failed));
        }
        let expected = "the network refused a.example, b.example:443, c.example:443; allow what is \
                        needed with: --allow-net a.example --allow-net 'b.example:443 private'";
        assert_eq!(refusals.report().as_deref(), Some(expected));
    }

    #[test]
    fn a_tool_that_looks_up_many_names_costs_little() {
        let mut refusals = Refusals::default();
        for number in 0..1000 {
            let name = format!("n{number}.example");
            refusals.record(&event("tools", &name, None, ConnectionError::NoRule));
        }
        assert_eq!(refusals.named.len(), MAX_REFUSALS);
        assert!(refusals.report().unwrap().contains(" and 990 more; allow"));
    }

    #[test]
    fn the_proxy_of_the_environment_is_the_parent() {
        let parent = |rows: &[(&str, &str)]| {
            let find = |name: &str| rows.iter().find(|(of, _)| *of == name);
            parent_proxy(|name| find(name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(parent(&[("http_proxy", "http://p:1")]), Ok(None));
        assert_eq!(parent(&[("https_proxy", "")]), Ok(None));
        let rows = [("HTTPS_PROXY", "http://p:1"), ("no_proxy", "a.example")];
        let expected = ParentProxy::parse("http://p:1").unwrap().with_bypass("a.example");
        assert_eq!(parent(&rows), Ok(Some(expected)));
        assert!(parent(&[("https_proxy", "socks5://p:1")]).is_err());
    }
}
