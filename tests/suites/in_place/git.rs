//! The machine's git, with and without a shim.

use std::fs;
use std::path::PathBuf;

use aifo_tests::{Outcome, SessionSetup, Tool, program};

use super::agent;

/// A setup whose agent has the machine's programs behind git's shim, with an identity; `None` without git.
fn setup() -> Option<SessionSetup> {
    let git = program("git")?;
    let mut setup = SessionSetup::new().tool("git", Tool::Link(git));
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", setup.tools().display());
    setup = setup.env("PATH", &path).env("GIT_CONFIG_NOSYSTEM", "1");
    let config = "[user]\nname = A\nemail = a@example.invalid\n[init]\ndefaultBranch = main\n\
                  [alias]\nst = status --short\nsh = !git rev-parse --show-toplevel\n";
    fs::write(setup.scratch().join("home/.gitconfig"), config).unwrap();
    Some(setup)
}

/// Runs a script twice, with and without a shim for git, in an empty workspace.
#[track_caller]
fn check(script: &str) -> String {
    let setup = setup().expect("checked by the caller");
    let mut results = Vec::new();
    for rules in ["default_rules = true", "default_rules = false"] {
        let workspace: PathBuf = setup.workspace();
        fs::remove_dir_all(&workspace).unwrap();
        fs::create_dir(&workspace).unwrap();
        let directory = setup.scratch().join("home/.config/aifo");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.toml"), rules).unwrap();
        let outcome = Outcome::of(&mut agent(&setup, script));
        let text = format!("{}{}{:?}", outcome.text(), outcome.stderr, outcome.code());
        results.push(text);
    }
    assert_eq!(results[0], results[1]);
    results.remove(0)
}

/// The variables make commits the same in both runs.
const INIT: &str = "export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'; \
                    git init -q .; echo a > a; git add a; git commit -q -m first; ";

#[test]
fn aliases_hooks_editors_and_pagers() {
    if program("git").is_none() {
        return;
    }
    let script = format!(
        "{INIT} \
         echo b > a; git st; git sh; git -c alias.x='log --oneline' x; \
         printf '#!/bin/sh\\ngit rev-parse --abbrev-ref HEAD; git diff --cached --name-only\\n' > .git/hooks/pre-commit; \
         chmod +x .git/hooks/pre-commit; git commit -a -m second; \
         GIT_EDITOR='sh -c \"git rev-parse HEAD > \\$0.x; echo edited > \\$0\"' git commit --amend; \
         git -c core.pager='sed s/^/P:/' -p log --format=%s; \
         git rebase -q --exec 'git log -1 --format=%s' HEAD~1; \
         git for-each-ref | git cat-file --batch-check; GIT_TRACE=0 git no-such-command; echo $?; \
         git submodule foreach 'git status'; git stash list; git -C .git rev-parse --git-dir"
    );
    let text = check(&script);
    assert!(text.contains("edited") && text.contains("Executing: git log"), "{text}");
}

#[test]
fn scripts_subcommands_and_helpers() {
    if program("git").is_none() {
        return;
    }
    let script = format!(
        "{INIT} mkdir bin; printf '#!/bin/sh\\necho sub \"$@\"; git rev-parse HEAD\\n' > bin/git-foo; chmod +x bin/git-foo; \
         PATH=$PATH:$PWD/bin; git foo 1 2; \
         git config credential.helper '!f() {{ git rev-parse --is-inside-work-tree >&2; echo username=u; echo password=p; }}; f'; \
         printf 'protocol=https\\nhost=h\\n\\n' | git credential fill; \
         sh -c 'git log --format=%H | while read h; do git show -s --format=%s $h; done'; \
         printf a | git hash-object --stdin; git ls-files -z | xargs -0 git log --format=%s --; \
         git clone -q . ../workspace/c; git -C c remote -v | sed s,/.*/,, ; \
         git --exec-path=/nonexistent foo; echo $?; (cd .git && git rev-parse --is-bare-repository)"
    );
    let text = check(&script);
    assert!(text.contains("sub 1 2") && text.contains("password=p"), "{text}");
}
