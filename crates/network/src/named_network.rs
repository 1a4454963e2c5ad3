//! The gateway of a session network by name (`spec/network.md`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aifo_egress::{Gateway, NetRules, ParentError, ParentProxy, RuleError, Stack};
use aifo_host::log_file::LogFile;
use aifo_sidecar::{
    AGENT_STACK, ServedStack, Serving, StackListeners, StackServer, StackSockets, TOOLS_STACK,
};
use aifo_types::Kind;
use aifo_wire::{Listener, ListenerReport};

use crate::caller_finder::CallerFinder;
use crate::connection_file::PortUse;
use crate::connection_log::ConnectionLog;
use crate::gateway_thread::GatewayThread;
use crate::mirrors::Mirrors;
use crate::network_rules::{NetworkRules, RuleScope};
use crate::port_log::PortLog;
use crate::port_relay::{dial_host, relay_all};
use crate::publications::Publications;
use crate::relayed_stack::{SessionPorts, serve_relayed};
use crate::tool_stacks::ToolStacks;

/// Serves the stacks of a session. Cheap to clone.
#[derive(Clone)]
pub struct NamedNetwork {
    rules: Arc<Mutex<NetworkRules>>,
    /// The stacks of tools.
    stacks: ToolStacks,
    unlisted: UnlistedNames,
    /// Those of the tools' stacks and of the agent's, by the stack name.
    gateways: Arc<BTreeMap<String, Gateway>>,
    ports: StackPorts,
    mirrors: Mirrors,
    thread: Arc<GatewayThread>,
    log: Arc<Mutex<ConnectionLog>>,
}

/// The ports that stacks listen on from the start, each once.
#[derive(Clone, Debug, Default)]
pub struct StackPorts {
    /// Those of rules.
    pub rules: Vec<u16>,
    /// Those of this machine's localhost.
    pub host: Vec<u16>,
    /// Those of the agent, in the stacks of tools.
    pub agent: Vec<u16>,
    /// True if the tools have the engine network.
    pub joined: bool,
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

/// The source of a rule that was added to a running session.
const ADDED_RULE: &str = "aifo-coder net allow";

impl UnlistedNames {
    /// Returns the rules that are served.
    fn served(self, listed: &NetRules) -> NetRules {
        match self {
            UnlistedNames::Refuse => listed.clone(),
            UnlistedNames::Allow => listed.clone().learning(),
        }
    }
}

/// Returns the rules of each stack, without those of learning.
fn listed(rules: &NetworkRules, stacks: &ToolStacks) -> BTreeMap<String, NetRules> {
    let of_tools = stacks.iter().map(|stack| (stack.name.clone(), stack.rules(rules)));
    of_tools.chain([(AGENT_STACK.to_owned(), rules.of_agent())]).collect()
}

impl NamedNetwork {
    /// Creates the gateway. It dials through the HTTP proxy of the launcher environment, if there is one.
    /// Errors: that proxy URL is not supported.
    pub(crate) fn new(
        rules: &NetworkRules,
        kinds: &[Kind],
        unlisted: UnlistedNames,
        ports: StackPorts,
    ) -> Result<Self, ParentError> {
        // In a network of the engine no rule applies.
        let stacks = match ports.joined {
            true => ToolStacks::shared(kinds),
            false => ToolStacks::new(rules, kinds),
        };
        let listed = listed(rules, &stacks);
        let served = |rules: &NetRules| unlisted.served(rules);
        // Every name has an address, whichever stack may reach it.
        let all = listed.values().map(served).reduce(NetRules::union).unwrap_or_default();
        let ports = StackPorts { rules: all.ports().into_iter().collect(), ..ports };
        let log = Arc::new(Mutex::new(ConnectionLog::new(listed.clone(), rules.unadvertised())));
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
        let gateway = gateway.with_addresses(rules.permitted_addresses());
        let variable = |name: &str| std::env::var(name).ok();
        let gateway = match ParentProxy::for_requests(variable)? {
            Some(parent) => gateway.with_request_proxy(parent),
            None => gateway,
        };
        let gateway = match ParentProxy::from_environment(variable)? {
            Some(parent) => gateway.with_parent_proxy(parent),
            None => gateway,
        };
        let gateways = listed
            .iter()
            .map(|(stack, rules)| (stack.clone(), gateway.with_rules(Arc::new(served(rules)))));
        let gateways = Arc::new(gateways.collect());
        let port_log = PortLog::new(Arc::clone(&log), gateway.clone());
        let mirrors = Mirrors::new(ports.agent.clone(), port_log);
        Ok(NamedNetwork {
            rules: Arc::new(Mutex::new(rules.clone())),
            stacks,
            unlisted,
            gateways,
            ports,
            mirrors,
            thread: Arc::new(GatewayThread::start()),
            log,
        })
    }

