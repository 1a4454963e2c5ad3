//! Commands on a session in a pod: each runs in the pod container `aifo`, with this process's
//! descriptors (`spec/kubernetes.md#commands`).

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use aifo_host::short;
use aifo_terminal::console::{self, EscapedStderr};
use anyhow::{Context, anyhow};
use tokio::{process::Child, sync::oneshot, time::timeout};

use super::cluster::{CONTAINER, Cluster, PROGRAM};
use crate::in_pod::command::{COMMAND, ENDED};
use crate::{ApiFailure, FailureCause, KubectlError, PodObject};

/// The input of a command in a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// None.
    None,
    /// The stdin of this process.
    Stdin,
    /// The terminal of this process, and a terminal in the pod.
    Terminal,
}

/// A command that runs in the pod of a session.
pub trait InPod {
    /// Returns the start of the session id, if it is given.
    fn session(&self) -> Option<&str>;
    /// Returns the words of `aifo-coder` in the pod; `id` is the session's.
    fn words(&self, id: &str, pod: &PodObject) -> Vec<OsString>;
    /// Returns its input.
    fn input(&self) -> Input;
    /// Returns the line that is printed after a success, in place of those of the pod.
    fn report(&self, _cluster: &Cluster, _id: &str) -> Option<String> {
        None
    }
}

impl Input {
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Input::None => &[],
            Input::Stdin => &["--stdin"],
            Input::Terminal => &["--stdin", "--tty"],
        }
    }
}

/// A command that has no effect in a pod.
pub enum Unusable {
    /// `net`
    Connections,
    /// `publish`
    Publish,
}

/// Returns the error of a command that has no effect in the pod of a session, with the remedy.
pub async fn unusable(
    cluster: &Cluster,
    session: Option<&str>,
    command: Unusable,
) -> anyhow::Error {
    let pod = match cluster.find(session).await {
        Ok(pod) => pod,
        Err(error) => return error,
    };
    let (id, name) = (short(pod.session().unwrap_or_default()), pod.name());
    let kubectl = cluster.kubectl_line();
    match command {
        Unusable::Connections => anyhow!(
            "session {id} has no list of connections: a network policy admits those of a pod\n\
             hint: see its ports and addresses with: {kubectl} describe networkpolicy {name}"
        ),
        Unusable::Publish => anyhow!(
            "session {id} runs in a pod, whose ports cannot be published\n\
             hint: forward one with: {kubectl} port-forward {name} PORT"
        ),
    }
}

/// Runs a command in the pod of its session, and returns its exit code.
pub async fn relay(cluster: &Cluster, command: &impl InPod) -> anyhow::Result<ExitCode> {
    let pod = cluster.find(command.session()).await?;
    let id = pod.session().unwrap_or_default();
    let options = command.input().options();
    let own = command.report(cluster, id);
    let code = exec(cluster, pod.name(), options, &command.words(id, &pod), own.is_some()).await?;
    if code == 0 {
        own.iter().for_each(console::say);
    }
    Ok(ExitCode::from(code))
}

/// Runs `aifo-coder` in a pod with this process's descriptors, and returns its exit code. With
/// `holds_back`, its stderr is printed only if it fails.
async fn exec(
    cluster: &Cluster,
    pod: &str,
    options: &[&str],
    words: &[OsString],
    holds_back: bool,
) -> anyhow::Result<u8> {
    end_of(spawn(command(cluster, pod, options, words), Stdio::inherit())?, holds_back).await
}

/// The time for the rest of stderr after the end of kubectl.
const STDERR_TIME: Duration = Duration::from_secs(2);

/// A kubectl that is to run `aifo-coder` in a pod.
pub(crate) struct ExecCommand {
    pub(crate) kubectl: Command,
    /// Whether the command reports a success too.
    reports_success: bool,
}

/// A kubectl that runs `aifo-coder` in a pod, and its stderr.
pub(crate) struct Exec {
    pub(crate) kubectl: Child,
    stderr: PipeReader,
    reports_success: bool,
}

/// Returns the command that runs `aifo-coder` in a pod with this process's stdin, if `options` have it.
pub(crate) fn command(
    cluster: &Cluster,
    pod: &str,
    options: &[&str],
    words: &[OsString],
) -> ExecCommand {
    let mut kubectl = cluster.kubectl.command(["exec"].iter().chain(options));
    kubectl.args([pod, "--container", CONTAINER, "--", PROGRAM]);
    // A terminal in the pod has no stderr of its own.
    let reports_success = !options.contains(&"--tty");
    kubectl.args(reports_success.then_some(COMMAND)).args(words);
    if options.is_empty() {
        kubectl.stdin(Stdio::null());
    }
    ExecCommand { kubectl, reports_success }
}

/// Starts such a command.
pub(crate) fn spawn(command: ExecCommand, stdout: Stdio) -> anyhow::Result<Exec> {
    let ExecCommand { mut kubectl, reports_success } = command;
    let (reader, writer) = io::pipe()?;
    kubectl.stdout(stdout).stderr(writer);
    let mut kubectl = tokio::process::Command::from(kubectl);
    let child = kubectl.kill_on_drop(true).spawn().context("cannot run kubectl")?;
    Ok(Exec { kubectl: child, stderr: reader, reports_success })
}

