//! Where a key comes from, and how long it is kept.

use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::key::Key;
use crate::providers::KeyHeader;
use crate::redact::Redactor;

/// Reads a key from where the user has it.
pub trait KeySource: Send + Sync + 'static {
    /// Reads it. The error is shown to the agent, and has no part of the key.
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>>;
}

/// A key that was just read.
#[derive(Clone, Debug)]
pub struct FreshKey {
    /// The key.
    pub key: Key,
    /// How long it is used; `None` for the session.
    pub lifetime: Option<Duration>,
}

/// A source whose key is kept.
pub(crate) struct KeptKey {
    source: Box<dyn KeySource>,
    kept: Mutex<Option<(Key, Option<Instant>)>>,
    /// All keys of the session.
    read: std::sync::Mutex<Vec<Key>>,
}

impl KeptKey {
    pub(crate) fn new(source: Box<dyn KeySource>) -> Self {
        KeptKey { source, kept: Mutex::default(), read: std::sync::Mutex::default() }
    }

    /// Returns the key. It is read once, however many requests wait for it.
    pub(crate) async fn get(&self) -> Result<Key, String> {
        let mut kept = self.kept.lock().await;
        let is_valid = |until: &Option<Instant>| until.is_none_or(|until| Instant::now() < until);
        if let Some((key, until)) = kept.as_ref()
            && is_valid(until)
        {
            return Ok(key.clone());
        }
        *kept = None;
        let FreshKey { key, lifetime } = self.source.read().await?;
        let until = lifetime.and_then(|lifetime| Instant::now().checked_add(lifetime));
        *kept = Some((key.clone(), until));
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if !read.iter().any(|known| known.expose() == key.expose()) {
            read.push(key.clone());
        }
        Ok(key)
    }

    /// Returns a redactor of this key and all former ones, which may be valid still, also as the header has them.
    pub(crate) fn redactor(&self, header: KeyHeader) -> Redactor {
        let mut keys = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let KeyHeader::Basic(user) = header {
            keys.extend(keys.clone().iter().map(|key| key.with_user(user)));
        }
        Redactor::of(&keys)
    }

    /// Forgets a key that the provider refused, unless a newer one was read meanwhile.
    pub(crate) async fn refuse(&self, refused: &Key) {
        let mut kept = self.kept.lock().await;
        kept.take_if(|(key, _)| key.expose() == refused.expose());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counting(Arc<AtomicUsize>, Option<Duration>);

    impl KeySource for Counting {
        fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>> {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            let key = Key::parse(&format!("key-{number}")).unwrap();
            let lifetime = self.1;
            Box::pin(async move { Ok(FreshKey { key, lifetime }) })
        }
    }

    #[tokio::test]
    async fn a_key_is_read_again_only_after_its_end_or_a_refusal() {
        let reads = Arc::new(AtomicUsize::new(0));
        let key = KeptKey::new(Box::new(Counting(Arc::clone(&reads), None)));
        let first = key.get().await.unwrap();
        key.get().await.unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), 1);
        key.refuse(&first).await;
        assert_eq!(key.get().await.unwrap().expose(), "key-1");
        key.refuse(&first).await;
        assert_eq!(key.get().await.unwrap().expose(), "key-1");
        let expiring = KeptKey::new(Box::new(Counting(Arc::clone(&reads), Some(Duration::ZERO))));
        expiring.get().await.unwrap();
        expiring.get().await.unwrap();
        assert_eq!(reads.load(Ordering::Relaxed), 4);
    }
}
