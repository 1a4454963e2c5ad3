//! The client's side of a result. The pod is not trusted.

use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::git::{Git, PrivateRepository};
use super::header::{Header, PushState, read_chunks};
use super::object_id::ObjectId;
use crate::error::SyncError;

/// A result that was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedResult {
    /// The session branch, then further ones; none if the pod has no commits.
    pub branches: Vec<ReceivedBranch>,
    /// Lines of the pod, with escapes.
    pub notes: Vec<String>,
    /// The outcome of the pod's push.
    pub push: PushState,
}

/// A branch that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedBranch {
    /// Its name, which the client has made.
    pub name: String,
    /// Its name in the pod, with escapes.
    pub name_in_pod: String,
    /// Its commit.
    pub tip: ObjectId,
    /// New commits; `None` if they were not counted.
    pub commits: Option<u64>,
    /// True if the last commit has uncommitted files.
    pub has_uncommitted: bool,
}

const MAX_BYTES: u64 = 2 << 30;

impl ReceivedResult {
    fn of(header: &Header, session: &str) -> Self {
        let branch = |(index, branch): (usize, &super::header::Branch)| ReceivedBranch {
            name: match index {
                0 => format!("aifo/{session}"),
                _ => format!("aifo/{session}.{index}"),
            },
            name_in_pod: aifo_types::escape_line(&branch.name),
            tip: branch.tip.clone(),
            commits: None,
            has_uncommitted: branch.has_uncommitted,
        };
        ReceivedResult {
            branches: header.branches.iter().enumerate().map(branch).collect(),
            notes: header.notes.iter().map(|note| aifo_types::escape_line(note)).collect(),
            push: match &header.push {
                PushState::None => PushState::None,
                PushState::Pushed(url) => PushState::Pushed(aifo_types::escape_line(url)),
                PushState::Failed(why) => PushState::Failed(aifo_types::escape_line(why)),
            },
        }
    }
}

/// Receives a result into a new bare repository, which replaces `repository` when all of it is checked. Without
/// branches nothing is replaced.
pub fn receive_result(
    git: &Git,
    repository: &Path,
    session: &str,
    mut from: impl BufRead + Send,
) -> Result<ReceivedResult, SyncError> {
    let header = Header::read(&mut from)?;
    let mut result = ReceivedResult::of(&header, session);
    if result.branches.is_empty() {
        read_chunks(from, std::io::sink(), 0)?;
        return Ok(result);
    }
    let above = create_parent(repository)?;
    let staging = tempfile::Builder::new().prefix(".receiving-").tempdir_in(above);
    let staging = staging.map_err(SyncError::file("write", above))?;
    let private = PrivateRepository::create(git, staging.path(), header.format)?;
    private.cut_at(&header.shallow)?;
    let limit = format!("--max-input-size={MAX_BYTES}");
    let words = ["index-pack", "--stdin", "--strict", "--threads=1", &limit];
    private.run(
        private.command(words),
        |stdin| read_chunks(from, stdin, MAX_BYTES),
        |stdout| Ok(std::io::copy(&mut stdout.take(4096), &mut std::io::sink())?),
    )?;
    let tips: String = header.branches.iter().map(|it| format!("{}\n", it.tip)).collect();
    // Each object of the branches is there, and each tip is a commit.
    private.output(["rev-list", "--objects", "--quiet", "--stdin"], &tips, 0)?;
    for branch in &mut result.branches {
        let reference = format!("refs/heads/{}", branch.name);
        private.output(["update-ref", &reference, branch.tip.as_str()], "", 0)?;
        let ends = header.shallow.iter().map(|id| format!("^{id}\n"));
        let walk: String = ends.chain([format!("{}\n", branch.tip)]).collect();
        let count = private.output(["rev-list", "--count", "--stdin"], &walk, 64)?;
        branch.commits = String::from_utf8_lossy(&count).trim().parse().ok();
    }
    let head = format!("ref: refs/heads/aifo/{session}\n");
    fs::write(staging.path().join("HEAD"), head).map_err(SyncError::file("write", repository))?;
    replace(staging, repository).map_err(SyncError::file("write", repository))?;
    Ok(result)
}

/// Creates and returns the parent directory of a result, where the new result is staged.
fn create_parent(path: &Path) -> Result<&Path, SyncError> {
    let parent = path.parent().unwrap_or(path);
    let created = DirBuilder::new().recursive(true).mode(0o700).create(parent);
    created.map_err(SyncError::file("create", parent))?;
    Ok(parent)
}

fn replace(staging: tempfile::TempDir, repository: &Path) -> std::io::Result<()> {
    let replaced = tempfile::Builder::new()
        .prefix(".replaced-")
        .tempdir_in(repository.parent().unwrap_or(repository))?;
    if repository.symlink_metadata().is_ok() {
        fs::rename(repository, replaced.path().join("repository"))?;
    }
    fs::rename(staging.path(), repository)?;
    // It has another name now.
    let _ = staging.keep();
    Ok(())
}

/// Receives a result as a bundle of git, whose objects are not checked.
pub fn receive_bundle(
    file: &Path,
    session: &str,
    mut from: impl BufRead,
) -> Result<ReceivedResult, SyncError> {
    let header = Header::read(&mut from)?;
    let result = ReceivedResult::of(&header, session);
    if result.branches.is_empty() {
        read_chunks(from, std::io::sink(), 0)?;
        return Ok(result);
    }
    let above = create_parent(file)?;
    let mut staged =
        tempfile::NamedTempFile::new_in(above).map_err(SyncError::file("write", above))?;
    let mut out = BufWriter::new(staged.as_file_mut());
    out.write_all(bundle_head(&header, &result).as_bytes())?;
    read_chunks(from, &mut out, MAX_BYTES)?;
    out.flush()?;
    drop(out);
    let written: Result<File, _> = staged.persist(file);
    written.map_err(|error| SyncError::file("write", file)(error.error))?;
    Ok(result)
}

/// Returns the lines before the pack: commits that the receiver needs, and branches.
fn bundle_head(header: &Header, result: &ReceivedResult) -> String {
    let format = header.format.name();
    let mut text = match format {
        "sha1" => "# v2 git bundle\n".to_owned(),
        format => format!("# v3 git bundle\n@object-format={format}\n"),
    };
    for id in &header.shallow {
        text += &format!("-{id} start of the session\n");
    }
    for branch in &result.branches {
        text += &format!("{} refs/heads/{}\n", branch.tip, branch.name);
    }
    text + "\n"
}
