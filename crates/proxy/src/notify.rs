//! Running a notification command on the host (`spec/notify.md`).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aifo_policy::{Executables, Notification};
use aifo_types::{ExecId, Refusal};
use aifo_wire::{ClientMode, Environment, Invocation, OutsideDirectory, Reports, Start};
use nix::unistd::{AccessFlags, access};

use crate::attendant::TimeLimit;
use crate::buffered::Buffered;
use crate::client::Client;
use crate::exec::{begin_at, internal, no_pipe};
use crate::proxy::{Shared, Transcript};
use crate::running::Running;
use crate::tool_output::ToolOutput;

/// Judges and runs a notification, and answers with what it printed. It goes through a runner like
/// every tool, one that nothing confines: the point of it is to reach the user's desktop.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    client: &Client,
    id: ExecId,
    command: &[u8],
    args: &[Vec<u8>],
    attendance: ClientMode,
) -> Result<(), Refusal> {
    let notification = shared.config.notify.judge(command, args, &Host)?;
    let registration = shared.registry.register(&id).await?;
    let lease = shared.fleet.host().await.map_err(internal)?;
    let runner = lease.runner().clone();
    let Notification { program, argv } = notification;
    tracing::debug!(program = %program.display(), argv = aifo_policy::redact(args), "notify");
    let kept = shared.config.notify.kept_variables();
    let start = Start {
        serial: 0,
        id,
        outside_directory: OutsideDirectory::Refuse,
        program: Some(program.as_os_str().as_bytes().to_vec()),
        environment: kept.map_or(Environment::All, |names| {
            Environment::Only(names.into_iter().map(|name| name.as_bytes().to_vec()).collect())
        }),
        client: None,
        reports: Reports::StartAndExit,
        invocation: Invocation::plain(argv, None),
    };
    let (output, tools_end) = ToolOutput::new().map_err(no_pipe)?;
    let Some(exec) = begin_at(lease, start, &[tools_end]).await? else {
        // Its path was resolved a moment ago; a runner does not look for it again.
        return Err(Refusal::Internal(format!("'{}' is not there", program.display())));
    };
    registration.started(runner.clone());
    let limit = shared.config.notify.timeout.or(shared.config.max_runtime);
    let kind = runner.kind().clone();
    let running = Running::new(shared, exec, output, registration, limit, TimeLimit::Cancel);
    let sink = Buffered::new(None, Transcript::Plain, &shared.config.spool_dir, &kind);
    let ended = running.attended(attendance).serve(client, sink).await;
    tracing::debug!(code = ended.exit_code, "notify end");
    Ok(())
}

/// The machine we run on.
struct Host;

impl Executables for Host {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok()?;
        (real.is_dir() || access(&real, AccessFlags::X_OK).is_ok()).then_some(real)
    }
}
