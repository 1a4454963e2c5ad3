//! Names to addresses outside, by default by the machine's configuration (`spec/network.md#connections`).

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use hickory_resolver::TokioResolver;
use tokio::sync::OnceCell;

/// A boxed future of [`Resolve`] and [`Dial`](crate::Dial).
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Resolves names outside.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of a host, in the order in which they are to be tried. An error, or no
    /// address, fails the connection.
    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<IpAddr>>>;
}

/// Resolves by `/etc/hosts` and the name servers of `/etc/resolv.conf`, which are read at the first
/// name. Not by `getaddrinfo`: in a static program that loads libraries of the machine's glibc,
/// and crashes if that is of another version.
#[derive(Clone, Default)]
pub struct SystemResolver(Arc<OnceCell<TokioResolver>>);

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<IpAddr>>> {
        let (resolver, host) = (Arc::clone(&self.0), host.to_owned());
        Box::pin(async move {
            let build = async || {
                let mut builder = TokioResolver::builder_tokio()?;
                // The gateway has a cache of its own, with a fixed age.
                builder.options_mut().cache_size = 0;
                builder.build()
            };
            let resolver = resolver.get_or_try_init(build).await.map_err(io::Error::other)?;
            match resolver.lookup_ip(host).await {
                Ok(found) => Ok(found.iter().collect()),
                // Its text is about queries and zones.
                Err(error) if error.is_no_records_found() => Ok(Vec::new()),
                Err(error) => Err(io::Error::other(error)),
            }
        })
    }
}

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemResolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn resolves_names_of_the_hosts_file() {
        let found = SystemResolver::default().resolve("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    }

    /// No name server is asked for this domain.
    #[tokio::test]
    async fn a_name_without_an_address_is_no_error() {
        let found = SystemResolver::default().resolve("nothing.invalid").await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    }
}
