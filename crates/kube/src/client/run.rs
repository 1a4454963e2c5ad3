//! `run --backend kubernetes`: a session in a pod (`spec/kubernetes.md#run`).

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::process::ExitCode;

use aifo_config::{Flags, UsageError};
use aifo_host::short;
use aifo_process::terminal::window_size;
use aifo_terminal::console::{self, PROGRESS};
use aifo_terminal::paint;
use aifo_types::exit;
use anyhow::bail;

use super::cluster::Cluster;
use super::last_fetch::{LastFetch, SessionEnd};
use super::periodic_fetches::PeriodicFetches;
use super::piped::{Turns, run_piped};
use super::relay::Input;
use super::result::HasEnded;
use super::session::{PodProcess, PodRequest};
use super::started::{FIRST_CLIENT, Started, StartedPod, start};
use super::terminal::{ExitStatus, TerminalEnd};
use super::upload;

/// Flags of `run` that do not hold in a pod, and the remedy.
const UNUSABLE: [(&str, &str); 9] = [
    ("--publish", "forward a port with: kubectl port-forward POD PORT"),
    ("--attach", "name an image of the toolchain with --toolchain-image"),
    ("--join", "omit it: a pod reaches the services that its network policy admits"),
    ("--host-port", "omit it: a pod does not reach this machine"),
    ("--agent-port", "omit it: all containers of a pod have one localhost"),
    ("--listen", "omit it: the proxy listens in the pod"),
    ("--state", "omit it: an agent's state ends with the pod"),
    ("--state-import", "omit it: a pod does not have your settings"),
    ("--pids", "omit it: the node limits processes"),
];

/// Runs an agent or command in a pod of its own, on this terminal if there is one; with `is_detached` it prints the
/// session's id and returns.
pub async fn run(request: PodRequest<'_>, is_detached: bool) -> anyhow::Result<ExitCode> {
    if !console::is_on_terminal() && !is_detached {
        let words = [vec!["run".to_owned()], request.words_of_run()].concat();
        return run_piped(request, (Input::Stdin, words), Turns::Unseen).await;
    }
    let first_client = (!is_detached).then_some(FIRST_CLIENT);
    // So the agent's first output has it, before a client connects.
    let size = window_size(std::io::stdin().as_fd()).unwrap_or_default();
    let started = start(request, &PodProcess::Held(first_client, size)).await?;
    let StartedPod { cluster, id, name, .. } = match started {
        Started::Running(pod) => *pod,
        Started::Ended(code) => return Ok(code),
    };
    if is_detached {
        paint::print(&format!("{id}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    tracing::info!(target: PROGRESS, "session {} runs in pod {name}", short(&id));
    cluster.show_and_fetch(&id, &name).await
}

/// Errors: a flag does not hold in a pod.
pub fn validate(flags: &Flags) -> anyhow::Result<()> {
    for (flag, remedy) in UNUSABLE {
        if !flags.words(flag).is_empty() {
            bail!(UsageError(format!("{flag} has no effect in a pod\nhint: {remedy}")));
        }
    }
    Ok(())
}

/// Shows a session terminal, and fetches its work when it ends.
pub async fn attach(cluster: &Cluster, session: Option<&str>) -> anyhow::Result<ExitCode> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        let error = "stdin and stdout are no terminal\nhint: run it in a terminal";
        return Err(UsageError(error.to_owned()).into());
    }
    let pod = cluster.find(session).await?;
    let id = pod.session().unwrap_or_default().to_owned();
    let has_work = pod.has_clone() || pod.has_upload();
    if has_work && pod.waits_after_end() && matches!(cluster.has_ended(&pod).await, Ok(true)) {
        let (id, options) = (short(&id), cluster.options());
        bail!(
            "session {id} has ended, and its pod waits for a fetch\n\
             hint: get its work with: aifo-coder kube fetch{options} {id}"
        );
    }
    cluster.show_and_fetch(&id, pod.name()).await
}

impl Cluster {
    /// Shows a session terminal, and fetches its files and commits. Deletes the objects of a
    /// session that has ended; one whose files could not be fetched is kept.
    async fn show_and_fetch(&self, session: &str, pod: &str) -> anyhow::Result<ExitCode> {
        let work = self.work(session, pod).await?;
        let fetches = PeriodicFetches::start(self, session, pod, &work)?;
        let end = self.show(session, pod).await;
        let fetched = fetches.finish();
        upload::report(session, &fetched.reports);
        let end = end?;
        let code = end.exit_code();
        let last = match end {
            TerminalEnd::Ended(code) => {
                let end = SessionEnd::Ended(code);
                self.fetch_last((session, pod), &work, &fetched, end).await
            }
            TerminalEnd::Gone => {
                if work.exists() {
                    self.report_lost(session, &work, &fetched);
                }
                LastFetch::Gone
            }
            TerminalEnd::Continues(ExitStatus::Lost) => return Ok(code),
            TerminalEnd::Continues(ExitStatus::Left) => {
                let failures = self.fetch_work(session, pod, &work, HasEnded::No);
                self.report_kept(session, failures);
                return Ok(code);
            }
        };
        if last != LastFetch::Kept && self.delete(session).await {
            work.remove_record();
        }
        Ok(if last == LastFetch::Gone { ExitCode::from(exit::UNKNOWN) } else { code })
    }
}
