//! The questions of `aifo-coder mailbox`, which has no session (`spec/questions.md#control-socket`).

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use aifo_host::{
    PREFIX, SessionDir, SessionInfo, TMP_SUFFIX, control_socket, new_id, new_session_name,
    runtime_directory,
};
use aifo_proxy::CallApprovals;
use aifo_types::Token;
use tokio::task::JoinSet;

/// A directory like a session's, with a control socket. It is removed on drop.
#[derive(Debug)]
pub struct ProxyQuestions {
    id: String,
    _serving: JoinSet<()>,
    _directory: SessionDir,
}

impl ProxyQuestions {
    /// Serves the control socket. Errors: the directory cannot be created.
    pub fn serve(workspace: &Path, approvals: CallApprovals) -> io::Result<Self> {
        let id = new_id()?;
        let directory = SessionDir::create(runtime_directory().join(format!("{PREFIX}{id}")))?;
        let info = SessionInfo {
            id: id.clone(),
            name: new_session_name("mailbox"),
            pid: std::process::id(),
            workspace: workspace.to_owned(),
            url: String::new(),
            forwarded: String::new(),
            kinds: Vec::new(),
            up: Vec::new(),
            backend: "proxy".to_owned(),
            agent: None,
            name_ports: None,
            tool_stacks: Vec::new(),
            started: SystemTime::now(),
            // It has neither.
            log: PathBuf::from(format!("{id}.jsonl")),
            tmp: PathBuf::from(format!("{PREFIX}{id}{TMP_SUFFIX}")),
            directory: directory.path().to_owned(),
            socket_directory: None,
        };
        let mut serving = JoinSet::new();
        // No process has it.
        let token = Token::from_random(aifo_process::random_bits()?);
        serving.spawn(control_socket::serve(&info, (approvals, None), token)?);
        info.publish_questions()?;
        Ok(ProxyQuestions { id, _serving: serving, _directory: directory })
    }

    /// Returns its id for frontends.
    pub fn id(&self) -> &str {
        &self.id
    }
}
