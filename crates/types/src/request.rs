//! The request that every frontend produces.

use crate::{ExecId, ToolName};

/// A request to run one tool: well-formed, not yet checked against the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    /// The id for signals to the call.
    pub id: ExecId,
    /// The tool as typed; it becomes `argv[0]`.
    pub tool: ToolName,
    /// The arguments after `argv[0]`: bytes without NUL, possibly empty.
    pub args: Vec<Vec<u8>>,
    /// The current directory in the tools' view; `None` is the workspace root.
    pub cwd: Option<Vec<u8>>,
}
