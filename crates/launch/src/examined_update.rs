//! The update of a ref, examined by the workspace's objects (`spec/forges.md#force`).

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use aifo_forge::{
    CI_PATHS, MAX_FILES, ObjectType, Oid, RefChange, RefUpdate, changed_ci_files, changed_files,
    nearest_ancestor,
};
use aifo_host::repository_below;
use aifo_types::escape_line;
use aifo_workspace::{GitObjects, GitType};

/// Facts that the launcher has verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExaminedUpdate {
    /// The number of commits on the way from the old one, or of a new ref from one that the forge has; `None` if no way is
    /// shown.
    pub(crate) commits: Option<usize>,
    /// Files by which the forge runs commands and that the update changes; if no way is shown, those that it has.
    pub(crate) ci_files: Vec<&'static str>,
    /// Paths that it changes, or the first of them; `None` if they are not known.
    pub(crate) files: Option<Vec<String>>,
}

/// The longest examination. Objects that are not read by then are not known.
const TIME: Duration = Duration::from_secs(5);

impl ExaminedUpdate {
    /// Reads commits and directories of the workspace. `known` are commits that the forge has. Blocks.
    pub(crate) fn of(update: &RefUpdate, known: &HashSet<Oid>, workspace: &Path) -> Self {
        let (root, git) = repository_below(workspace);
        let objects = GitObjects::open(&root, git).ok();
        let begin = Instant::now();
        let mut read = |id: &Oid, expected: ObjectType| {
            let objects = objects.as_ref().filter(|_| begin.elapsed() < TIME)?;
            let (kind, content) = objects.read(id.as_str())?;
            let is_expected = matches!(
                (kind, expected),
                (GitType::Commit, ObjectType::Commit) | (GitType::Tree, ObjectType::Tree)
            );
            is_expected.then_some(content)
        };
        let RefUpdate { old, new, .. } = update;
        let of_old = HashSet::from([old.clone()]);
        let known = match update.change() {
            RefChange::Create => known,
            RefChange::Update => &of_old,
            RefChange::Delete => return ExaminedUpdate::default(),
        };
        let nearest = nearest_ancestor(known, new, &mut read);
        let (base, commits) = nearest.unzip();
        let base = base.as_ref().or((!old.is_zero()).then_some(old));
        let ci_files = changed_ci_files(base, new, &mut read);
        let files = base.and_then(|base| changed_files(base, new, &mut read));
        ExaminedUpdate { commits, ci_files, files }
    }

    /// Returns the changed files as text; `None` if there are none, or they are not known.
    pub(crate) fn files_text(&self) -> Option<String> {
        let files = self.files.as_ref().filter(|files| !files.is_empty())?;
        let named: Vec<_> = files.iter().take(MAX_FILES).map(|path| escape_line(path)).collect();
        let more = if files.len() > MAX_FILES { " and more" } else { "" };
        Some(format!("{}{more}", named.join(", ")))
    }

