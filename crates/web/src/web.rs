//! The server as a whole.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::attention::{self, AttentionProgram};
use crate::call_log::{CallSource, RunningSession};
use crate::driver::{AgentLauncher, Driver};
use crate::hub::{Hub, Storage};
use crate::server::{self, Guarded};
use crate::waiting_call::{CallAnswer, CallEnd, WaitingCall};

/// A server configuration.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The origin that browsers see, if a proxy of the user's stands before this server.
    pub origin: Option<String>,
    /// Where its files are.
    pub storage: Storage,
    /// The agent name, `""` if the server only watches.
    pub agent: String,
    /// The agent's working directory.
    pub cwd: String,
    /// How long a browser may leave output unread.
    pub stalled: Duration,
    /// The program to run when something waits and no browser shows the page.
    pub on_attention: Option<AttentionProgram>,
    /// How long no browser has shown the page when that runs.
    pub unseen: Duration,
    /// Returns the running sessions of this user.
    pub running: fn() -> Vec<RunningSession>,
    /// Opens a session log of calls, which may not exist yet.
    pub open_log: fn(PathBuf) -> CallSource,
}

/// A server that listens.
#[derive(Debug)]
pub struct Web {
    hub: Arc<Hub>,
    listener: TcpListener,
    commands: UnboundedReceiver<crate::hub::Command>,
    call_answers: Option<UnboundedReceiver<CallAnswer>>,
    stalled: Duration,
    on_attention: Option<AttentionProgram>,
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
        let (hub, commands, call_answers) =
            Hub::open(config.storage, port, origin, agent, cwd, config.open_log)?;
        let (stalled, on_attention) = (config.stalled, config.on_attention);
        let (unseen, running) = (config.unseen, config.running);
        let (hub, call_answers) = (Arc::new(hub), Some(call_answers));
        Ok(Web { hub, listener, commands, call_answers, stalled, on_attention, unseen, running })
    }

    /// Creates a link that signs one browser in, for each address of the page: the best first.
    pub fn links(&self) -> io::Result<Vec<String>> {
        let mut inner = self.hub.lock();
        let secret = inner.access.new_link(None, crate::clock::unix_ms())?;
        let origins = inner.access.address().origins().iter();
        Ok(origins.map(|origin| format!("{origin}/#{secret}")).collect())
    }

    /// Returns the waiting calls that the page shows, and once the receiver of their answers.
    pub fn waiting_calls(&mut self) -> (WaitingCalls, Option<UnboundedReceiver<CallAnswer>>) {
        (WaitingCalls(Arc::clone(&self.hub)), self.call_answers.take())
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

/// The waiting calls that a server shows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WaitingCalls(Arc<Hub>);

impl WaitingCalls {
    /// Shows a call, or its new state.
    pub fn show(&self, call: WaitingCall) {
        self.0.show_call(call);
    }

    /// Shows the end of a call.
    pub fn end(&self, session: &str, question: &str, end: CallEnd) {
        self.0.end_call(session, question, end);
    }

    /// Removes the calls of a session that has ended.
    pub fn end_session(&self, session: &str) {
        self.0.end_calls_of(session);
    }
}

/// Keeps the list of running sessions and the timelines up to date while a browser is connected.
async fn watch(hub: Arc<Hub>, running: fn() -> Vec<RunningSession>) {
    loop {
        if hub.lock().viewers() > 0 {
            hub.set_running(running());
        }
        hub.forget_calls();
        tokio::time::sleep(WATCH_INTERVAL).await;
    }
}

/// The time between two reads of the sessions' records.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);
