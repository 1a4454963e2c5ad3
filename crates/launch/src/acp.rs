//! Agents of a session that speak the Agent Client Protocol: what they are served, and who decides their requests.

mod agent;
mod editor;
mod judge;
mod own_commands;
mod profile;
mod prompt;
mod questions;

pub use self::agent::{AcpAgent, AcpError, AcpRequest};
pub use self::editor::{BridgeEnd, serve_editor};
pub use self::judge::{JudgedPermission, PermissionJudge};
pub use self::own_commands::own_commands;
pub use self::profile::{process_limits, streaming};
pub use self::prompt::{PromptEnd, PromptRequest, PromptRun, PromptView, describe};