/// Waits for the end of the command, and returns its exit code. Errors: kubectl has failed.
pub(crate) async fn end_of(exec: Exec, holds_back: bool) -> anyhow::Result<u8> {
    let Exec { mut kubectl, stderr, reports_success } = exec;
    let (sender, copied) = oneshot::channel();
    std::thread::spawn(move || {
        // Without a receiver, kubectl was killed.
        let _ = sender.send(StderrReport::copy(stderr, EscapedStderr, holds_back));
    });
    let status = kubectl.wait().await?;
    // A helper of kubectl may keep the pipe open.
    let report = timeout(STDERR_TIME, copied).await.ok().and_then(Result::ok).unwrap_or_default();
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    match (report.has_ended, code) {
        (true, Some(code)) => Ok(code),
        (false, Some(0)) if !reports_success => Ok(0),
        // A lost connection: kubectl then exits with 0, as after a success.
        (false, Some(0)) => Err(KubectlError::Api(ApiFailure {
            cause: FailureCause::Away,
            message: "the connection ended before the command".to_owned(),
        })
        .into()),
        _ => Err(KubectlError::Api(ApiFailure::of(&report.own)).into()),
    }
}

/// The stderr of a kubectl, of which its own lines are not printed.
#[derive(Default)]
struct StderrReport {
    /// Whether the command in the pod has ended, with an exit code that kubectl passes on.
    has_ended: bool,
    /// The lines of kubectl.
    own: String,
}

/// The bytes of a line that are read at once; a longer line is copied in parts.
const MAX_LINE: u64 = 64 * 1024;
/// The bytes of lines that may be kubectl's; what follows is copied as the command's.
const MAX_OWN: usize = 64 * 1024;
/// The last bytes of output that are held back.
const MAX_HELD: usize = 256 * 1024;

/// The starts of kubectl's own lines.
const OWN: [&str; 5] = [
    "error: ",
    "Error from server",
    "The connection to the server",
    "Unable to connect",
    "Defaulted",
];

impl StderrReport {
    /// Copies the command lines; with `holds_back`, only at the end and only if it failed.
    fn copy(stderr: impl Read, mut to: impl Write, holds_back: bool) -> Self {
        let mut report = StderrReport::default();
        let mut reader = BufReader::new(stderr);
        let (mut line, mut held) = (Vec::new(), Vec::new());
        let mut has_failed = false;
        while reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|it| it > 0) {
            let text = String::from_utf8_lossy(&line);
            let end = end_of_command(&line);
            if end.is_none() && is_of_kubectl(&text) && report.own.len() < MAX_OWN {
                report.own += &text;
            } else {
                // kubectl prints its own lines last, so the earlier ones were the command's.
                held.extend(std::mem::take(&mut report.own).into_bytes());
                held.extend_from_slice(end.map_or(&*line, |(last, _)| last));
                if let Some((_, code)) = end {
                    report.has_ended = true;
                    has_failed = code != b"0";
                }
                if !holds_back {
                    // Without a stderr the lines are lost.
                    let _ = to.write_all(&std::mem::take(&mut held));
                }
                held.drain(..held.len().saturating_sub(MAX_HELD));
            }
            line.clear();
        }
        if report.has_ended && (has_failed || !holds_back) {
            held.extend_from_slice(report.own.as_bytes());
            let _ = to.write_all(&held);
        }
        report
    }
}

/// Returns the end of the command output and its exit code, if a line has them. Output without a line ending is on
/// the same line.
fn end_of_command(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.windows(ENDED.len()).rposition(|part| part == ENDED.as_bytes())?;
    let (output, end) = line.split_at_checked(at)?;
    let code = end.get(ENDED.len()..)?.trim_ascii();
    let is_code = !code.is_empty() && code.iter().all(u8::is_ascii_digit);
    is_code.then_some((output, code))
}

/// Returns whether a line can be one of kubectl's own, such as `E0102 15:04:05.000000 7 v2.go:168] ..`.
fn is_of_kubectl(line: &str) -> bool {
    let is_log = || {
        let digits = line.strip_prefix(['E', 'W', 'I']).and_then(|rest| rest.get(..5));
        let digits = digits.and_then(|it| it.strip_suffix(' '));
        digits.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit()))
            && line.contains(".go:")
    };
    OWN.iter().any(|start| line.starts_with(start)) || is_log()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_kubectl_are_apart_from_those_of_the_command() {
        let of = |text: &str| {
            let mut copied = Vec::new();
            let report = StderrReport::copy(text.as_bytes(), &mut copied, false);
            (report.has_ended, report.own, String::from_utf8(copied).unwrap())
        };
        let (has_ended, _, copied) =
            of("error: of the command\nmore\nerror: last\ncommand terminated with exit code 0\n");
        assert!(has_ended);
        assert_eq!(copied, "error: of the command\nmore\nerror: last\n", "also after a success");
        let lost = "E1123 22:17:37.126593   19249 v2.go:168] \"Copying stderr failed\" err=\"x\"\n\
            error: error reading from error stream: next reader: websocket: close 1006 (abnormal closure)\n";
        assert_eq!(of(lost), (false, lost.to_owned(), String::new()));
        let missing = "Error from server (NotFound): pods \"x\" not found\n";
        assert_eq!(of(missing), (false, missing.to_owned(), String::new()));
        assert!(of("command terminated with exit code 3\n").0);
        let (has_ended, _, copied) =
            of("error: x\n50 %\u{1b}[?25hcommand terminated with exit code 0\n");
        assert!(has_ended, "after output without a line ending");
        assert_eq!(copied, "error: x\n50 %\u{1b}[?25h");
        assert!(!of("command terminated with exit code \n").0);
        assert!(!of("command terminated with exit code 3, they say\n").0);
        let long = "error: ".to_owned() + &"x".repeat(200_000);
        let (_, own, copied) = of(&long);
        assert_eq!((own.len() + copied.len(), own.len() <= 2 * MAX_OWN), (long.len(), true));
        let of_success = "line\nerror: x\ncommand terminated with exit code 0\n";
        let mut copied = Vec::new();
        StderrReport::copy(of_success.as_bytes(), &mut copied, true);
        assert!(copied.is_empty(), "held back");
    }
}
