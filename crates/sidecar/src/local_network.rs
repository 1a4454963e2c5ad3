//! The network stacks of local sidecars (`spec/network.md#local-sidecars`).

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, PoisonError};

use aifo_process::{Group, Spawn, variable};
use aifo_types::Kind;
use aifo_wire::Setup;
use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{Pid, pipe2};
use tokio::sync::Mutex;

use crate::error::SidecarError;
use crate::hidden::hidden_sockets;
use crate::listeners::RESOLVER;
use crate::local_process::{MESSAGES_TIME, c_string, log_lines, obstacle, reap};
use crate::runner::{Runner, StackRole};
use crate::stack_server::{StackServer, WatchIntervals, serve_until};

/// The network of all local sidecars of a session: its stacks, each of which a process without tools
/// holds. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LocalNetwork(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    server: Arc<dyn StackServer>,
    /// The resolver's configuration that tools have.
    resolver: PathBuf,
    /// The holders by stack, each locked while it starts.
    holders: std::sync::Mutex<BTreeMap<String, Arc<Mutex<Option<Holder>>>>>,
}

/// The process whose namespaces the sidecars join. It ends with the runner's last clone.
#[derive(Clone, Debug)]
struct Holder {
    pid: Pid,
    runner: Runner,
}

/// The stack that a sidecar joins.
pub(crate) struct LocalStack {
    server: Arc<dyn StackServer>,
    name: String,
    holder: Pid,
    resolver: PathBuf,
    is_lost: Box<dyn Fn() -> bool + Send + Sync>,
}

impl LocalNetwork {
    /// Returns a network without a stack; each starts with its first sidecar. `directory` is the
    /// session's.
    pub fn new(server: Arc<dyn StackServer>, directory: &Path) -> Self {
        let resolver = directory.join("resolv.conf");
        LocalNetwork(Arc::new(Shared { server, resolver, holders: std::sync::Mutex::default() }))
    }

    /// Returns the stack for a sidecar of this kind. Starts its holder if there is none, or it was lost.
    pub(crate) async fn stack(
        &self,
        kind: &Kind,
        runner_program: &Path,
    ) -> Result<LocalStack, SidecarError> {
        let name = self.0.server.stack_of(kind);
        let slot = {
            let mut holders = self.0.holders.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(holders.entry(name.clone()).or_default())
        };
        let mut current = slot.lock().await;
        let holder = match current.as_ref().filter(|holder| !holder.runner.is_lost()) {
            Some(holder) => holder.clone(),
            None => {
                let started = self.start_holder(kind, &name, runner_program).await?;
                current.insert(started).clone()
            }
        };
        Ok(LocalStack {
            server: Arc::clone(&self.0.server),
            name,
            holder: holder.pid,
            resolver: self.0.resolver.clone(),
            is_lost: Box::new(holder.runner.loss()),
        })
    }

    async fn start_holder(
        &self,
        kind: &Kind,
        stack: &str,
        runner_program: &Path,
    ) -> Result<Holder, SidecarError> {
        let failed = |source| SidecarError::Start { kind: kind.clone(), source };
        std::fs::write(&self.0.resolver, RESOLVER).map_err(failed)?;
        let flags = SockFlag::SOCK_CLOEXEC;
        let pair = socketpair(AddressFamily::Unix, SockType::Stream, None, flags);
        let (control, of_holder) = pair.map_err(|errno| failed(errno.into()))?;
        let (stderr, of_holder_stderr) =
            pipe2(OFlag::O_CLOEXEC).map_err(|errno| failed(errno.into()))?;
        let pid = spawn_holder(runner_program, &of_holder, &of_holder_stderr).map_err(failed)?;
        drop((of_holder, of_holder_stderr));
        let messages = tokio::spawn(log_lines(kind.clone(), stderr));
        // It never starts a tool.
        let setup =
            Setup { workspace: vec![b"/".to_vec()], tmp: Vec::new(), kind: kind.to_string() };
        let server = &self.0.server;
        let ports = server.ports(stack).unwrap_or_default();
        let role = StackRole::Served(&ports);
        let connected = Runner::connect_in_role(kind.clone(), control, &setup, role).await;
        let lost = connected.as_ref().ok().map(|(runner, _)| runner.lost());
        if lost.is_none() {
            // The cause is logged before the failure.
            let _ = tokio::time::timeout(MESSAGES_TIME, messages).await;
        }
        tokio::spawn(async move {
            if let Some(lost) = lost {
                lost.await;
            }
            reap(pid).await;
        });
        let (runner, served) = connected?;
        let serving = server.serve(stack, served, runner.stack_sockets());
        serve_until(serving, runner.lost());
        Ok(Holder { pid, runner })
    }
}

impl LocalStack {
    /// Returns the options of the runner that joins it.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let holder = self.holder.to_string();
        let mut words = vec![JOIN_STACK.into(), holder.into(), RESOLVER_OPTION.into()];
        words.push(self.resolver.clone().into_os_string());
        let hidden = hidden_sockets(|name| std::env::var_os(name));
        words.extend(hidden.into_iter().flat_map(|path| [MASK.into(), path.into_os_string()]));
        words
    }

    /// Has the runner of a sidecar in the stack report what its tools listen on.
    pub(crate) fn watch(&self, runner: &Runner) {
        let (server, name) = (Arc::clone(&self.server), self.name.clone());
        runner.receive_listeners(move |report, listeners| server.report(&name, report, listeners));
        runner.watch_listeners(WatchIntervals::TOOLS);
    }

    /// Returns whether it is no longer served.
    pub(crate) fn is_lost(&self) -> bool {
        (self.is_lost)()
    }
}

/// The runner options for a stack (`spec/runner.md#options`).
const JOIN_STACK: &str = "--join-stack";
const RESOLVER_OPTION: &str = "--resolver";
const MASK: &str = "--mask";

fn spawn_holder(program: &Path, control: &OwnedFd, stderr: &OwnedFd) -> io::Result<Pid> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let argv = ["aifo-runner", "hold-stack"].map(CString::new).into_iter();
    let variables = std::env::vars_os().filter_map(|(name, value)| variable(&name, &value));
    let spawn = Spawn {
        stdio: [Some(control.as_fd()), Some(null.as_fd()), Some(stderr.as_fd())],
        // Ctrl-C at the terminal must reach only the agent.
        group: Group::Session,
        ..Spawn::new(
            c_string(program.as_os_str())?,
            argv.collect::<Result<_, _>>()?,
            variables.collect(),
        )
    };
    spawn.spawn().map_err(io::Error::other)
}

/// Returns why local tools cannot have a network stack of their own here, with a line `hint: ..`; `None`
/// if they can.
pub fn stack_obstacle(runner_program: &Path) -> Option<String> {
    obstacle(Command::new(runner_program).arg0("aifo-runner").arg("try-stack"))
}
