//! State of a gateway, and of each of its stacks.

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::dial::Outside;
use crate::event::{ConnectionError, ConnectionEvent, Phase};
use crate::limits::Limits;
use crate::name::Name;
use crate::names::NameTable;
use crate::resolver::BoxFuture;
use crate::rules::{NameVerdict, NetRules};

/// The function that receives events.
pub(crate) type EventFn = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;

/// The function that is called before a refusal is answered.
pub(crate) type RefusalFn = Arc<dyn Fn(&ConnectionEvent) -> Option<BoxFuture<()>> + Send + Sync>;

/// State of a gateway. Clones share names, cached addresses and the numbers of connections.
#[derive(Clone)]
pub(crate) struct Shared {
    rules: Arc<RwLock<Arc<NetRules>>>,
    pub(crate) outside: Outside,
    pub(crate) limits: Limits,
    names: Arc<Mutex<NameTable>>,
    events: EventFn,
    pub(crate) before_refusal: Option<RefusalFn>,
    next_id: Arc<AtomicU64>,
}

impl Shared {
    pub(crate) fn new(rules: Arc<NetRules>, events: EventFn) -> Shared {
        Shared {
            names: Arc::new(Mutex::new(NameTable::new(&rules))),
            rules: Arc::new(RwLock::new(rules)),
            outside: Outside::new(),
            limits: Limits::default(),
            events,
            before_refusal: None,
            next_id: Arc::new(AtomicU64::new(1)),
        }
    }

    /// Returns the rules that apply now.
    pub(crate) fn rules(&self) -> Arc<NetRules> {
        self.rules.read().unwrap_or_else(|error| error.into_inner()).clone()
    }

    /// Replaces the rules, also of clones.
    pub(crate) fn set_rules(&self, rules: Arc<NetRules>) {
        *self.rules.write().unwrap_or_else(|error| error.into_inner()) = rules;
    }

    /// Returns the number of the next connection.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the same state with rules of its own.
    pub(crate) fn with_rules(&self, rules: Arc<NetRules>) -> Shared {
        Shared { rules: Arc::new(RwLock::new(rules)), ..self.clone() }
    }

    /// Locks the table of names.
    pub(crate) fn names(&self) -> MutexGuard<'_, NameTable> {
        self.names.lock().unwrap_or_else(|error| error.into_inner())
    }
}

/// A stack that is served.
pub(crate) struct StackContext {
    pub(crate) gateway: Shared,
    label: String,
    permits: Arc<Semaphore>,
}

impl StackContext {
    pub(crate) fn new(gateway: Shared, label: String) -> StackContext {
        let permits = Arc::new(Semaphore::new(gateway.limits.connections));
        StackContext { gateway, label, permits }
    }

    /// Returns the right to serve one more connection; `None` at the limit.
    pub(crate) fn try_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Returns the name that a client dialled.
    pub(crate) fn name_of(&self, dialled: IpAddr) -> Option<Name> {
        match dialled.to_canonical() {
            IpAddr::V4(address) => self.gateway.names().name(address).cloned(),
            IpAddr::V6(_) => None,
        }
    }

    /// Returns a new event, refused so far.
    pub(crate) fn event(&self, name: String, phase: Phase) -> ConnectionEvent {
        ConnectionEvent {
            id: self.gateway.next_id(),
            stack: self.label.clone(),
            peer: None,
            name,
            port: None,
            verdict: NameVerdict::Refused,
            phase,
            address: None,
            via_parent: false,
            sent: 0,
            received: 0,
            error: None,
        }
    }

    pub(crate) fn report(&self, event: ConnectionEvent) {
        (self.gateway.events)(event);
    }

    /// Returns the work that a refusal waits for.
    pub(crate) fn before_refusal(&self, event: &ConnectionEvent) -> Option<BoxFuture<()>> {
        self.gateway.before_refusal.as_ref().and_then(|before| before(event))
    }

    pub(crate) fn report_listener(&self, error: &io::Error) {
        let error = Some(ConnectionError::Listener(error.to_string()));
        self.report(ConnectionEvent { error, ..self.event(String::new(), Phase::Closed) });
    }
}

/// The pause after an error of `accept`, such as too many open files.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(20);
