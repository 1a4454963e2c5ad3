//! The task of one mailbox request, from claim to response.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use aifo_policy::{HostCommands, redact};
use aifo_sidecar::{Canceller, Exec, ExecEvent, Fleet, deadline_reached};
use aifo_types::{ExecId, ExecRequest, Inherited, Refusal, Stdio, ToolName, exit};
use aifo_wire::{CancelCause, Exit, Interrupt, Program, Start};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::approval::{CallApprovals, RunsIn, wait_for_answer};
use crate::call_watcher::shutdown_requested;
use crate::mailbox::command_output::{CommandOutput, Copied};
use crate::mailbox::command_stdin::CommandStdin;
use crate::mailbox::files::{
    Arguments, CallerInfo, Claim, ClientFiles, CommandExit, Directory, ExitReason, HeartbeatFile,
    Liveness, RequestId, WorkingDirectory,
};
use crate::mailbox::waiting_client::{LIVENESS_INTERVAL, WaitingClient, take_signal};
use crate::refusals::{internal_error, pipe_failed};
use crate::tool_start::start_on;

/// State shared by all requests.
#[derive(Debug)]
pub(crate) struct MailboxState {
    pub(crate) directory: Directory,
    pub(crate) workspace: std::path::PathBuf,
    pub(crate) commands: HostCommands,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) approvals: CallApprovals,
    pub(crate) max_runtime: Option<Duration>,
    /// The grace period is over: running commands must end.
    pub(crate) ending: watch::Sender<bool>,
}

/// Notifies a request's task of new files.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    /// A signal.
    pub(crate) signal: Notify,
    /// More input, or its end.
    pub(crate) input: Notify,
}

/// Why nothing ran: the exit code and a line for the client.
struct NotRun {
    code: u8,
    why: String,
}

impl From<Refusal> for NotRun {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::StartFailed { cause: why, exit_code: code } => NotRun { code, why },
            Refusal::BadRequest(why) | Refusal::Internal(why) | Refusal::EndingUnknown(why) => {
                NotRun { code: exit::UNKNOWN, why }
            }
            Refusal::SignalledBeforeApproval { .. } => {
                NotRun { code: refusal.exit_code(), why: refusal.body().trim_end().to_owned() }
            }
            refusal => NotRun { code: exit::UNKNOWN, why: refusal.body().trim_end().to_owned() },
        }
    }
}

/// Runs a claimed request and responds.
pub(crate) async fn serve(
    shared: Arc<MailboxState>,
    claim: Claim,
    tool: ToolName,
    placed: ClientFiles,
    notifier: Arc<Notifier>,
    input: Option<(CommandStdin, OwnedFd)>,
) {
    let began = Instant::now();
    let (input, stdin) = input.unzip();
    // The request may be large, so it is dropped once the command has started.
    let ClientFiles { arguments, caller, heartbeat, .. } = placed;
    let heartbeat = heartbeat.map(|heartbeat| {
        let liveness = Liveness::new(began.into_std(), heartbeat.read());
        (heartbeat, liveness)
    });
    let mut client = WaitingClient { heartbeat, signal: &notifier.signal, is_gone: false };
    let started = start(&shared, claim.id(), tool, (arguments, caller), stdin, &mut client).await;
    let WaitingClient { heartbeat, is_gone, .. } = client;
    let running = match started {
        Ok((exec, id, outputs)) => {
            let [stdout, stderr] = outputs;
            let tool = exec.canceller();
            RunningCommand {
                exec,
                tool,
                id,
                stdout,
                stderr,
                input,
                heartbeat,
                end_reason: None,
                signalled: None,
            }
        }
        Err(_) if is_gone => return claim.discard(&shared.directory),
        Err(NotRun { code, why }) => {
            tracing::debug!(request = %claim.id(), code, why, "refused");
            return claim.refuse(&shared.directory, code, &why);
        }
    };
    running.finish(&shared, claim, &notifier, began).await;
}

