//! Names of sessions that people type, such as `codex-1`, and the session that a command line means
//! (`spec/cli.md#which-session`).

use std::path::{Path, PathBuf};

use crate::running::{SessionInfo, asking_sessions};
use crate::session_logs::SessionLog;

/// The longest part of a name before its number, in bytes.
const MAX_PROGRAM: usize = 24;

/// Returns the name of a new session: its agent or program, and the smallest number that no running session
/// with this program has.
///
/// Two sessions that start in the same instant may get the same name; a command then lists both.
pub fn new_session_name(program: &str) -> String {
    let taken: Vec<String> = asking_sessions().into_iter().map(|session| session.name).collect();
    free_name(program, &taken)
}

fn free_name(program: &str, taken: &[String]) -> String {
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let program: String = program.chars().filter(|c| usable(*c)).take(MAX_PROGRAM).collect();
    let program = if program.is_empty() { "session" } else { &program };
    let mut names = (1u32..).map(|number| format!("{program}-{number}"));
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

/// A session that a command line may mean.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: String,
    /// Its name; empty if it is not known.
    pub name: String,
    /// Its workspace; empty if it is not known.
    pub workspace: PathBuf,
}

impl From<&SessionInfo> for Candidate {
    fn from(SessionInfo { id, name, workspace, .. }: &SessionInfo) -> Self {
        Candidate { id: id.clone(), name: name.clone(), workspace: workspace.clone() }
    }
}

impl From<&SessionLog> for Candidate {
    fn from(SessionLog { id, name, workspace, .. }: &SessionLog) -> Self {
        Candidate { id: id.clone(), name: name.clone(), workspace: workspace.clone() }
    }
}

/// Returns the indices of the sessions that are meant: by their name, else by the beginning of their id, else by that
/// of their name. If nothing is given, those whose workspace has the directory `here`, of nested ones the
/// innermost; else all.
pub fn sessions_meant(given: Option<&str>, here: &Path, of: &[Candidate]) -> Vec<usize> {
    let those = |is_meant: &dyn Fn(&Candidate) -> bool| -> Vec<usize> {
        (0..of.len()).filter(|at| of.get(*at).is_some_and(is_meant)).collect()
    };
    let steps = match given.filter(|given| !given.is_empty()) {
        Some(given) => vec![
            those(&|it| it.name == given),
            those(&|it| it.id.starts_with(given)),
            those(&|it| it.name.starts_with(given)),
        ],
        None => {
            let depth = |it: &Candidate| {
                let has = !it.workspace.as_os_str().is_empty() && here.starts_with(&it.workspace);
                has.then(|| it.workspace.components().count())
            };
            let deepest = of.iter().filter_map(depth).max();
            vec![those(&|it| deepest.is_some() && depth(it) == deepest), those(&|_| true)]
        }
    };
    steps.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_free_number() {
        let taken = ["codex-1", "codex-3", "bash-1"].map(str::to_owned);
        let rows = [
            ("codex", "codex-2"),
            ("bash", "bash-2"),
            ("claude", "claude-1"),
            ("", "session-1"),
            ("a b/\u{1b}[é", "ab-1"),
            ("a-very-long-name-of-a-program", "a-very-long-name-of-a-pr-1"),
        ];
        for (program, expected) in rows {
            assert_eq!(free_name(program, &taken), expected);
        }
    }

    #[test]
    fn a_session_by_name_by_id_or_by_the_directory() {
        let candidate = |id: &str, name: &str, workspace: &str| Candidate {
            id: id.to_owned(),
            name: name.to_owned(),
            workspace: workspace.into(),
        };
        let all = [
            candidate("5d0c", "codex-1", "/p/a"),
            candidate("5d1f", "codex-2", "/p/b"),
            candidate("a000", "bash-1", "/p/a/inner"),
            candidate("b000", "", ""),
            candidate("c000", "codex-10", "/p/b"),
        ];
        let by = |given, here: &str| sessions_meant(given, Path::new(here), &all);
        assert_eq!(by(Some("codex-1"), "/"), [0], "a whole name");
        assert_eq!(by(Some("5d1"), "/"), [1]);
        assert_eq!(by(Some("5d"), "/p/a"), [0, 1]);
        assert_eq!(by(Some("bash"), "/"), [2]);
        assert_eq!(by(Some("x"), "/p/a"), [0usize; 0]);
        assert_eq!(by(None, "/p/a/src"), [0]);
        assert_eq!(by(None, "/p/a/inner/src"), [2], "the innermost");
        assert_eq!(by(None, "/p/b"), [1, 4]);
        assert_eq!(by(None, "/p/abc"), [0, 1, 2, 3, 4]);
        assert_eq!(by(Some(""), "/p/a"), [0]);
        assert_eq!(sessions_meant(None, Path::new("/"), &[]), [0usize; 0]);
    }
}
