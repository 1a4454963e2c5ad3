//! Connections outside: resolves a name, judges its addresses, and dials the permitted ones.
//!
//! The gateway dials exactly an address that it judged; the name is not resolved again in between.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use aifo_types::Subnet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::address::judge_address_within;
use crate::event::ConnectionError;
use crate::limits::Limits;
use crate::name::Name;
use crate::parent::{self, ParentError, ParentProxy};
use crate::resolver::{BoxFuture, Resolve, SystemResolver};
use crate::rule::Rule;

/// Connects to addresses outside.
pub trait Dial: Send + Sync + 'static {
    /// Connects to exactly this address.
    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<TcpStream>>;
}

/// Dials from the launcher's own network.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDialer;

impl Dial for SystemDialer {
    fn dial(&self, address: SocketAddr) -> BoxFuture<io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

/// The way of a gateway's connections to hosts outside.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) resolver: Arc<dyn Resolve>,
    pub(crate) dialer: Arc<dyn Dial>,
    pub(crate) parent: Option<ParentProxy>,
    /// For requests without TLS, in place of `parent`.
    pub(crate) request_parent: Option<ParentProxy>,
    /// Addresses of the user's own network, which every name may have.
    pub(crate) permitted: Arc<[Subnet]>,
    cache: Arc<Mutex<Cache>>,
    resolving: Arc<Semaphore>,
}

/// Addresses of names, and the time of the query.
type Cache = HashMap<String, (Instant, Vec<IpAddr>)>;

/// Further names are resolved each time.
const MAX_CACHED: usize = 1024;

/// Queries at once. Further ones wait.
const MAX_RESOLVING: usize = 32;

/// Addresses of a name that are judged and dialled.
const MAX_ADDRESSES: usize = 16;

/// A connection outside.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) stream: TcpStream,
    /// `None` if a parent proxy chose it.
    pub(crate) address: Option<SocketAddr>,
    /// Bytes of the host that followed the parent proxy's response.
    pub(crate) first: Vec<u8>,
}

impl Outside {
    pub(crate) fn new() -> Outside {
        Outside {
            resolver: Arc::new(SystemResolver::default()),
            dialer: Arc::new(SystemDialer),
            parent: None,
            request_parent: None,
            permitted: Arc::default(),
            cache: Arc::default(),
            resolving: Arc::new(Semaphore::new(MAX_RESOLVING)),
        }
    }

    /// Returns the parent proxy for this name; none if the rule has its address.
    pub(crate) fn parent_for(&self, name: &Name, rule: &Rule) -> Option<&ParentProxy> {
        let parent = self.parent.as_ref().filter(|_| rule.addresses().is_empty());
        parent.filter(|parent| parent.serves(name))
    }

    /// Returns the parent proxy for a request to this name without TLS.
    pub(crate) fn request_parent_for(&self, name: &Name, rule: &Rule) -> Option<&ParentProxy> {
        let parent = self.request_parent.as_ref().filter(|_| rule.addresses().is_empty());
        match parent {
            Some(parent) => Some(parent).filter(|parent| parent.serves(name)),
            None => self.parent_for(name, rule),
        }
    }

    /// Connects to a name that a rule permits at this port.
    pub(crate) async fn connect(
        &self,
        name: &Name,
        port: u16,
        rule: &Rule,
        limits: &Limits,
    ) -> Result<Connected, ConnectionError> {
        if !rule.addresses().is_empty() {
            let named = rule.addresses().iter().map(|address| SocketAddr::new(*address, port));
            return self.dial(named.collect(), limits).await;
        }
        if let Some(parent) = self.parent_for(name, rule) {
            let connecting = self.connect_through(parent, name, port, limits);
            return match timeout(limits.connect, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(ParentError::Unreachable(timed_out(limits)).into()),
            };
        }
        let addresses = self.addresses(name.as_str(), limits).await?;
        let mut refused = None;
        let mut permitted = Vec::new();
        for address in addresses {
            match judge_address_within(address, rule, &self.permitted) {
                Ok(()) => permitted.push(SocketAddr::new(address, port)),
                Err(class) => refused = refused.or(Some((address, class))),
            }
        }
        if let (true, Some((address, class))) = (permitted.is_empty(), refused) {
            return Err(ConnectionError::Address { address, class });
        }
        self.dial(permitted, limits).await
    }

