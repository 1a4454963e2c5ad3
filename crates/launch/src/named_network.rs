//! The gateway of a session's network by name (`spec/network.md`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_egress::{Gateway, NetRules, ParentError, ParentProxy, RuleError, Stack};
use aifo_sidecar::{StackListeners, StackServer};
use aifo_types::Kind;

use crate::caller_finder::CallerFinder;
use crate::connection_log::{AGENT_STACK, ConnectionLog};
use crate::gateway_thread::GatewayThread;
use crate::host_ports::relay_all;
use crate::log_file::LogFile;
use crate::network_rules::{NetworkRules, RuleScope};

/// Serves the stacks of a session. Cheap to clone.
#[derive(Clone)]
pub(crate) struct NamedNetwork {
    rules: Arc<Mutex<NetworkRules>>,
    /// The kinds of the tools' stack.
    kinds: Arc<[Kind]>,
    unlisted: UnlistedNames,
    /// Of the agent's stack, and of that of the tools.
    gateways: [Gateway; 2],
    /// Those of rules, then those of this machine.
    ports: Vec<u16>,
    host_ports: usize,
    log: Arc<Mutex<ConnectionLog>>,
}

/// The treatment of names without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlistedNames {
    Refuse,
    /// They are allowed and listed.
    Allow,
}

/// The source of a rule that was added to a running session.
const ADDED_RULE: &str = "aifo-coder net allow";

impl UnlistedNames {
    /// Returns the rules that are served.
    fn served(self, listed: &[NetRules; 2]) -> [NetRules; 2] {
        listed.clone().map(|rules| match self {
            UnlistedNames::Refuse => rules,
            UnlistedNames::Allow => rules.learning(),
        })
    }
}

impl NamedNetwork {
    /// Creates the gateway. It dials through the HTTP proxy of the launcher's environment, if there is one.
    /// Errors: that proxy's URL is not supported.
    pub(crate) fn new(
        rules: &NetworkRules,
        kinds: &[Kind],
        unlisted: UnlistedNames,
        host_ports: &[u16],
    ) -> Result<Self, ParentError> {
        let listed = [rules.of_agent(), rules.of_kinds(kinds)];
        let [agent, tools] = unlisted.served(&listed);
        // Every name has an address, whichever stack may reach it.
        let all = agent.clone().union(tools.clone());
        let ports = all.ports().into_iter().chain(host_ports.iter().copied()).collect();
        let log = Arc::new(Mutex::new(ConnectionLog::new(listed)));
        let shared = Arc::clone(&log);
        let gateway = Gateway::new(Arc::new(all), move |event| {
            lock(&shared).add(&event);
        });
        let shared = Arc::clone(&log);
        let gateway = gateway.with_refusal_hook(move |event| {
            let finding = lock(&shared).find_caller(event)?;
            let (shared, id) = (Arc::clone(&shared), event.id);
            Some(Box::pin(async move {
                let caller = finding.await;
                lock(&shared).set_caller(id, caller);
            }))
        });
        let gateway = match ParentProxy::from_environment(|name| std::env::var(name).ok())? {
            Some(parent) => gateway.with_parent_proxy(parent),
            None => gateway,
        };
        Ok(NamedNetwork {
            rules: Arc::new(Mutex::new(rules.clone())),
            kinds: kinds.into(),
            unlisted,
            gateways: [agent, tools].map(|rules| gateway.with_rules(Arc::new(rules))),
            ports,
            host_ports: host_ports.len(),
            log,
        })
    }

    /// Returns the server of the session's stacks.
    pub(crate) fn server(&self) -> StackServer {
        let [agent, tools] = self.gateways.clone();
        let thread = GatewayThread::start();
        let names = self.ports.len().saturating_sub(self.host_ports);
        StackServer {
            ports: self.ports.clone(),
            serve: Arc::new(move |name, listeners| {
                let StackListeners { dns_udp, dns_tcp, ports: mut listeners } = listeners;
                let of_host = listeners.split_off(names.min(listeners.len()));
                let stack = Stack { dns_udp, dns_tcp, listeners };
                let gateway = if name == AGENT_STACK { &agent } else { &tools };
                let serving = gateway.serve(name.to_owned(), stack);
                Box::pin(thread.run(async move {
                    tokio::join!(serving, relay_all(of_host));
                }))
            }),
        }
    }

    /// Returns the ports of names that the stacks listen on.
    pub(crate) fn name_ports(&self) -> &[u16] {
        self.ports.get(..self.ports.len().saturating_sub(self.host_ports)).unwrap_or_default()
    }

    /// Adds a rule for later queries and connections. Errors: it is not valid.
    pub(crate) fn allow(&self, scope: RuleScope, rule: &str) -> Result<(), RuleError> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.allow(scope, rule, ADDED_RULE)?;
        let listed = [rules.of_agent(), rules.of_kinds(&self.kinds)];
        for (gateway, rules) in self.gateways.iter().zip(self.unlisted.served(&listed)) {
            gateway.set_rules(Arc::new(rules));
        }
        lock(&self.log).set_listed(listed);
        Ok(())
    }

    /// From now on, writes connections to a file, with their callers.
    pub(crate) fn open_log(&self, file: LogFile, finder: CallerFinder) {
        lock(&self.log).open(file, finder);
    }

    /// Returns a line about the refused names, and one about those that were reached without a rule.
    pub(crate) fn report(&self) -> Vec<String> {
        let log = lock(&self.log);
        [log.report(), log.report_learnt()].into_iter().flatten().collect()
    }
}

fn lock(log: &Mutex<ConnectionLog>) -> MutexGuard<'_, ConnectionLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for NamedNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedNetwork").field("ports", &self.ports).finish_non_exhaustive()
    }
}
