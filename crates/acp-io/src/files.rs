//! The host's methods for files of the workspace.

mod limits;
mod read;
mod write;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aifo_acp::{RpcError, code};
use serde_json::{Value, json};

pub use self::limits::FileLimits;
use self::read::Slice;
use crate::rpc::{error, invalid, text};
use crate::workspace::Workspace;

/// Decides whether a file may be served, by access, the agent path and the real path below the
/// workspace. Called again when more of the real path is known. The error text is for the agent.
pub type FileJudge = Arc<dyn Fn(Access, &str, &Path) -> Result<(), String> + Send + Sync>;

/// The access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// Serves `fs/read_text_file` and `fs/write_text_file` (`spec/acp-hosts.md`).
///
/// Both methods block on file I/O.
pub struct Files {
    workspace: Arc<Workspace>,
    missing: MissingFile,
    writing: Writing,
    limits: FileLimits,
    judge: FileJudge,
}

/// The response for reading a missing file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingFile {
    /// The protocol's error.
    #[default]
    Error,
    /// An empty text. Some agents read a file before they create it, and fail on an error.
    Empty,
}

/// Selects whether `fs/write_text_file` is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Served.
    Served,
    /// Not served.
    Refused,
}

impl Files {
    /// Creates the host with this response for missing files.
    pub fn new(workspace: Arc<Workspace>, missing: MissingFile, writing: Writing) -> Self {
        Self::with_limits(workspace, missing, writing, FileLimits::default())
    }

    /// Creates the host with other limits.
    pub fn with_limits(
        workspace: Arc<Workspace>,
        missing: MissingFile,
        writing: Writing,
        limits: FileLimits,
    ) -> Self {
        Files { workspace, missing, writing, limits, judge: Arc::new(|_, _, _| Ok(())) }
    }

    /// Adds a check of every access.
    pub fn with_judge(self, judge: FileJudge) -> Self {
        Files { judge, ..self }
    }

    /// Serves `fs/read_text_file`: `path`, optionally `line` and `limit`. Returns `content`.
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

    /// Serves `fs/write_text_file`: `path` and `content`. Returns an empty object when all is
    /// written.
    pub fn write(&self, params: &Value) -> Result<Value, RpcError> {
        if self.writing == Writing::Refused {
            return Err(error(code::METHOD_NOT_FOUND, "writing files is not supported"));
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