/// A running command.
struct RunningCommand {
    exec: Exec,
    tool: Canceller,
    id: ExecId,
    stdout: Option<CommandOutput>,
    stderr: Option<CommandOutput>,
    input: Option<CommandStdin>,
    heartbeat: Option<(HeartbeatFile, Liveness)>,
    end_reason: Option<ToolEnd>,
    /// The time of the client's last signal.
    signalled: Option<Instant>,
}

/// Why the daemon ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolEnd {
    /// Its client is gone.
    Abandoned,
    /// The daemon stops; the reason is sent to the client.
    Ended(ExitReason),
}

impl RunningCommand {
    async fn finish(
        mut self,
        shared: &MailboxState,
        claim: Claim,
        notifier: &Notifier,
        began: Instant,
    ) {
        let exit = self.follow(shared, &claim, notifier, began).await;
        for (output, file) in [(self.stdout, &claim.stdout), (self.stderr, &claim.stderr)] {
            if let Some(output) = output {
                output.copy_rest(file);
            }
        }
        let ms = began.elapsed().as_millis();
        if self.end_reason == Some(ToolEnd::Abandoned) {
            tracing::debug!(exec_id = %self.id, ms, "exec end, client gone");
            return claim.discard(&shared.directory);
        }
        let ending = command_exit(exit.map(|exit| exit.ending), self.end_reason);
        tracing::debug!(exec_id = %self.id, code = ending.code, ms, "exec end");
        if ending.reason == Some(ExitReason::Lost) {
            tracing::warn!(exec_id = %self.id, "runner lost, ending unknown");
        }
        claim.answer(&shared.directory, ending);
    }

    /// Copies input and output until the command has ended. `None` if the runner was lost first.
    async fn follow(
        &mut self,
        shared: &MailboxState,
        claim: &Claim,
        notifier: &Notifier,
        began: Instant,
    ) -> Option<Exit> {
        let mut ending = shared.ending.subscribe();
        let mut deadline = shared.max_runtime.map(|limit| began + limit);
        let mut look = interval_at(began + LIVENESS_INTERVAL, LIVENESS_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                event = self.exec.next() => match event {
                    Some(ExecEvent::Ended(exit)) => return Some(exit),
                    // Events of other execs are ignored.
                    _ => return None,
                },
                () = notifier.signal.notified() => self.pass_signal(shared, claim.id()).await,
                () = deadline_reached(deadline) => {
                    deadline = None;
                    self.end(ToolEnd::Ended(ExitReason::Timeout), CancelCause::Timeout);
                }
                () = shutdown_requested(&mut ending), if self.end_reason.is_none() => {
                    self.end(ToolEnd::Ended(ExitReason::Shutdown), CancelCause::Shutdown);
                }
                _ = look.tick(), if self.heartbeat.is_some() => self.check_liveness(),
                copied = copy_output(&mut self.stdout, &claim.stdout) => {
                    if let Some(full) = after_copy(&mut self.stdout, copied) {
                        self.end(full, CancelCause::Disconnect);
                    }
                }
                copied = copy_output(&mut self.stderr, &claim.stderr) => {
                    if let Some(full) = after_copy(&mut self.stderr, copied) {
                        self.end(full, CancelCause::Disconnect);
                    }
                }
                () = forward_stdin(&mut self.input, &shared.directory, &notifier.input) => {}
            }
        }
    }

    /// Ends the command; the first reason is kept.
    fn end(&mut self, end_reason: ToolEnd, cause: CancelCause) {
        self.end_reason.get_or_insert(end_reason);
        let recent = self.signalled.is_some_and(|at| at.elapsed() < RECENT);
        let abandoned = end_reason == ToolEnd::Abandoned;
        let interrupt = if abandoned && recent { Interrupt::Skip } else { Interrupt::Send };
        self.tool.cancel(cause, interrupt);
    }

    fn check_liveness(&mut self) {
        let Some((heartbeat, liveness)) = &mut self.heartbeat else { return };
        if liveness.update(std::time::Instant::now(), heartbeat.read()) {
            self.heartbeat = None;
            tracing::info!(exec_id = %self.id, "disconnect");
            self.end(ToolEnd::Abandoned, CancelCause::Disconnect);
        }
    }

    /// Passes on the client's signal.
    async fn pass_signal(&mut self, shared: &MailboxState, request_id: &RequestId) {
        let Some(signal) = take_signal(&shared.directory, request_id) else { return };
        if signal.is_terminating() {
            self.signalled = Some(Instant::now());
        }
        // A late signal has no effect; a lost runner is reported by its exec.
        let _ = self.exec.runner().signal(&self.id, signal).await;
    }
}

