//! Gateway: serves the DNS and the listeners of stacks.
//!
//! The caller creates the sockets in a stack's network namespace, usually in another process that passes
//! them. The gateway runs outside, and reads from the address of an accepted connection which name the
//! client dialled.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

use aifo_types::Subnet;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::connection;
use crate::context::{ACCEPT_RETRY, Shared, StackContext};
use crate::dial::Dial;
use crate::dns_server;
use crate::event::ConnectionEvent;
use crate::limits::Limits;
use crate::parent::ParentProxy;
use crate::relayed::RelayedStack;
use crate::resolver::{BoxFuture, Resolve};
use crate::rules::NetRules;

/// The passed sockets of one network stack. The gateway makes them non-blocking, and closes them.
#[derive(Debug)]
pub struct Stack {
    /// Receives queries, usually at 127.0.0.1:53.
    pub dns_udp: UdpSocket,
    /// The same over TCP.
    pub dns_tcp: TcpListener,
    /// One or more listeners for each of [`NetRules::ports`], at the addresses of 127.64.0.0/10 or
    /// at all addresses.
    pub listeners: Vec<TcpListener>,
}

/// Connects stacks to hosts outside, by rules.
///
/// Clones share the table of names. All methods need a tokio runtime of any flavour, with I/O and time.
///
/// ```no_run
/// use std::sync::Arc;
/// use aifo_egress::{Gateway, NetRules, Stack};
///
/// # async fn run(stack: Stack) -> Result<(), aifo_egress::RuleError> {
/// let rules = NetRules::parse(&["@rust".to_owned(), "git.example:22".to_owned()])?;
/// let gateway = Gateway::new(Arc::new(rules), |event| println!("{event:?}"));
/// gateway.serve("tools".to_owned(), stack).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gateway(Shared);

impl Gateway {
    /// Creates a gateway. `events` is called on the runtime's threads and must not block.
    pub fn new(
        rules: Arc<NetRules>,
        events: impl Fn(ConnectionEvent) + Send + Sync + 'static,
    ) -> Gateway {
        Gateway(Shared::new(rules, Arc::new(events)))
    }

    /// Returns a gateway with other rules, for other stacks. It shares the table of names, the cached
    /// addresses, the numbers of connections and the receiver of events with this one, whose rules
    /// have every name of `rules` without a wildcard.
    #[must_use]
    pub fn with_rules(&self, rules: Arc<NetRules>) -> Gateway {
        Gateway(self.0.with_rules(rules))
    }

    /// Replaces the rules, also of clones and of stacks that are served. They apply to later queries and
    /// connections; [`NetRules::ports`] of the new rules get no further listener.
    pub fn set_rules(&self, rules: Arc<NetRules>) {
        self.0.set_rules(rules);
    }

    /// Returns a number that no other connection of this gateway and its clones has.
    pub fn next_id(&self) -> u64 {
        self.0.next_id()
    }

    /// Dials through a parent proxy, which then chooses the addresses.
    #[must_use]
    pub fn with_parent_proxy(mut self, parent: ParentProxy) -> Gateway {
        self.0.outside.parent = Some(parent);
        self
    }

    /// Permits every name addresses of these subnets, but none of this machine, a link or a metadata service.
    #[must_use]
    pub fn with_addresses(mut self, permitted: &[Subnet]) -> Gateway {
        self.0.outside.permitted = permitted.into();
        self
    }

    /// Sends requests without TLS to a parent proxy of their own.
    #[must_use]
    pub fn with_request_proxy(mut self, parent: ParentProxy) -> Gateway {
        self.0.outside.request_parent = Some(parent);
        self
    }

    /// Waits for a future before a refusal, or the failure of a name without an address, is reported and answered, for example until the process of the
    /// client is known, which still waits for the answer. `before` is called with the event, and must
    /// bound the future's time and the number of futures. Other queries and connections do not wait.
    #[must_use]
    pub fn with_refusal_hook(
        mut self,
        before: impl Fn(&ConnectionEvent) -> Option<BoxFuture<()>> + Send + Sync + 'static,
    ) -> Gateway {
        self.0.before_refusal = Some(Arc::new(before));
        self
    }

    /// Resolves with another resolver.
    #[must_use]
    pub fn with_resolver(mut self, resolver: impl Resolve) -> Gateway {
        self.0.outside.resolver = Arc::new(resolver);
        self
    }

    /// Dials with another dialer.
    #[must_use]
    pub fn with_dialer(mut self, dialer: impl Dial) -> Gateway {
        self.0.outside.dialer = Arc::new(dialer);
        self
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Gateway {
        self.0.limits = limits;
        self
    }

    /// Serves a stack until the future is dropped, which ends its connections and closes all sockets.
    ///
    /// `label` names the stack in events. A listener that cannot be used is reported as an event; the
    /// others are served.
    pub fn serve(&self, label: String, stack: Stack) -> impl Future<Output = ()> + Send + use<> {
        let context = Arc::new(StackContext::new(self.0.clone(), label));
        async move {
            let mut tasks = JoinSet::new();
            match use_udp(stack.dns_udp) {
                Ok(socket) => drop(tasks.spawn(dns_server::serve_udp(context.clone(), socket))),
                Err(error) => context.report_listener(&error),
            }
            match use_tcp(stack.dns_tcp) {
                Ok(listener) => drop(tasks.spawn(dns_server::serve_tcp(context.clone(), listener))),
                Err(error) => context.report_listener(&error),
            }
            for listener in stack.listeners {
                match use_tcp(listener) {
                    Ok(listener) => drop(tasks.spawn(accept_all(context.clone(), listener))),
                    Err(error) => context.report_listener(&error),
                }
            }
            // The tasks do not end, unless one panics.
            while tasks.join_next().await.is_some() {}
            std::future::pending::<()>().await;
        }
    }
}

impl Gateway {
    /// Returns a stack of which another process relays connections and datagrams. The caller serves each
    /// one. `label` names the stack in events.
    pub fn relayed(&self, label: String) -> RelayedStack {
        RelayedStack::new(Arc::new(StackContext::new(self.0.clone(), label)))
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = &self.0.outside.parent;
        f.debug_struct("Gateway").field("rules", &self.0.rules()).field("parent", parent).finish()
    }
}

/// Accepts and serves the connections of a listener.
async fn accept_all(stack: Arc<StackContext>, listener: tokio::net::TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, peer)) => {
                    let Some(client) = Client::accepted(client, peer) else { continue };
                    match stack.try_permit() {
                        Some(permit) => {
                            let serving = connection::serve(stack.clone(), client);
                            connections.spawn(async move {
                                serving.await;
                                drop(permit);
                            });
                        }
                        None => connection::refuse_excess(stack.clone(), client),
                    }
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

fn use_udp(socket: UdpSocket) -> io::Result<tokio::net::UdpSocket> {
    socket.set_nonblocking(true)?;
    tokio::net::UdpSocket::from_std(socket)
}

fn use_tcp(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}
