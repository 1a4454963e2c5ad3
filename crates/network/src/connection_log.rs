//! The connections of a session: records them, and keeps the names that were refused, or reached without
//! a rule (`spec/network.md#refusals`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::sync::Arc;

use aifo_egress::{
    AddressClass, ConnectionError, ConnectionEvent, Name, NameVerdict, NetRules, Phase,
};
use aifo_host::log_file::LogFile;
use aifo_proxy::RunningTool;
use aifo_sidecar::AGENT_STACK;

use crate::caller_finder::CallerFinder;
use crate::connection_file::{ConnectionFile, ConnectionOutcome, LoggedConnection};

/// The connections of a session.
#[derive(Debug, Default)]
pub(crate) struct ConnectionLog {
    /// The rules of each stack, without those of learning.
    listed: BTreeMap<String, NetRules>,
    /// The hosts of the agent's reports and updates: that they are refused is no advice to allow them.
    unadvertised: NetRules,
    file: ConnectionFile,
    /// Finds callers, once calls can run.
    finder: Option<Arc<CallerFinder>>,
    /// The callers of refused events that were found, by the event's number.
    callers: HashMap<u64, Option<RunningTool>>,
    /// Each refused name, with its port if a connection was refused, and the rule that would allow it, if one
    /// would.
    named: BTreeMap<String, Option<String>>,
    /// Further ones.
    omitted: usize,
    /// The names, with their ports, that were reached without a rule.
    learnt: BTreeSet<String>,
}

/// The target of events about refused names, which the session's summary has again.
pub const REFUSALS: &str = "aifo_network::refusals";

/// A tool can look up any number of names.
const MAX_REFUSALS: usize = 200;

/// More than refusals that wait at once.
const MAX_CALLERS: usize = 1024;

/// Names in the summary.
const MAX_LISTED: usize = 10;

impl ConnectionLog {
    /// Creates a log. `listed` are the rules of each stack, without those of learning; refusals of `unadvertised` to the
    /// agent are only in the file.
    pub(crate) fn new(listed: BTreeMap<String, NetRules>, unadvertised: NetRules) -> Self {
        ConnectionLog { listed, unadvertised, ..ConnectionLog::default() }
    }

    /// Replaces the rules without those of learning.
    pub(crate) fn set_listed(&mut self, listed: BTreeMap<String, NetRules>) {
        self.listed = listed;
    }

    /// From now on, writes connections to `file`, with the callers that `finder` finds.
    pub(crate) fn open(&mut self, file: LogFile, finder: CallerFinder) {
        self.file.open(file);
        self.finder = Some(Arc::new(finder));
    }

    /// Returns a future that finds the caller of a refused event; `None` if it cannot be found.
    pub(crate) fn find_caller(
        &self,
        event: &ConnectionEvent,
    ) -> Option<impl Future<Output = Option<RunningTool>> + Send + use<>> {
        let error = event.error.as_ref().filter(|_| event.stack != AGENT_STACK)?;
        let suggestion = self.suggestion(event);
        let text = refusal_text(&subject(event), error, suggestion.as_deref());
        self.finder.as_ref()?.find(event, text)
    }

    /// Records the caller of an event that follows.
    pub(crate) fn set_caller(&mut self, event: u64, caller: Option<RunningTool>) {
        // An event of a stack that has just ended does not follow.
        if self.callers.len() >= MAX_CALLERS {
            self.callers.clear();
        }
        self.callers.insert(event, caller);
    }

    /// Sets the call of a connection to a port, if it is the only one of its stack.
    pub(crate) fn with_caller(&self, record: LoggedConnection) -> LoggedConnection {
        let finder = self.finder.as_ref().filter(|_| record.stack != AGENT_STACK);
        let caller = finder.and_then(|finder| finder.only(&record.stack));
        let (tool, exec_id) = caller.map(|caller| (caller.tool, caller.exec_id)).unzip();
        LoggedConnection { tool, exec_id, ..record }
    }

    /// Records a connection to a port.
    pub(crate) fn append(&self, record: &LoggedConnection) {
        self.file.append_record(record);
    }