    /// Returns the ports of the tools that this machine serves: none yet.
    pub fn publications(&self) -> Publications {
        let StackPorts { rules, host, agent, .. } = &self.ports;
        Publications::new(self.mirrors.clone(), [&rules[..], host, agent, &[DNS]].concat())
    }

    /// Returns the ports of names that the stacks listen on.
    pub fn name_ports(&self) -> &[u16] {
        &self.ports.rules
    }

    /// Returns the stacks of the tools.
    pub fn tool_stacks(&self) -> &ToolStacks {
        &self.stacks
    }

    /// Adds a rule for later queries and connections. A stack whose kinds do not all have it is not
    /// changed. Errors: it is not valid.
    pub fn allow(&self, scope: RuleScope, rule: &str) -> Result<(), RuleError> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.allow(scope.clone(), rule, ADDED_RULE)?;
        let sharing = self.stacks.sharing(&scope);
        if !sharing.is_empty() {
            let names: Vec<_> = sharing.iter().map(Kind::as_str).collect();
            tracing::info!(
                "'{rule}' waits for a new session, because {} share a stack",
                names.join(" and ")
            );
        }
        let listed = listed(&rules, &self.stacks);
        for (stack, gateway) in self.gateways.iter() {
            let rules = listed.get(stack).map(|rules| self.unlisted.served(rules));
            gateway.set_rules(Arc::new(rules.unwrap_or_default()));
        }
        lock(&self.log).set_listed(listed);
        Ok(())
    }

    /// From now on, writes connections to a file, with their callers.
    pub fn open_log(&self, file: LogFile, finder: CallerFinder) {
        lock(&self.log).open(file, finder);
    }

    /// Returns a line about the refused names, and one about those that were reached without a rule.
    pub fn report(&self) -> Vec<String> {
        let log = lock(&self.log);
        [log.report(), log.report_learnt()].into_iter().flatten().collect()
    }
}

fn lock(log: &Mutex<ConnectionLog>) -> MutexGuard<'_, ConnectionLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StackServer for NamedNetwork {
    fn stack_of(&self, kind: &Kind) -> String {
        self.stacks.name_of(kind).unwrap_or(TOOLS_STACK).to_owned()
    }

    fn has_own_stack(&self, kind: &Kind) -> bool {
        self.stacks.is_alone(kind)
    }

    fn ports(&self, stack: &str) -> Option<Vec<u16>> {
        let StackPorts { rules, host, agent, joined } = &self.ports;
        match stack {
            AGENT_STACK => Some([&rules[..], host].concat()),
            _ => (!joined).then(|| [&rules[..], host, agent].concat()),
        }
    }

    fn serve(&self, stack: &str, clients: Option<ServedStack>, sockets: StackSockets) -> Serving {
        let Some(gateway) = self.gateways.get(stack) else {
            tracing::error!("stack '{stack}' has no rules");
            return Box::pin(async { drop(clients) });
        };
        let reserved = self.ports(stack).into_iter().flatten().chain([DNS]).collect();
        let mirrored = self.mirrors.add(stack, reserved, sockets);
        let StackListeners { dns_udp, dns_tcp, ports } = match clients {
            Some(ServedStack::Passed(listeners)) => listeners,
            Some(ServedStack::Relayed(clients)) => {
                let (host, mut agent) = (self.ports.host.clone(), self.ports.agent.clone());
                if stack == AGENT_STACK {
                    agent.clear();
                }
                let (gateway, stack) = (gateway.relayed(stack.to_owned()), stack.to_owned());
                let ports = SessionPorts { stack, host, agent, mirrors: self.mirrors.clone() };
                return Box::pin(self.thread.run(async move {
                    tokio::join!(serve_relayed(clients, gateway, ports), mirrored.serve());
                }));
            }
            None => return Box::pin(self.thread.run(async move { mirrored.serve().await })),
        };
        let mut of_rules = ports;
        let mut of_host = of_rules.split_off(self.ports.rules.len().min(of_rules.len()));
        let of_agent = of_host.split_off(self.ports.host.len().min(of_host.len()));
        let stack_name = stack.to_owned();
        let (name, stack) = (stack.to_owned(), Stack { dns_udp, dns_tcp, listeners: of_rules });
        let names = gateway.serve(name, stack);
        let (mirrors, ports, label) = (self.mirrors.clone(), self.mirrors.clone(), stack_name);
        Box::pin(self.thread.run(async move {
            let host_port = |port| ports.relayed_port(&label, port, PortUse::HostPort);
            let agent_port = |port| ports.relayed_port(&label, port, PortUse::AgentPort);
            let to_host = relay_all(of_host, host_port, dial_host);
            let to_agent = relay_all(of_agent, agent_port, move |port| {
                let mirrors = mirrors.clone();
                async move { mirrors.connect(AGENT_STACK, port).await }
            });
            tokio::join!(names, to_host, to_agent, mirrored.serve());
        }))
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