/// Within this time after a signal, INT is omitted from the signal escalation.
const RECENT: Duration = Duration::from_millis(2500);

/// The time for a user's answer: less than clients wait for a command.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(240);

/// Checks a request and starts its command.
async fn start(
    shared: &MailboxState,
    request_id: &RequestId,
    tool: ToolName,
    (arguments, caller): (Arguments, CallerInfo),
    stdin: Option<OwnedFd>,
    client: &mut WaitingClient<'_>,
) -> Result<(Exec, ExecId, [Option<CommandOutput>; 2]), NotRun> {
    let refused = |why: String| NotRun { code: exit::UNKNOWN, why };
    let bits = aifo_process::random_bits();
    let bits = bits.map_err(|error| refused(format!("cannot create an exec id: {error}")))?;
    let cwd = match caller.working_directory(&shared.workspace) {
        WorkingDirectory::WorkspaceRoot => None,
        WorkingDirectory::Below(directory) => Some(directory.as_os_str().as_bytes().to_vec()),
    };
    // The daemon chooses the id: an exec tag chosen by a container could be another exec's.
    let mut request =
        ExecRequest { args: arguments.0, cwd, ..ExecRequest::new(ExecId::from_random(bits), tool) };
    let command = shared.commands.judge(&request);
    let command =
        command.ok_or_else(|| refused(format!("'{}' is not served here", request.tool)))?;
    request.inherited = Inherited {
        environment: caller.variables_named(command.variables),
        stdio: [
            if stdin.is_some() { Stdio::Passed } else { Stdio::Null },
            Stdio::Passed,
            Stdio::Passed,
        ],
        ..Inherited::default()
    };
    let mut asked = None;
    if let Some(unapproved) = shared.approvals.judge_request(&mut request, RunsIn::Sidecar)? {
        let ended = client.ended(&shared.directory, shared.ending.subscribe(), request_id);
        let timeout = shared.approvals.timeout().min(APPROVAL_TIMEOUT);
        let waited = wait_for_answer(&shared.approvals, unapproved, |_| {}, ended, timeout);
        asked = Some(waited.await?.1);
    }
    let (stdout, to_stdout) = CommandOutput::new().map_err(pipe_failed)?;
    let (stderr, to_stderr) = CommandOutput::new().map_err(pipe_failed)?;
    let fds = stdin.into_iter().chain([to_stdout, to_stderr]).collect();
    let lease = shared.fleet.host().await.map_err(internal_error)?;
    tracing::debug!(
        tool = %request.tool,
        request = %request_id,
        exec_id = %request.id,
        argv = redact(&request.args),
        "exec"
    );
    let id = request.id.clone();
    let mut start = Start::new(request);
    start.program = Program::File(command.program.as_os_str().as_bytes().to_vec());
    shared.approvals.check(asked.as_ref())?;
    let exec = start_on(lease, start, fds).await?;
    let exec = exec.ok_or_else(|| NotRun {
        code: exit::NOT_FOUND,
        why: format!("'{}' does not exist any more", command.program.display()),
    })?;
    Ok((exec, id, [Some(stdout), Some(stderr)]))
}

