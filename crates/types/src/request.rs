//! The waist of the hourglass: what every front door turns its input into.

use crate::{ExecId, ToolName};

/// A request to run one tool, checked but not yet judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecRequest {
    /// The id under which the call can be signalled.
    pub id: ExecId,
    /// The tool, as the agent typed it; it becomes `argv[0]`.
    pub tool: ToolName,
    /// The arguments after `argv[0]`: bytes without NUL, order and emptiness kept.
    pub args: Vec<Vec<u8>>,
    /// The caller's directory as the tools see paths, or `None` for the workspace root.
    pub cwd: Option<Vec<u8>>,
}
