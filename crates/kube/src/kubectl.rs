//! The user's kubectl (`spec/kubernetes.md#kubectl`).

mod context;
mod failure;
mod preferences;
mod rights;
mod version;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use aifo_engine::{MissingProgram, Program, Programs};
use preferences::Preferences;
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, sleep},
};
use version::ClientVersion;

pub use context::KubeContext;
pub use failure::{ApiFailure, FailureCause};

/// The oldest minor version of kubectl 1 that can be used: `exec` without a terminal passes the exit
/// code, and `create --dry-run=server` exists.
pub const MIN_KUBECTL_MINOR: u32 = 20;
/// The time for which a command is repeated while the API server does not answer.
pub const RETRY_TIME: Duration = Duration::from_secs(60);
/// The pause before a repetition.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The time of one request. Streams have none.
const REQUEST_TIMEOUT: &str = "--request-timeout=20s";

/// The cluster and namespace of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeTarget {
    /// A context of the kubeconfig; `None` for the current one.
    pub context: Option<String>,
    /// The namespace; `None` for that of the context.
    pub namespace: Option<String>,
    /// The kubeconfig; `None` for that of KUBECONFIG, else `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
}

impl KubeTarget {
    /// Returns the options of kubectl that select it.
    pub fn options(&self) -> Vec<OsString> {
        let option = |name: &str, value: &OsStr| {
            let mut option = OsString::from(name);
            option.push(value);
            option
        };
        let context = self.context.iter().map(|it| option("--context=", it.as_ref()));
        let namespace = self.namespace.iter().map(|it| option("--namespace=", it.as_ref()));
        let file = self.kubeconfig.iter().map(|it| option("--kubeconfig=", it.as_ref()));
        context.chain(namespace).chain(file).collect()
    }
}

/// A kubectl of a supported version, and the cluster and namespace of its commands.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: Program,
    version: String,
    preferences: Preferences,
    target: KubeTarget,
}

