//! The server as a whole.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::attention;
use crate::call_log::{CallSource, RunningSession};
use crate::driver::{AgentLauncher, Driver};
use crate::hub::{Hub, Storage};
use crate::server::{self, Guarded};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The origin that browsers see, if a proxy of the user's stands before this server.
    pub origin: Option<String>,
    /// Where its files are.
    pub storage: Storage,
    /// The agent's name, `""` if the server only watches.
    pub agent: String,
    /// The agent's working directory.
    pub cwd: String,
    /// How long a browser may leave output unread.
    pub stalled: Duration,
    /// The command to run when something waits and no browser shows the page; empty for none.
    pub on_attention: Vec<String>,
    /// How long no browser has shown the page when that runs.
    pub unseen: Duration,
    /// Returns the running sessions of this user.
    pub running: fn() -> Vec<RunningSession>,
    /// Opens a session's log of calls, which may not exist yet.
    pub open_log: fn(PathBuf) -> CallSource,
}

/// A server that listens.
#[derive(Debug)]
pub struct Web {
    hub: Arc<Hub>,
    listener: TcpListener,
    commands: tokio::sync::mpsc::UnboundedReceiver<crate::hub::Command>,
    stalled: Duration,
    on_attention: Vec<String>,
    unseen: Duration,
    running: fn() -> Vec<RunningSession>,
}

impl Web {
    /// Listens and opens the storage.
    pub async fn bind(config: WebConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        let port = listener.local_addr()?.port();
        let origin = config.origin.as_deref();
        let (agent, cwd) = (&config.agent, &config.cwd);
        let (hub, commands) = Hub::open(config.storage, port, origin, agent, cwd, config.open_log)?;
        let (stalled, on_attention) = (config.stalled, config.on_attention);
        let (unseen, running) = (config.unseen, config.running);
        Ok(Web { hub: Arc::new(hub), listener, commands, stalled, on_attention, unseen, running })
    }

    /// Creates a link that signs one browser in, for each address of the page: the best first.
    pub fn links(&self) -> io::Result<Vec<String>> {
        let mut inner = self.hub.lock();
        let secret = inner.access.new_link(None, crate::clock::unix_ms())?;
        let origins = inner.access.address().origins().iter();
        Ok(origins.map(|origin| format!("{origin}/#{secret}")).collect())
    }

    /// Serves until `end`, then ends the agent.
    pub async fn run<L: AgentLauncher>(self, launcher: L, end: impl Future<Output = ()>) {
        let listener = Guarded::new(self.listener, self.stalled);
        let server = tokio::spawn(server::serve(listener, Arc::clone(&self.hub)));
        let attention = attention::run(Arc::clone(&self.hub), self.on_attention, self.unseen);
        let attention = tokio::spawn(attention);
        let watch = tokio::spawn(watch(Arc::clone(&self.hub), self.running));
        Driver::new(self.hub, launcher, self.commands).run(end).await;
        server.abort();
        attention.abort();
        watch.abort();
    }
}

/// Keeps the list of running sessions and the timelines up to date while a browser is connected.
async fn watch(hub: Arc<Hub>, running: fn() -> Vec<RunningSession>) {
    loop {
        if hub.lock().viewers() > 0 {
            hub.set_running(running());
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The time between two reads of the sessions' records.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
