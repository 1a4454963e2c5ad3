//! Calls that an agent makes for itself, such as those of its snapshots (`spec/log.md#calls-of-the-agent-itself`).

/// Classes, and the beginnings of their calls without the options of git itself.
const CLASSES: &[(&str, &[&str])] = &[
    (
        "repository queries",
        &[
            "git branch --show-current",
            "git cat-file",
            "git check-ignore",
            "git config --get",
            "git config get",
            "git for-each-ref",
            "git ls-files",
            "git ls-tree",
            "git merge-base",
            "git name-rev",
            "git remote",
            "git remote -v",
            "git remote get-url",
            "git rev-list",
            "git rev-parse",
            "git show-ref",
            "git status --porcelain",
            "git status --porcelain=v2",
            "git symbolic-ref",
            "git var",
            "git version",
            "git worktree list",
        ],
    ),
    (
        SNAPSHOTS,
        &[
            "git checkout-index",
            "git commit-tree",
            "git hash-object",
            "git read-tree",
            "git update-index",
            "git update-ref",
            "git write-tree",
        ],
    ),
];

const SNAPSHOTS: &str = "snapshots";

/// Options of git before its command that have a value as the next word.
const WITH_VALUE: [&str; 6] =
    ["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"];

/// Returns the class of a call in place that is no work for the user; `argv` is as logged. A call that is not
/// recognised has none.
pub(crate) fn plumbing_class(tool: &str, argv: &str) -> Option<&'static str> {
    let mut words = argv.split(' ').peekable();
    let mut command = vec![tool];
    while let Some(option) = words.next_if(|word| word.starts_with('-')) {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if option == "--version" => return (tool == "git").then_some(CLASSES[0].0),
            None if WITH_VALUE.contains(&option) => (option, words.next()),
            None => (option, None),
        };
        // A repository beside the project's own.
        if name == "--git-dir" && !value.unwrap_or_default().trim_end_matches('/').ends_with(".git")
        {
            return Some(SNAPSHOTS);
        }
    }
    command.extend(words);
    let is_of = |row: &&str| {
        let row: Vec<&str> = row.split(' ').collect();
        match row[..] {
            // Without arguments it lists; with others it changes something.
            ["git", "remote"] | ["git", "remote", "-v"] => command == row,
            _ => command.starts_with(&row),
        }
    };
    let found = CLASSES.iter().find(|(_, rows)| rows.iter().any(is_of));
    found.map(|(class, _)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_an_agent_for_itself() {
        let rows = [
            ("rev-parse --show-toplevel", Some("repository queries")),
            ("--no-pager -C /workspace rev-parse HEAD", Some("repository queries")),
            ("-c core.quotepath=false status --porcelain=v2 -z", Some("repository queries")),
            ("status --porcelain", Some("repository queries")),
            ("status", None),
            ("--version", Some("repository queries")),
            ("remote -v", Some("repository queries")),
            ("remote add origin x", None),
            ("remote", Some("repository queries")),
            (
                "--git-dir /home/me/.local/share/agent/snapshot/1 --work-tree . add .",
                Some(SNAPSHOTS),
            ),
            ("--git-dir=/home/me/history/2 commit -m x", Some(SNAPSHOTS)),
            ("--git-dir .git commit -m x", None),
            ("--git-dir=/workspace/.git/ push", None),
            ("write-tree", Some(SNAPSHOTS)),
            ("commit -m 'rev-parse'", None),
            ("push --force", None),
            ("", None),
        ];
        for (argv, expected) in rows {
            assert_eq!(plumbing_class("git", argv), expected, "git {argv}");
        }
        assert_eq!(plumbing_class("gh", "rev-parse"), None);
        assert_eq!(plumbing_class("gh", "--version"), None);
    }
}
