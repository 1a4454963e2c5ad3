//! The sessions of `prompt`, saved for `--resume` (`spec/acp-commands.md#resuming`).

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use aifo_host::state_directory;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

/// The latest session with each agent in each directory, the newest last.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedSessions(Vec<SavedSession>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedSession {
    agent: String,
    cwd: PathBuf,
    session: String,
}

const MAX_SESSIONS: usize = 100;
const FILE: &str = "prompt.json";

impl SavedSessions {
    /// Reads the saved sessions; empty if the file cannot be read.
    pub(crate) fn read() -> Self {
        state_directory().and_then(|state| Self::read_from(&state.join(FILE))).unwrap_or_default()
    }

    fn read_from(file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    /// Returns the last session of this agent in this directory.
    pub(crate) fn last(&self, agent: &str, cwd: &Path) -> Option<&str> {
        let is_it = |known: &&SavedSession| known.agent == agent && known.cwd == cwd;
        self.0.iter().rev().find(is_it).map(|known| known.session.as_str())
    }

    /// Adds a session and writes the file.
    pub(crate) fn note(mut self, agent: &str, cwd: &Path, session: &str) -> io::Result<()> {
        let Some(state) = state_directory() else { return Ok(()) };
        self.push(agent, cwd, session);
        DirBuilder::new().recursive(true).mode(0o700).create(&state)?;
        // A rename is atomic; the last writer wins.
        let mut new = NamedTempFile::new_in(&state)?;
        new.write_all(&serde_json::to_vec(&self)?)?;
        new.persist(state.join(FILE))?;
        Ok(())
    }

    fn push(&mut self, agent: &str, cwd: &Path, session: &str) {
        self.0.retain(|known| known.agent != agent || known.cwd != cwd);
        let (agent, cwd, session) = (agent.to_owned(), cwd.to_owned(), session.to_owned());
        self.0.push(SavedSession { agent, cwd, session });
        let surplus = self.0.len().saturating_sub(MAX_SESSIONS);
        self.0.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_session_of_each_agent_in_each_directory() {
        let mut sessions = SavedSessions::default();
        let (here, there) = (Path::new("/here"), Path::new("/there"));
        for (agent, cwd, session) in
            [("a", here, "1"), ("b", here, "2"), ("a", there, "3"), ("a", here, "4")]
        {
            sessions.push(agent, cwd, session);
        }
        let text = serde_json::to_vec(&sessions).unwrap();
        let sessions: SavedSessions = serde_json::from_slice(&text).unwrap();
        assert_eq!(sessions.last("a", here), Some("4"));
        assert_eq!(sessions.last("b", here), Some("2"));
        assert_eq!(sessions.last("a", there), Some("3"));
        assert_eq!(sessions.last("b", there), None);
        assert_eq!(sessions.0.len(), 3);

        let mut sessions = sessions;
        for number in 0..200 {
            sessions.push("c", Path::new(&format!("/{number}")), "s");
        }
        assert_eq!(sessions.0.len(), MAX_SESSIONS);
        assert_eq!(sessions.last("a", here), None, "the oldest are dropped");
    }
}
