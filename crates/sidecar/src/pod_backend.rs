//! Sidecars that Kubernetes has started as containers of the launcher's pod (`spec/kubernetes.md`).
//!
//! Each runner connects to a socket in a directory that only the launcher and its container mount. The
//! first connection is the control connection; the socket is then closed and removed.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aifo_types::Kind;
use aifo_wire::Setup;

use crate::backend::{Backend, Starting};
use crate::container::{CONTAINER_TMP, CONTAINER_WORKSPACE, RunnerListener};
use crate::error::SidecarError;
use crate::progress::Progress;
use crate::runner::Runner;

/// Time for a runner to connect: its image may have to be pulled first.
pub const POD_START_TIMEOUT: Duration = Duration::from_secs(600);

/// The containers of a pod. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PodBackend {
    /// A directory with a subdirectory for the socket of each kind.
    sockets: PathBuf,
    timeout: Duration,
    /// The kinds whose runner was waited for. Their containers do not start again.
    started: Arc<Mutex<BTreeSet<Kind>>>,
}

impl PodBackend {
    /// Returns a backend for the runners that connect to sockets below this directory.
    pub fn new(sockets: PathBuf) -> Self {
        PodBackend { sockets, timeout: POD_START_TIMEOUT, started: Arc::default() }
    }

    fn is_first_start(&self, kind: &Kind) -> bool {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).insert(kind.clone())
    }

    async fn connect(self, kind: Kind) -> Result<Runner, SidecarError> {
        let failed = |source: io::Error| SidecarError::Start { kind: kind.clone(), source };
        if !self.is_first_start(&kind) {
            return Err(failed(io::Error::other(format!(
                "the container '{kind}' of this pod has ended\n\
                 hint: a pod does not restart it; it may have exceeded --memory, see: kubectl describe pod POD"
            ))));
        }
        let listener = RunnerListener::bind(&self.sockets.join(kind.as_str())).map_err(failed)?;
        let accepted = tokio::time::timeout(self.timeout, listener.accept_runner()).await;
        let control = accepted.unwrap_or_else(|_| {
            let secs = self.timeout.as_secs();
            Err(io::Error::other(format!(
                "the container '{kind}' of this pod has not connected within {secs} s\n\
                 hint: see its state: kubectl describe pod"
            )))
        });
        let setup = Setup {
            workspace: vec![CONTAINER_WORKSPACE.into()],
            tmp: vec![CONTAINER_TMP.into()],
            kind: kind.to_string(),
        };
        let control = control.map_err(failed)?;
        match kind == Kind::agent() {
            // Its runner binds the port of model keys in the pod stack.
            true => Runner::connect_joined(kind, control, &setup).await,
            false => Runner::connect(kind, control, &setup).await,
        }
    }
}

impl Backend for PodBackend {
    fn start(&self, kind: Kind, _progress: Progress) -> Starting {
        Box::pin(self.clone().connect(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Reporter;
    use std::os::unix::net::UnixStream;

    fn kind() -> Kind {
        Kind::parse("rust").unwrap()
    }

    #[tokio::test]
    async fn a_runner_that_does_not_connect_is_named_and_its_container_not_waited_for_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut backend = PodBackend::new(directory.path().to_owned());
        backend.timeout = Duration::from_millis(20);
        let message = async |backend: &PodBackend| {
            let error = backend
                .start(kind(), Progress::new(kind(), Reporter::default()))
                .await
                .unwrap_err();
            let source = std::error::Error::source(&error).unwrap().to_string();
            format!("{error}: {source}")
        };
        let first = message(&backend).await;
        assert!(first.contains("'rust' of this pod has not connected within"), "{first}");
        let second = message(&backend).await;
        assert!(second.contains("'rust' of this pod has ended"), "{second}");
    }

    #[tokio::test]
    async fn only_the_first_connection_of_a_kind_is_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("rust/control");
        let backend = PodBackend::new(directory.path().to_owned());
        let starting =
            tokio::spawn(backend.start(kind(), Progress::new(kind(), Reporter::default())));
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let first = loop {
            match UnixStream::connect(&socket) {
                Ok(connected) => break connected,
                Err(error) => assert!(std::time::Instant::now() < deadline, "{error}"),
            }
            tokio::task::yield_now().await;
        };
        while socket.exists() {
            assert!(std::time::Instant::now() < deadline, "the socket is removed");
            tokio::task::yield_now().await;
        }
        assert!(UnixStream::connect(&socket).is_err(), "no second connection");
        // It has sent no `Hello`.
        drop(first);
        assert!(starting.await.unwrap().is_err());
    }
}
