//! The files of a workspace, for an agent that asks its client for them.

mod read;
mod write;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aifo_acp::{RpcError, code};
use serde_json::{Value, json};

use self::read::Slice;
use crate::rpc::{error, invalid, text};
use crate::workspace::Workspace;

/// Says whether a file may be served: how, at the path that its agent names, and where it really lies
/// beneath the workspace. An error is the reason that the agent reads. It is asked again whenever more is
/// known of where that is.
pub type FileJudge = Arc<dyn Fn(Access, &str, &Path) -> Result<(), String> + Send + Sync>;

/// What is done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is read.
    Read,
    /// It is written.
    Write,
}

/// Serves `fs/read_text_file` and `fs/write_text_file` (`spec/acp-hosts.md`).
///
/// Both block for as long as the disk takes.
pub struct Files {
    workspace: Arc<Workspace>,
    missing: MissingFile,
    writing: Writing,
    limits: FileLimits,
    judge: FileJudge,
}

/// What an agent gets that reads a file which is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingFile {
    /// The error that the protocol has for it.
    #[default]
    Error,
    /// An empty text. Some agents read what they want to make, and take no error for a no.
    Empty,
}

/// Whether files may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// They may.
    Served,
    /// Nobody serves that.
    Refused,
}

/// How much of a file travels at once; all in bytes.
#[derive(Clone, Copy, Debug)]
pub struct FileLimits {
    /// What is read by one request. A line of the protocol takes 16 MiB.
    pub read: usize,
    /// What is looked through for the first line that was asked for: a file may pretend to be of
    /// any length.
    pub skipped: u64,
    /// What is written by one request.
    pub write: usize,
}

impl Files {
    /// For agents whose profile has this word on missing files.
    pub fn new(workspace: Arc<Workspace>, missing: MissingFile, writing: Writing) -> Self {
        Self::with_limits(workspace, missing, writing, FileLimits::default())
    }

    /// With other limits.
    pub fn with_limits(
        workspace: Arc<Workspace>,
        missing: MissingFile,
        writing: Writing,
        limits: FileLimits,
    ) -> Self {
        Files { workspace, missing, writing, limits, judge: Arc::new(|_, _, _| Ok(())) }
    }

    /// Serves only what is not refused.
    pub fn judged(self, judge: FileJudge) -> Self {
        Files { judge, ..self }
    }

    /// `fs/read_text_file`: `path`, and maybe `line` and `limit`; gives `content`.
    pub fn read(&self, params: &Value) -> Result<Value, RpcError> {
        let path = text(params, "path")?;
        let slice = Slice::parse(params)?;
        let beneath = self.workspace.beneath(path)?;
        let judge = |real: &Path| self.check(Access::Read, path, real);
        match read::read(&self.workspace, path, beneath, slice, &self.limits, judge) {
            Err(error) if error.code == code::NOT_FOUND && self.missing == MissingFile::Empty => {
                Ok(json!({"content": ""}))
            }
            content => Ok(json!({"content": content?})),
        }
    }

    /// `fs/write_text_file`: `path` and `content`; gives an empty object once all of it is there.
    pub fn write(&self, params: &Value) -> Result<Value, RpcError> {
        if self.writing == Writing::Refused {
            return Err(error(code::METHOD_NOT_FOUND, "files are not written here"));
        }
        let path = text(params, "path")?;
        let content = text(params, "content")?;
        let beneath = self.workspace.beneath(path)?;
        let judge = |real: &Path| self.check(Access::Write, path, real);
        write::write(&self.workspace, path, beneath, content.as_bytes(), &self.limits, judge)?;
        Ok(json!({}))
    }

    fn check(&self, access: Access, path: &str, real: &Path) -> Result<(), RpcError> {
        (self.judge)(access, path, real).map_err(|why| invalid(format!("'{path}': {why}")))
    }
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Files { workspace, missing, writing, limits, .. } = self;
        f.debug_struct("Files")
            .field("workspace", workspace)
            .field("missing", missing)
            .field("writing", writing)
            .field("limits", limits)
            .finish_non_exhaustive()
    }
}

impl Default for FileLimits {
    fn default() -> Self {
        FileLimits { read: 10 * MIB, skipped: 1 << 30, write: 50 * MIB }
    }
}

const MIB: usize = 1 << 20;
