//! The gateway of a session's network by name (`spec/network.md`).

use std::sync::{Arc, Mutex, PoisonError};

use aifo_egress::{Gateway, NetRules, ParentError, ParentProxy, Phase, Stack};
use aifo_sidecar::{
    AGENT_STACK, Listener, ListenerReport, Serving, StackListeners, StackServer, StackSockets,
    TOOLS_STACK,
};
use aifo_types::Kind;

use crate::connection_log::ConnectionLog;
use crate::mirrors::Mirrors;
use crate::port_relay::{dial_host, relay_all};

/// Serves the stacks of a session. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NamedNetwork {
    gateway: Gateway,
    ports: StackPorts,
    mirrors: Mirrors,
    log: Arc<Mutex<ConnectionLog>>,
}

/// The ports that stacks listen on from the start, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackPorts {
    /// Those of rules.
    pub(crate) rules: Vec<u16>,
    /// Those of this machine's localhost.
    pub(crate) host: Vec<u16>,
    /// Those of the agent, in the stacks of tools.
    pub(crate) agent: Vec<u16>,
    /// True if the tools have a network of the engine.
    pub(crate) joined: bool,
}

/// The port of DNS, which every stack has.
const DNS: u16 = 53;

/// The treatment of names without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlistedNames {
    Refuse,
    /// They are allowed and listed.
    Allow,
}

impl NamedNetwork {
    /// Creates the gateway. It dials through the HTTP proxy of the launcher's environment, if there is one.
    /// Errors: that proxy's URL is not supported.
    pub(crate) fn new(
        rules: NetRules,
        unlisted: UnlistedNames,
        ports: StackPorts,
    ) -> Result<Self, ParentError> {
        let listed = rules.clone();
        let rules = match unlisted {
            UnlistedNames::Refuse => rules,
            UnlistedNames::Allow => rules.learning(),
        };
        let ports = StackPorts { rules: rules.ports().into_iter().collect(), ..ports };
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
        let mirrors = Mirrors::new(ports.agent.clone());
        Ok(NamedNetwork { gateway, ports, mirrors, log })
    }

    /// Returns a line about the refused names, and one about those that were reached without a rule.
    pub(crate) fn report(&self) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        [log.report(), log.report_learnt()].into_iter().flatten().collect()
    }
}

impl StackServer for NamedNetwork {
    fn stack_of(&self, _: &Kind) -> String {
        TOOLS_STACK.to_owned()
    }

    fn ports(&self, stack: &str) -> Option<Vec<u16>> {
        let StackPorts { rules, host, agent, joined } = &self.ports;
        match stack {
            AGENT_STACK => Some([&rules[..], host].concat()),
            _ => (!joined).then(|| [&rules[..], host, agent].concat()),
        }
    }

    fn serve(
        &self,
        stack: &str,
        listeners: Option<StackListeners>,
        sockets: StackSockets,
    ) -> Serving {
        let reserved = self.ports(stack).into_iter().flatten().chain([DNS]).collect();
        let mirrored = self.mirrors.add(stack, reserved, sockets);
        let Some(StackListeners { dns_udp, dns_tcp, ports }) = listeners else {
            return Box::pin(async move { mirrored.serve().await });
        };
        let mut of_rules = ports;
        let mut of_host = of_rules.split_off(self.ports.rules.len().min(of_rules.len()));
        let of_agent = of_host.split_off(self.ports.host.len().min(of_host.len()));
        let (name, stack) = (stack.to_owned(), Stack { dns_udp, dns_tcp, listeners: of_rules });
        let names = self.gateway.serve(name, stack);
        let mirrors = self.mirrors.clone();
        Box::pin(async move {
            let to_host = relay_all(of_host, dial_host);
            let to_agent = relay_all(of_agent, move |port| {
                let mirrors = mirrors.clone();
                async move { mirrors.connect(AGENT_STACK, port).await }
            });
            tokio::join!(names, to_host, to_agent, mirrored.serve());
        })
    }

    fn report(&self, stack: &str, report: ListenerReport, listeners: Vec<Listener>) {
        self.mirrors.report(stack, report, listeners);
    }
}

impl std::fmt::Debug for NamedNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedNetwork").field("ports", &self.ports).finish_non_exhaustive()
    }
}