/// The client's exit code and reason; `None` if the ending is unknown.
fn command_exit(ended: Option<aifo_types::Ending>, end_reason: Option<ToolEnd>) -> CommandExit {
    let Some(ended) = ended else {
        return CommandExit { code: exit::UNKNOWN, reason: Some(ExitReason::Lost) };
    };
    let own = match ended {
        aifo_types::Ending::Exited(_) => None,
        aifo_types::Ending::Signaled(number) => Some(ExitReason::Signal(number)),
    };
    match end_reason {
        Some(ToolEnd::Ended(ExitReason::Timeout)) => {
            CommandExit { code: exit::TIMED_OUT, reason: Some(ExitReason::Timeout) }
        }
        Some(ToolEnd::Ended(reason)) => {
            CommandExit { code: ended.exit_code(), reason: Some(reason) }
        }
        Some(ToolEnd::Abandoned) | None => CommandExit { code: ended.exit_code(), reason: own },
    }
}

async fn copy_output(output: &mut Option<CommandOutput>, file: &File) -> Copied {
    match output {
        Some(output) => {
            let copied = output.copy(file).await;
            // Yield to other tasks, since output may be endless.
            tokio::task::yield_now().await;
            copied
        }
        None => std::future::pending().await,
    }
}

/// Checks the result of copying. Returns the reason if the command must end.
fn after_copy(output: &mut Option<CommandOutput>, copied: Copied) -> Option<ToolEnd> {
    match copied {
        Copied::Some(_) => None,
        Copied::End => {
            *output = None;
            None
        }
        Copied::Full => {
            if let Some(output) = output.take() {
                output.discard();
            }
            Some(ToolEnd::Ended(ExitReason::Output))
        }
    }
}

async fn forward_stdin(input: &mut Option<CommandStdin>, directory: &Directory, grown: &Notify) {
    match input.as_mut().filter(|input| input.is_open()) {
        Some(input) => input.forward(directory, grown).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_start::start_refusal;
    use aifo_types::Ending::{Exited, Signaled};
    use aifo_wire::{StartError, StartErrorCause};

    #[test]
    fn exit_codes_and_reasons() {
        use ToolEnd::{Abandoned, Ended};
        let rows = [
            (Some(Exited(0)), None, 0, None),
            (Some(Exited(137)), None, 137, None),
            (Some(Signaled(9)), None, 137, Some(ExitReason::Signal(9))),
            (None, None, 125, Some(ExitReason::Lost)),
            (None, Some(Ended(ExitReason::Timeout)), 125, Some(ExitReason::Lost)),
            // A command that exits 0 on INT did not finish.
            (Some(Exited(0)), Some(Ended(ExitReason::Timeout)), 124, Some(ExitReason::Timeout)),
            (Some(Signaled(2)), Some(Ended(ExitReason::Shutdown)), 130, Some(ExitReason::Shutdown)),
            (Some(Exited(3)), Some(Ended(ExitReason::Output)), 3, Some(ExitReason::Output)),
            (Some(Signaled(2)), Some(Abandoned), 130, Some(ExitReason::Signal(2))),
        ];
        for (ended, end_reason, code, reason) in rows {
            assert_eq!(
                command_exit(ended, end_reason),
                CommandExit { code, reason },
                "{ended:?} {end_reason:?}"
            );
        }
    }

    #[test]
    fn failed_starts_have_the_exit_codes_of_a_shell() {
        let rows = [
            (StartErrorCause::NotFound, 127),
            (StartErrorCause::NotExecutable, 126),
            (StartErrorCause::Cwd, 125),
            (StartErrorCause::Failed, 125),
            (StartErrorCause::User, 125),
        ];
        for (cause, code) in rows {
            let error = StartError { cause, message: "why".to_owned() };
            let not_run = NotRun::from(start_refusal(error));
            assert_eq!((not_run.code, not_run.why.as_str()), (code, "why"), "{cause:?}");
        }
    }
}
