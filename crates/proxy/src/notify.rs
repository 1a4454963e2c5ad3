//! Runs notification commands on the host (`spec/notify.md`).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_policy::{Executables, Notification};
use aifo_process::is_executable;
use aifo_types::{ExecId, ExecRequest, Refusal};
use aifo_wire::{ClientMode, Environment, Program, Start};

use crate::budget::Share;
use crate::buffered::BufferedResponse;
use crate::call_watcher::TimeLimit;
use crate::client::Client;
use crate::config::Transcript;
use crate::refusals::{internal_error, pipe_failed};
use crate::relayed_exec::RelayedExec;
use crate::state::ProxyState;
use crate::tool_output::ToolOutput;
use crate::tool_start::start_on;

/// Checks and runs a notification, and responds with its output. An unconfined runner runs it, because
/// notifications must reach the user's desktop.
pub(crate) async fn run(
    state: &Arc<ProxyState>,
    client: &Client,
    id: ExecId,
    command: &[u8],
    args: &[Vec<u8>],
    mode: ClientMode,
    memory: Share,
) -> Result<(), Refusal> {
    let notification = state.config.notify.judge(command, args, &HostExecutables)?;
    let Notification { program, tool, args: argv } = notification;
    let registration = state.registry.register(&id).await?;
    let lease = state.fleet.host().await.map_err(internal_error)?;
    let runner = lease.runner().clone();
    tracing::debug!(program = %program.display(), argv = aifo_policy::redact(args), "notify");
    let kept = state.config.notify.kept_variables();
    let mut start = Start::new(ExecRequest { args: argv, ..ExecRequest::new(id, tool) });
    start.program = Program::File(program.as_os_str().as_bytes().to_vec());
    if let Some(names) = kept {
        let names = names.into_iter().map(|name| name.as_bytes().to_vec());
        start.environment = Environment::Only(names.collect());
    }
    let (output, writer) = ToolOutput::new().map_err(pipe_failed)?;
    let Some(exec) = start_on(lease, start, vec![writer]).await? else {
        // The program was removed after its path was resolved.
        return Err(Refusal::Internal(format!("'{}' does not exist", program.display())));
    };
    drop(memory);
    registration.started(runner.clone());
    let limit = state.config.notify.timeout.or(state.config.max_runtime);
    let kind = runner.kind().clone();
    let relayed = RelayedExec::new(state, exec, output, registration, limit, TimeLimit::Cancel);
    let sink = BufferedResponse::new(state, None, Transcript::Plain, &kind);
    let ended = relayed.with_mode(mode).serve(client, sink).await;
    tracing::debug!(code = ended.exit_code, "notify end");
    Ok(())
}

/// The executables of this machine.
#[derive(Clone, Copy, Debug)]
pub struct HostExecutables;

impl Executables for HostExecutables {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok()?;
        (real.is_dir() || is_executable(&real)).then_some(real)
    }
}