/// Why a command of kubectl failed.
#[derive(Debug, thiserror::Error)]
pub enum KubectlError {
    /// PATH has no kubectl.
    #[error(
        "kubectl is not installed\n\
         hint: install kubectl 1.{MIN_KUBECTL_MINOR} or later, or run the session in containers: \
         --backend docker or podman"
    )]
    Missing,
    /// Every kubectl in PATH is untrusted.
    #[error(
        "cannot start kubectl: '{}' is not a trusted program: {why}\n\
         hint: install kubectl where only you or root can write, or correct PATH",
        file.display()
    )]
    Untrusted {
        /// The first of them.
        file: PathBuf,
        /// Why it is not trusted.
        why: &'static str,
    },
    /// It is too old.
    #[error(
        "kubectl is {found}, but 1.{MIN_KUBECTL_MINOR} or later is needed\n\
         hint: install a newer kubectl"
    )]
    Old {
        /// Its version.
        found: String,
    },
    /// It prints no version.
    #[error("'{} version --client -o json' prints no version: {output}", file.display())]
    NoVersion {
        /// The program.
        file: PathBuf,
        /// The start of its output.
        output: String,
    },
    /// The user's preferences restrict credential plugins, and cannot be read.
    #[error(
        "cannot read the rules for credential plugins of '{}': {output}\n\
         hint: correct the file; see: kubectl kuberc view",
        file.display()
    )]
    Preferences {
        /// The file.
        file: PathBuf,
        /// The start of kubectl's message.
        output: String,
    },
    /// It could not be started or read.
    #[error("cannot run kubectl: {0}")]
    Io(#[from] io::Error),
    /// It failed.
    #[error(transparent)]
    Api(#[from] ApiFailure),
}

impl KubectlError {
    /// Returns the cause of a failed command.
    pub fn cause(&self) -> Option<FailureCause> {
        match self {
            KubectlError::Api(failure) => Some(failure.cause),
            _ => None,
        }
    }
}

impl Kubectl {
    /// Finds a trusted kubectl, and checks its version. No cluster is contacted.
    pub async fn find(programs: &impl Programs, target: KubeTarget) -> Result<Self, KubectlError> {
        let program = programs.find("kubectl").map_err(|missing| match missing {
            MissingProgram::Absent => KubectlError::Missing,
            MissingProgram::Untrusted { file, why } => KubectlError::Untrusted { file, why },
        })?;
        let mut command = plain_command(&program);
        Preferences::default().apply(&mut command);
        command.args(["version", "--client", "--output=json"]).stdin(Stdio::null());
        let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
        let found = ClientVersion::parse(&output.stdout).ok_or_else(|| {
            let text = match output.stdout.is_empty() {
                true => &output.stderr,
                false => &output.stdout,
            };
            let output = String::from_utf8_lossy(text).trim().chars().take(200).collect();
            KubectlError::NoVersion { file: program.file.clone(), output }
        })?;
        if !found.is_supported() {
            return Err(KubectlError::Old { found: found.text });
        }
        let preferences = Preferences::of_user(&program, &found).await?;
        Ok(Kubectl { program, version: found.text, preferences, target })
    }

    /// Returns its path.
    pub fn file(&self) -> &Path {
        &self.program.file
    }

    /// Returns its version, such as `v1.30.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the cluster and namespace of its commands.
    pub fn target(&self) -> &KubeTarget {
        &self.target
    }

    /// Returns a command with these arguments, for a caller that passes its own descriptors.
    pub fn command<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> std::process::Command {
        let mut command = plain_command(&self.program);
        self.preferences.apply(&mut command);
        command.args(self.target.options()).args(args);
        command
    }

    /// Returns the command that runs a program in a pod container, with stdin. It has no terminal.
    pub fn exec<S: AsRef<OsStr>>(
        &self,
        pod: &str,
        container: &str,
        words: impl IntoIterator<Item = S>,
    ) -> std::process::Command {
        let mut command = self.command(["exec", "--stdin", pod, "--container", container, "--"]);
        command.args(words);
        command
    }

    /// Runs a command once, with `input` as its stdin, and returns its stdout.
    pub async fn output(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>, KubectlError> {
        Ok(self.answer(args, input).await?.stdout)
    }

    async fn answer(&self, args: &[&str], input: &[u8]) -> Result<KubectlAnswer, KubectlError> {
        let mut command = self.command([REQUEST_TIMEOUT]);
        command.args(args);
        captured(command, input).await
    }

    /// Runs a program in a pod container, with `input` as its stdin, and returns its stdout.
    pub async fn exec_output(
        &self,
        pod: &str,
        container: &str,
        words: &[&str],
        input: &[u8],
    ) -> Result<Vec<u8>, KubectlError> {
        Ok(captured(self.exec(pod, container, words), input).await?.stdout)
    }

    /// Runs a command like [`output`](Kubectl::output), again for [`RETRY_TIME`] while the API server does
    /// not answer. `waits` gets the failure before the first repetition.
    pub async fn output_retried(
        &self,
        args: &[&str],
        input: &[u8],
        waits: impl FnMut(&ApiFailure),
    ) -> Result<Vec<u8>, KubectlError> {
        Ok(self.answer_retried(args, input, waits).await?.stdout)
    }

    /// Runs a command like [`output_retried`](Kubectl::output_retried), and returns its warnings too.
    pub async fn answer_retried(
        &self,
        args: &[&str],
        input: &[u8],
        mut waits: impl FnMut(&ApiFailure),
    ) -> Result<KubectlAnswer, KubectlError> {
        let deadline = Instant::now() + RETRY_TIME;
        let mut is_first = true;
        loop {
            match self.answer(args, input).await {
                Err(KubectlError::Api(failure))
                    if failure.cause == FailureCause::Away && Instant::now() < deadline =>
                {
                    if std::mem::take(&mut is_first) {
                        waits(&failure);
                    }
                    sleep(RETRY_PAUSE).await;
                }
                ended => return ended,
            }
        }
    }

    /// Starts a command whose stdout is read as it comes. It is killed when the child is dropped.
    pub fn stream(&self, args: &[&str]) -> io::Result<tokio::process::Child> {
        let mut command = self.command(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        tokio::process::Command::from(command).kill_on_drop(true).spawn()
    }
}

fn plain_command(program: &Program) -> std::process::Command {
    let mut command = std::process::Command::new(&program.file);
    command.env("PATH", &program.path);
    command
}

/// The output of a command that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubectlAnswer {
    /// Its stdout.
    pub stdout: Vec<u8>,
    stderr: String,
}

impl KubectlAnswer {
    /// Returns the warnings of the API server.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.stderr.lines().filter_map(|line| line.strip_prefix("Warning: "))
    }
}

/// Runs a command to its end. Errors: its stderr.
async fn captured(
    command: std::process::Command,
    input: &[u8],
) -> Result<KubectlAnswer, KubectlError> {
    let output = completed(command, input).await?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(KubectlAnswer { stdout: output.stdout, stderr }),
        false => Err(ApiFailure::of(&stderr).into()),
    }
}

