//! This machine outside of containers: aifo's directories, the records of sessions, their logs and
//! control sockets, the programs that may be started, and the project in a workspace.
//!
//! In scope: directories that are locked while their session runs, and what killed sessions left; the
//! log of calls and messages; questions over a control socket; [`TrustedPrograms`]; the toolchains and
//! versions that a project needs; users, certificates and git's settings of this machine.
//!
//! Out of scope: networks by name (`aifo-network`), agents (`aifo-agents`), and the start of sessions
//! (`aifo-launch`).
//!
//! ```
//! use aifo_host::{TrustedPrograms, running_sessions};
//!
//! for session in running_sessions() {
//!     println!("{} works in {}", session.id, session.workspace.display());
//!     for tool in session.running_tools() {
//!         println!("  {}", tool.tool);
//!     }
//! }
//! // A program that the project files cannot have replaced.
//! let programs = TrustedPrograms::for_workspace(".".as_ref(), &[]);
//! assert!(programs.program("sh").is_ok());
//! ```
//!
//! Architecture invariant: every path and record that an agent or another user may have written is
//! checked when it is read, and directories are opened without following links out of them.

mod beneath;
pub mod call_log;
mod call_stats;
mod certificates;
mod claim;
mod cleanup;
mod control_client;
pub mod control_socket;
mod detect;
mod devcontainer;
mod end_signals;
mod git;
mod held;
mod history;
mod id_prefix;
pub mod identity;
mod killed;
mod linked;
pub mod log_file;
mod own_directories;
mod pod;
mod private_directory;
mod project;
mod remove_tree;
mod repository;
mod running;
mod session_dir;
mod session_logs;
mod session_name;
mod shim_binary;
mod sockets;
mod toolchain;
mod trusted;
mod user_command;
mod user_program;
mod versions;
mod workspace_access;
pub mod workspace_check;

pub use beneath::{Beneath, Found, Stamp};
pub use call_log::{
    CallLogReader, CallLogRetention, LoggedLine, LoggedMessage, LoggedRecord, MessageLevel,
    MessageLog, log_directory,
};
pub use call_stats::{CallCounter, CallStats};
pub use certificates::{CERTIFICATE_VARIABLES, extended_system_bundle, own_certificates};
pub use cleanup::{CleanupReport, Leftover, Leftovers, RemoveError, find_leftovers};
pub use control_client::{
    AnswerSender, ControlClient, ControlError, ControlLine, EndedQuestion, ListedQuestion,
};
pub use detect::detect_kinds;
pub use devcontainer::Devcontainer;
pub use end_signals::EndSignals;
pub use held::{HeldDirectory, HeldRecord, HeldSession, HeldState, held_sessions};
pub use history::{HistorySettings, SessionHistory, history_store};
pub use id_prefix::{ELSEWHERE, PrefixError, short, the_one};
pub use identity::git_identity;
pub use killed::{KilledSession, RemovedSessions, killed_sessions, remove_killed_sessions};
pub use linked::{linked_repository, repository_below};
pub use own_directories::{home, state_directory, states_directory};
pub use pod::{PodError, PodSession};
pub use private_directory::{DirectoryError, create_private_directory};
pub use project::{CacheScope, Project, record_session, recorded_root};
pub use remove_tree::remove_tree;
pub use repository::{default_workspace, exclude};
pub use running::{
    RUNNING_TABLE, SessionInfo, asking_sessions, in_order, running_sessions, update_record,
};
pub use session_dir::{
    PREFIX, SessionDir, TMP_SUFFIX, new_id, runtime_directory, temporary_directory,
};
pub use session_logs::{SessionLog, session_logs};
pub use session_name::{Candidate, new_session_name, sessions_meant};
pub use shim_binary::{ShimBinary, ShimBinaryError};
pub use sockets::{listening_below, sockets_below};
pub use toolchain::{Toolchain, Version, VersionSource};
pub use trusted::TrustedPrograms;
pub use user_command::user_command;
pub use user_program::UserProgram;
pub use versions::{ProjectVersion, project_version};
pub use workspace_access::WorkspaceAccess;
pub use workspace_check::{
    CheckedWorkspace, WorkspaceError, check_shim, is_system_directory, real_directory,
};