    /// Connects to the first of these addresses that accepts.
    pub(crate) async fn dial(
        &self,
        addresses: Vec<SocketAddr>,
        limits: &Limits,
    ) -> Result<Connected, ConnectionError> {
        let dialled = self.dial_first(addresses, limits).await;
        let (stream, address) = dialled.map_err(ConnectionError::Connect)?;
        Ok(Connected { stream, address: Some(address), first: Vec::new() })
    }

    /// Returns the addresses of a host, at most [`Limits::cache`] old.
    pub(crate) async fn addresses(
        &self,
        host: &str,
        limits: &Limits,
    ) -> Result<Vec<IpAddr>, ConnectionError> {
        let lock = || self.cache.lock().unwrap_or_else(|error| error.into_inner());
        let is_fresh = |time: &Instant| time.elapsed() < limits.cache;
        let cached = || {
            let cache = lock();
            let entry = cache.get(host).filter(|(time, _)| is_fresh(time));
            entry.map(|(_, addresses)| addresses.clone())
        };
        if let Some(addresses) = cached() {
            return Ok(addresses);
        }
        let resolving = async {
            let _permit = self.resolving.acquire().await;
            // Another connection may have resolved it meanwhile.
            match cached() {
                Some(addresses) => Ok(addresses),
                None => self.resolver.resolve(host).await,
            }
        };
        let addresses = match timeout(limits.resolve, resolving).await {
            Ok(Ok(addresses)) if addresses.is_empty() => Err("it has no address".to_owned()),
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer after {} s", limits.resolve.as_secs())),
        };
        let mut addresses = addresses.map_err(ConnectionError::Resolve)?;
        addresses.truncate(MAX_ADDRESSES);
        let mut cache = lock();
        if cache.len() >= MAX_CACHED {
            cache.retain(|_, (time, _)| is_fresh(time));
        }
        if cache.len() < MAX_CACHED {
            cache.insert(host.to_owned(), (Instant::now(), addresses.clone()));
        }
        Ok(addresses)
    }

    /// Dials the addresses in order, each one a little after the one before, and returns the first
    /// connection.
    async fn dial_first(
        &self,
        addresses: Vec<SocketAddr>,
        limits: &Limits,
    ) -> Result<(TcpStream, SocketAddr), String> {
        let deadline = Instant::now() + limits.connect;
        let mut waiting = addresses.into_iter();
        let Some(address) = waiting.next() else { return Err("it has no address".to_owned()) };
        // Most names need no further attempt, and no task.
        let mut dialing = self.dialer.dial(address);
        let first =
            if waiting.len() > 0 { limits.attempt.min(limits.connect) } else { limits.connect };
        let mut attempts = JoinSet::new();
        let mut failure = timed_out(limits);
        match timeout(first, &mut dialing).await {
            Ok(Ok(stream)) => return Ok((stream, address)),
            Ok(Err(error)) => failure = error.to_string(),
            Err(_) => drop(attempts.spawn(async move { (dialing.await, address) })),
        }
        let mut start = true;
        loop {
            if std::mem::take(&mut start)
                && let Some(address) = waiting.next()
            {
                let dialing = self.dialer.dial(address);
                attempts.spawn(async move { (dialing.await, address) });
            }
            if attempts.is_empty() {
                return Err(failure);
            }
            tokio::select! {
                Some(attempt) = attempts.join_next() => match attempt {
                    Ok((Ok(stream), address)) => return Ok((stream, address)),
                    Ok((Err(error), _)) => (failure, start) = (error.to_string(), true),
                    Err(error) => (failure, start) = (error.to_string(), true),
                },
                () = tokio::time::sleep(limits.attempt), if waiting.len() > 0 => start = true,
                () = tokio::time::sleep_until(deadline) => return Err(timed_out(limits)),
            }
        }
    }