/// Runs a command to its end.
async fn completed(command: std::process::Command, input: &[u8]) -> io::Result<Output> {
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn()?;
    let mut stdin = child.stdin.take();
    let write = async {
        if let Some(stdin) = &mut stdin {
            // A command that has failed reads no more; its stderr has the reason.
            let _ = stdin.write_all(input).await;
        }
        drop(stdin.take());
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), write);
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn options_select_the_cluster() {
        let target = KubeTarget {
            context: Some("c".into()),
            namespace: Some("n".into()),
            kubeconfig: Some("/k".into()),
        };
        assert_eq!(target.options(), ["--context=c", "--namespace=n", "--kubeconfig=/k"]);
        assert_eq!(KubeTarget::default().options(), [""; 0]);
    }

    /// Finds a program of a temporary directory.
    struct Fake(PathBuf);

    impl Programs for Fake {
        fn find(&self, name: &str) -> Result<Program, MissingProgram> {
            let path = std::env::var_os("PATH").unwrap_or_default();
            Ok(Program { file: self.0.join(name), path })
        }
    }

    const SCRIPT: &str = r#"#!/bin/sh
case "$*" in
version*) echo '{"clientVersion":{"gitVersion":"v1.30.1"}}' ;;
*"get away"*) echo x >> "$0.count"; test $(wc -l < "$0.count") -ge 3 && exec echo back
    echo 'The connection to the server 10.0.0.1:6443 was refused - did you specify the right host or port?' >&2; exit 1 ;;
*"get pods"*) echo 'Unable to connect: no' >&2; exit 1 ;;
*) echo "$@"; cat ;;
esac
"#;

    #[tokio::test]
    async fn commands_get_the_target_and_are_repeated_while_the_server_is_away() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubectl");
        fs::write(&file, SCRIPT).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        let target = KubeTarget { namespace: Some("team".into()), ..KubeTarget::default() };
        let kubectl = Kubectl::find(&Fake(directory.path().into()), target).await.unwrap();
        let output = kubectl.output(&["create", "-f", "-"], b"kind: Pod").await.unwrap();
        let text = "--namespace=team --request-timeout=20s create -f -\nkind: Pod";
        assert_eq!(String::from_utf8(output).unwrap(), text);
        let output = kubectl.exec_output("p", "aifo", &["x", "-y"], b"").await.unwrap();
        assert_eq!(output, b"--namespace=team exec --stdin p --container aifo -- x -y\n");

        let error = kubectl.output(&["get", "pods"], b"").await.unwrap_err();
        assert_eq!(error.cause(), Some(FailureCause::Other));
        let mut waited = Vec::new();
        let output =
            kubectl.output_retried(&["get", "away"], b"", |it| waited.push(it.cause)).await;
        assert_eq!(output.unwrap(), b"back\n");
        assert_eq!(waited, [FailureCause::Away], "the first failure is reported once");
    }
}
