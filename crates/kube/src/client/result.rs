//! The result branch of a pod repository, on the client (`spec/kubernetes.md#the-result-branch`).

use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use aifo_host::{short, state_directory};
use aifo_sync::{PushState, ReceivedResult, receive_bundle, receive_result};
use aifo_terminal::console;
use anyhow::Context;

use super::cluster::{CONTAINER, Cluster, PROGRAM};
use super::copy::PodCopy;
use crate::in_pod::workspace::{ENDED, REFERENCES, RESULT, WORKSPACE_IN_POD};

/// Whether the agent has ended: then the pod pushes before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasEnded {
    Yes,
    No,
}

/// The bytes of a line with a digest.
const MAX_DIGEST: u64 = 200;

/// The results of sessions in aifo's state directory.
pub(crate) struct Results(PathBuf);

/// A result that a client has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultFile {
    pub(crate) session: String,
    pub(crate) path: PathBuf,
}

impl Results {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let state = state_directory().context("cannot keep the result: HOME is not set")?;
        Ok(Results(state.join("results")))
    }

    fn repository(&self, session: &str) -> PathBuf {
        self.0.join(format!("{session}.git"))
    }

    fn bundle(&self, session: &str) -> PathBuf {
        self.0.join(format!("{session}.bundle"))
    }

    /// Returns all of them, by session.
    pub(crate) fn all(&self) -> Vec<ResultFile> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let result = |path: PathBuf| {
            let name = path.file_name()?.to_str()?;
            let session = name.strip_suffix(".git").or_else(|| name.strip_suffix(".bundle"))?;
            let session = session.to_owned();
            (!session.starts_with('.')).then_some(ResultFile { session, path })
        };
        let mut all: Vec<_> = entries.filter_map(|entry| result(entry.path())).collect();
        all.sort_by(|one, other| one.path.cmp(&other.path));
        all
    }
}

impl ResultFile {
    /// Returns the command that fetches it.
    pub(crate) fn command(&self) -> String {
        command(&self.path, &format!("aifo/{}", self.session))
    }

    /// Removes it.
    pub(crate) fn remove(&self) -> std::io::Result<()> {
        match self.path.is_dir() {
            true => fs::remove_dir_all(&self.path),
            false => fs::remove_file(&self.path),
        }
    }
}

fn command(path: &Path, branch: &str) -> String {
    let path = path.display().to_string();
    let path = shlex::try_quote(&path).unwrap_or_default();
    // A bundle's objects are not checked yet.
    let check = if path.ends_with(".git") { "" } else { " -c fetch.fsckObjects=true" };
    format!("git{check} fetch {path} {branch}:{branch}")
}

impl Cluster {
    /// Fetches the commits of a session, and reports them.
    pub(crate) fn fetch_result(
        &self,
        session: &str,
        pod: &str,
        (is_clone, has_ended): (bool, HasEnded),
    ) -> anyhow::Result<()> {
        let received = self.receive(session, pod, has_ended)?;
        self.report_result(session, &received, is_clone);
        Ok(())
    }

    /// Prints the branches of a result, and the command that fetches them.
    pub(crate) fn report_result(
        &self,
        session: &str,
        (result, path): &(ReceivedResult, PathBuf),
        is_clone: bool,
    ) {
        report(session, result, path, is_clone);
        if let (Err(why), false) = (&self.git, result.branches.is_empty()) {
            console::say(format_args!("the result is a bundle that is not checked: {why}"));
        }
    }

    /// Returns a digest of the pod's `HEAD` and references; empty without a repository.
    pub(crate) fn references(&self, pod: &str) -> anyhow::Result<String> {
        let words = [PROGRAM, WORKSPACE_IN_POD, REFERENCES];
        let (_, stdout, copy) = PodCopy::start(self.kubectl.exec(pod, CONTAINER, words))?;
        let mut line = String::new();
        let read = stdout.take(MAX_DIGEST).read_to_string(&mut line);
        let read = read.map_err(anyhow::Error::from).and_then(|_| {
            let digest = line.strip_suffix('\n').context("the pod sent no line")?;
            Ok(digest.to_owned())
        });
        copy.finish(read)
    }

    /// Fetches the commits of a session. Returns them, and the path of the repository or bundle.
    pub(crate) fn receive(
        &self,
        session: &str,
        pod: &str,
        has_ended: HasEnded,
    ) -> anyhow::Result<(ReceivedResult, PathBuf)> {
        let is_id = session.len() == 16 && session.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            // It becomes part of a path. Everyone who can create pods can set the label.
            anyhow::bail!("the pod's label has no id of a session");
        }
        let results = Results::open()?;
        let words = [PROGRAM, WORKSPACE_IN_POD, RESULT];
        let ended = (has_ended == HasEnded::Yes).then_some(ENDED);
        let words = words.into_iter().chain(ended);
        let (_, stdout, copy) = PodCopy::start(self.kubectl.exec(pod, CONTAINER, words))?;
        let from = BufReader::with_capacity(256 << 10, stdout);
        let received = match &self.git {
            Ok(git) => {
                let repository = results.repository(session);
                receive_result(git, &repository, session, from).map(|result| (result, repository))
            }
            Err(_) => {
                let bundle = results.bundle(session);
                receive_bundle(&bundle, session, from).map(|result| (result, bundle))
            }
        };
        copy.finish(received.map_err(Into::into))
    }
}

/// Prints the branches of a result, and how the user gets them.
fn report(session: &str, result: &ReceivedResult, path: &Path, is_clone: bool) {
    let id = short(session);
    for note in &result.notes {
        console::say(format_args!("session {id}: {note}"));
    }
    match &result.push {
        PushState::None => {}
        PushState::Pushed(url) => {
            console::say(format_args!("session {id}: pushed aifo/{session} to {url}"));
        }
        PushState::Failed(why) => {
            console::say(format_args!("session {id}: cannot push aifo/{session}: {why}"));
        }
    }
    let Some((first, others)) = result.branches.split_first() else {
        if is_clone {
            console::say(format_args!("session {id} has no new commits and no uncommitted files"));
        }
        return;
    };
    let commits = match first.commits {
        Some(count) => console::counted(usize::try_from(count).unwrap_or(usize::MAX), "commit"),
        None => "commits".to_owned(),
    };
    let files = if first.has_uncommitted { ", the last with the uncommitted files" } else { "" };
    console::say(format_args!("session {id}: {commits} on branch {}{files}", first.name));
    for branch in others {
        console::say(format_args!(
            "session {id}: the branch '{}' of the pod is {}",
            branch.name_in_pod, branch.name
        ));
    }
    console::say(format_args!("fetch it with: {}", command(path, &first.name)));
}