    /// Returns the files of CI as text; `None` if there are none.
    pub(crate) fn ci_text(&self) -> Option<String> {
        match self.ci_files.as_slice() {
            [] => None,
            all if all.len() == CI_PATHS.len() => {
                Some("unknown, as its files cannot be read".to_owned())
            }
            some => Some(some.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[track_caller]
    fn git(directory: &Path, words: &[&str]) -> (bool, String) {
        let mut git = Command::new("git");
        git.current_dir(directory).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
        let output = git.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn update(old: &str, new: &str) -> RefUpdate {
        let id = |text: &str| Oid::parse(text.as_bytes()).unwrap();
        RefUpdate { old: id(old), new: id(new), name: "refs/heads/x".to_owned() }
    }

    /// Histories of random commits and merges: the answer is that of `git merge-base` on an honest copy, also with forged
    /// commits between.
    #[test]
    fn only_real_descent_is_a_fast_forward() {
        let mut seed = 7_u64;
        let mut draw = |below: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for round in 0..4 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path();
            git(path, &["init", "-q"]);
            let (_, tree) = git(path, &["write-tree"]);
            let mut commits: Vec<String> = Vec::new();
            for number in 0..16 {
                let mut words = vec![
                    "commit-tree".to_owned(),
                    tree.clone(),
                    "-m".to_owned(),
                    number.to_string(),
                ];
                for _ in 0..commits.len().min(draw(3)) {
                    let parent = commits[commits.len() - 1 - draw(commits.len().min(5))].clone();
                    if !words.contains(&parent) {
                        words.extend(["-p".to_owned(), parent]);
                    }
                }
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                commits.push(git(path, &words).1);
            }
            if round % 2 == 1 {
                let all = commits.iter().map(|id| format!("{id}\n")).collect::<String>();
                fs::write(path.join("ids"), all).unwrap();
                let packed = Command::new("sh")
                    .current_dir(path)
                    .args([
                        "-c",
                        "git pack-objects -q .git/objects/pack/pack <ids >/dev/null && git prune-packed",
                    ])
                    .status();
                assert!(packed.unwrap().success());
            }
            let honest = tempfile::tempdir().unwrap();
            let copy = honest.path().join("copy");
            let copied = Command::new("cp").arg("-a").arg(path).arg(&copy).status();
            assert!(copied.unwrap().success());
            // Commits of the workspace get other parents, by their names.
            for _ in 0..round {
                let (victim, parent) = (&commits[draw(16)], &commits[draw(16)]);
                let forged = git(path, &["commit-tree", &tree, "-m", "forged", "-p", parent]).1;
                let file = |id: &str| path.join(".git/objects").join(&id[..2]).join(&id[2..]);
                let _ = fs::remove_file(file(victim));
                let _ = fs::create_dir(file(victim).parent().unwrap());
                fs::copy(file(&forged), file(victim)).unwrap();
            }
            for old in &commits {
                for new in &commits {
                    if old == new {
                        continue;
                    }
                    let is_ancestor = git(&copy, &["merge-base", "--is-ancestor", old, new]).0;
                    let shown = ExaminedUpdate::of(&update(old, new), &HashSet::new(), path)
                        .commits
                        .is_some();
                    assert!(is_ancestor || !shown, "{round}: {old} {new}");
                    assert!(round > 0 || shown == is_ancestor, "{round}: {old} {new}");
                }
            }
        }
    }

    #[test]
    fn a_linked_worktree_has_the_objects_of_its_repository() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let (main, worktree) = (path.join("main"), path.join("worktree"));
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-qm", "first", "--allow-empty"]);
        git(&main, &["worktree", "add", "-q", "../worktree"]);
        let first = git(&worktree, &["rev-parse", "HEAD"]).1;
        git(&worktree, &["commit", "-qm", "second", "--allow-empty"]);
        let second = git(&worktree, &["rev-parse", "HEAD"]).1;
        let examined = ExaminedUpdate::of(&update(&first, &second), &HashSet::new(), &worktree);
        assert_eq!(examined.commits, Some(1));
    }

    #[test]
    fn files_of_ci_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        git(path, &["init", "-q"]);
        let commit = |name: &str, text: &str| {
            fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            fs::write(path.join(name), text).unwrap();
            git(path, &["add", "-A"]);
            git(path, &["commit", "-qm", "x"]);
            git(path, &["rev-parse", "HEAD"]).1
        };
        let first = commit(".github/workflows/a.yml", "a");
        let second = commit("src/main.c", "b");
        let third = commit(".github/workflows/a.yml", "c");
        let none = HashSet::new();
        let of = |old: &str, new: &str| ExaminedUpdate::of(&update(old, new), &none, path);
        let one = |path: &str| ExaminedUpdate {
            commits: Some(1),
            ci_files: vec![],
            files: Some(vec![path.to_owned()]),
        };
        assert_eq!(of(&first, &second), one("src/main.c"));
        assert_eq!(of(&first, &third).files_text().unwrap(), ".github/workflows/a.yml, src/main.c");
        assert_eq!(of(&first, &third).ci_text().as_deref(), Some(".github/workflows"));
        let zero = "0".repeat(40);
        assert_eq!(of(&zero, &second).ci_files, [".github/workflows"]);
        let known = HashSet::from([Oid::parse(first.as_bytes()).unwrap()]);
        let created = ExaminedUpdate::of(&update(&zero, &second), &known, path);
        assert_eq!(created, one("src/main.c"));
        let unknown = of(&"1".repeat(40), &second);
        assert_eq!((unknown.commits, unknown.ci_files.len()), (None, CI_PATHS.len()));
        assert!(unknown.ci_text().unwrap().starts_with("unknown"));
        let elsewhere = ExaminedUpdate::of(&update(&first, &second), &none, Path::new("/nowhere"));
        assert_eq!(elsewhere.commits, None);
    }
}