    /// Records an event.
    pub(crate) fn add(&mut self, event: &ConnectionEvent) {
        let is_refused = event.error.as_ref().is_some_and(ConnectionError::is_refusal);
        let learnt = self.learnt_rule(event).filter(|_| !is_refused);
        let verdict = match (is_refused, &learnt) {
            (true, _) => ConnectionOutcome::Refused,
            (false, Some(_)) => ConnectionOutcome::Learnt,
            (false, None) => ConnectionOutcome::Allowed,
        };
        let suggestion = learnt.clone().or_else(|| self.suggestion(event));
        let tool = self.callers.remove(&event.id).unwrap_or_else(|| {
            let finder = self.finder.as_ref().filter(|_| event.stack != AGENT_STACK)?;
            finder.only(&event.stack)
        });
        self.file.append(event, verdict, suggestion.clone(), tool);
        match event.phase {
            Phase::Opened => {
                let rule = learnt.filter(|_| self.learnt.len() < MAX_REFUSALS);
                self.learnt.extend(rule);
            }
            Phase::Closed => self.report_end(event, suggestion),
        }
    }

    /// Returns the rule for a connection that is allowed without one.
    fn learnt_rule(&self, event: &ConnectionEvent) -> Option<String> {
        let NameVerdict::Allowed { .. } = &event.verdict else { return None };
        let (name, port) = Name::parse(event.name.as_bytes()).ok().zip(event.port)?;
        let listed = self.listed.get(&event.stack);
        let is_listed =
            listed.is_some_and(|rules| rules.judge(&name, port) != NameVerdict::Refused);
        (!is_listed).then(|| format!("{name}:{port}"))
    }

    /// Returns the rule that would allow a refused connection.
    fn suggestion(&self, event: &ConnectionEvent) -> Option<String> {
        match event.error.as_ref()? {
            ConnectionError::NoRule => {
                let (name, rule) = (Name::parse(event.name.as_bytes()).ok()?, subject(event));
                let added = NetRules::parse(std::slice::from_ref(&rule)).ok()?;
                let listed = self.listed.get(&event.stack).cloned().unwrap_or_default();
                let rules = listed.union(added);
                rules.permits_name(&name).then_some(rule)
            }
            // The user's own network; other refused addresses are never the name's intended ones.
            ConnectionError::Address {
                class: AddressClass::Private | AddressClass::Shared,
                ..
            } => Some(format!("{} private", subject(event))),
            _ => None,
        }
    }

    /// Returns a line with all names, because it is the result of the session.
    pub(crate) fn report_learnt(&self) -> Option<String> {
        let rules: Vec<_> = self.learnt.iter().map(|rule| format!("\"{rule}\"")).collect();
        let list = rules.join(", ");
        (!rules.is_empty())
            .then(|| format!("names were reached without a rule; to allow them: allow = [{list}]"))
    }