    /// Connects to the parent proxy itself.
    pub(crate) async fn connect_parent(
        &self,
        parent: &ParentProxy,
        limits: &Limits,
    ) -> Result<Connected, ConnectionError> {
        let stream = match timeout(limits.connect, self.dial_parent(parent, limits)).await {
            Ok(dialled) => dialled?,
            Err(_) => return Err(ParentError::Unreachable(timed_out(limits)).into()),
        };
        Ok(Connected { stream, address: None, first: Vec::new() })
    }

    async fn dial_parent(
        &self,
        parent: &ParentProxy,
        limits: &Limits,
    ) -> Result<TcpStream, ConnectionError> {
        let unreachable = |error: &dyn fmt::Display| ParentError::Unreachable(error.to_string());
        let (host, port) = parent.endpoint();
        let addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.addresses(host, limits).await.map_err(|error| unreachable(&error))?,
        };
        let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port));
        let dialled = self.dial_first(addresses.collect(), limits).await;
        dialled.map(|(stream, _)| stream).map_err(|error| unreachable(&error).into())
    }

    /// Connects to a name through the parent proxy.
    async fn connect_through(
        &self,
        parent: &ParentProxy,
        name: &Name,
        port: u16,
        limits: &Limits,
    ) -> Result<Connected, ConnectionError> {
        let mut stream = self.dial_parent(parent, limits).await?;
        let io_error = |error: io::Error| ParentError::Unreachable(error.to_string());
        stream.write_all(&parent.connect_request(name, port)).await.map_err(io_error)?;
        let mut response = Vec::new();
        loop {
            let read = stream.read_buf(&mut response).await.map_err(io_error)?;
            if let Some(length) = parent::parse_response(&response)? {
                let first = response.split_off(length);
                return Ok(Connected { stream, address: None, first });
            }
            if read == 0 {
                return Err(ParentError::Response.into());
            }
        }
    }
}

fn timed_out(limits: &Limits) -> String {
    format!("timed out after {} s", limits.connect.as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Answers after other tasks had their turn, and counts.
    #[derive(Clone, Default)]
    struct SlowResolver {
        running: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
        total: Arc<AtomicUsize>,
    }

    impl Resolve for SlowResolver {
        fn resolve(&self, _host: &str) -> BoxFuture<io::Result<Vec<IpAddr>>> {
            let resolver = self.clone();
            Box::pin(async move {
                let running = resolver.running.fetch_add(1, Ordering::Relaxed) + 1;
                resolver.most.fetch_max(running, Ordering::Relaxed);
                resolver.total.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(1)).await;
                resolver.running.fetch_sub(1, Ordering::Relaxed);
                Ok((0..40).map(|last| IpAddr::from([93, 184, 216, last])).collect())
            })
        }
    }

    #[tokio::test]
    async fn the_address_of_a_rule_is_dialled_without_resolver_and_parent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let resolver = SlowResolver::default();
        let parent = ParentProxy::parse("http://192.0.2.1:1").ok();
        let outside = Outside { resolver: Arc::new(resolver.clone()), parent, ..Outside::new() };
        let rule = Rule::parse(&format!("a.test:{} address=127.0.0.1", address.port())).unwrap();
        let name = Name::parse(b"a.test").unwrap();
        assert!(outside.parent_for(&name, &rule).is_none());
        let limits = Limits::default();
        let connected = outside.connect(&name, address.port(), &rule, &limits).await.unwrap();
        assert_eq!(connected.address, Some(address));
        assert_eq!(resolver.total.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn few_names_are_resolved_at_once() {
        let resolver = SlowResolver::default();
        let outside = Outside { resolver: Arc::new(resolver.clone()), ..Outside::new() };
        let mut tasks = JoinSet::new();
        for index in 0..400 {
            let outside = outside.clone();
            tasks.spawn(async move {
                let host = format!("{}.test", index % 40);
                outside.addresses(&host, &Limits::default()).await.unwrap().len()
            });
        }
        while let Some(count) = tasks.join_next().await {
            assert_eq!(count.unwrap(), MAX_ADDRESSES);
        }
        assert_eq!(resolver.most.load(Ordering::Relaxed), MAX_RESOLVING);
        let total = resolver.total.load(Ordering::Relaxed);
        assert!((40..400).contains(&total), "{total}");
    }
}