    /// Logs a refusal or failure; each refusal once.
    fn report_end(&mut self, event: &ConnectionEvent, suggestion: Option<String>) {
        let Some(error) = event.error.as_ref() else { return };
        let subject = subject(event);
        if !error.is_refusal() {
            tracing::info!("{} did not reach {subject}: {error}", event.stack);
            return;
        }
        let name = Name::parse(event.name.as_bytes());
        let is_own = name.is_ok_and(|name| self.unadvertised.permits_name(&name));
        if self.named.contains_key(&subject) || event.stack == AGENT_STACK && is_own {
            return;
        }
        if self.named.len() >= MAX_REFUSALS {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        let who = match (event.stack.as_str(), event.stack.split_once(':')) {
            (AGENT_STACK, _) => "the agent was".to_owned(),
            (_, Some((_, kind))) => format!("{kind} tools were"),
            _ => "tools were".to_owned(),
        };
        tracing::warn!(target: REFUSALS, "{who} refused {}", refusal_text(&subject, error, suggestion.as_deref()));
        self.named.insert(subject, suggestion);
    }

    /// Returns a line with the refused names.
    pub(crate) fn report(&self) -> Option<String> {
        let count = self.named.len().saturating_add(self.omitted);
        if count == 0 {
            return None;
        }
        let listed: Vec<_> = self.named.keys().take(MAX_LISTED).map(String::as_str).collect();
        let rules = self.named.values().flatten().take(MAX_LISTED);
        let rules: Vec<_> = rules.map(|rule| quoted(rule)).collect();
        let mut text = format!("the network refused {}", listed.join(", "));
        if let Some(more @ 1..) = count.checked_sub(listed.len()) {
            text += &format!(" and {more} more");
        }
        if !rules.is_empty() {
            let rules = rules.join(" ");
            text += &format!("; allow what is needed with: aifo-coder net allow {rules}");
        }
        Some(text)
    }
}

/// Returns the name with its port, if that is known.
fn subject(event: &ConnectionEvent) -> String {
    match event.port {
        Some(port) => format!("{}:{port}", event.name),
        None => event.name.clone(),
    }
}

/// Returns the name, the cause unless a rule is missing, and the command that allows it.
fn refusal_text(subject: &str, error: &ConnectionError, suggestion: Option<&str>) -> String {
    let cause = match error {
        ConnectionError::NoRule if suggestion.is_some() => String::new(),
        ConnectionError::NoRule => ": net.deny takes it away".to_owned(),
        error => format!(": {error}"),
    };
    let hint = match (suggestion, error) {
        (Some(rule), _) => format!("; allow it with: aifo-coder net allow {}", quoted(rule)),
        (None, ConnectionError::Address { class, .. }) if class.is_of_no_host() => {
            format!("; {OF_NO_HOST}")
        }
        (None, _) => String::new(),
    };
    format!("{subject}{cause}{hint}")
}

/// The remedy for an address that a proxy of this machine gives to names.
const OF_NO_HOST: &str = "if your proxy gives names such addresses, permit its range: net.addresses in your configuration";

/// Quotes a rule with options for a shell.
fn quoted(rule: &str) -> String {
    if rule.contains(' ') { format!("'{rule}'") } else { rule.to_owned() }
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
            verdict: NameVerdict::Refused,
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
            log.add(&event("tools", "b.example", Some(443), private));
            log.add(&event("agent", "a.example", None, ConnectionError::NoRule));
            log.add(&event("tools", "c.example", Some(443), ConnectionError::NoSni));
            let failed = ConnectionError::Connect("timed out".to_owned());
            log.add(&event("tools", "d.example", Some(443), failed));
        }
        let expected = "the network refused a.example, b.example:443, c.example:443; allow what is \
                        needed with: aifo-coder net allow a.example 'b.example:443 private'";
        assert_eq!(log.report().as_deref(), Some(expected));
    }

    #[test]
    fn reports_and_updates_of_the_agent_are_not_advertised() {
        let own = NetRules::parse(&["*.reports.example".to_owned()]).unwrap();
        let mut log = ConnectionLog::new(BTreeMap::new(), own);
        log.add(&event(AGENT_STACK, "a.reports.example", Some(443), ConnectionError::NoRule));
        assert_eq!(log.report(), None);
        log.add(&event("tools", "a.reports.example", Some(443), ConnectionError::NoRule));
        assert!(log.report().is_some_and(|line| line.contains("a.reports.example:443")));
    }

    #[test]
    fn a_name_that_is_taken_away_has_no_suggestion() {
        let denied = NetRules::default().take_away(&["b.example".to_owned()]).unwrap();
        let mut log =
            ConnectionLog::new(BTreeMap::from([("tools".to_owned(), denied)]), NetRules::default());
        log.add(&event("tools", "a.example", None, ConnectionError::NoRule));
        log.add(&event("tools", "b.example", None, ConnectionError::NoRule));
        let suggestions: Vec<_> = log.named.values().cloned().collect();
        assert_eq!(suggestions, [Some("a.example".to_owned()), None]);
        let text = refusal_text("b.example", &ConnectionError::NoRule, None);
        assert_eq!(text, "b.example: net.deny takes it away");
    }

    #[test]
    fn learnt_names_are_those_without_a_rule() {
        let listed = NetRules::parse(&["a.example:443".to_owned()]).unwrap();
        let learning = listed.clone().learning();
        let mut log =
            ConnectionLog::new(BTreeMap::from([("tools".to_owned(), listed)]), NetRules::default());
        assert_eq!(log.report_learnt(), None);
        for (name, port) in [("b.example", 443), ("a.example", 443), ("a.example", 22)] {
            let verdict = learning.judge(&Name::parse(name.as_bytes()).unwrap(), port);
            let event = event("tools", name, Some(port), ConnectionError::NoRule);
            log.add(&ConnectionEvent { verdict, phase: Phase::Opened, error: None, ..event });
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
            log.add(&event("tools", &name, None, ConnectionError::NoRule));
        }
        assert_eq!(log.named.len(), MAX_REFUSALS);
        assert!(log.report().unwrap().contains(" and 990 more; allow"));
    }
}
