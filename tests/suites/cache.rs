//! `aifo-coder cache`, and the sharing of local caches. (`container_ops` and `container_isolation`
//! test those of containers.)
//!
//! Proves `spec/cli.md#cache`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{Backend, Outcome, SessionSetup, Tool, can_run};

/// Several projects of one user, whose tools are all `/bin/sh`.
struct Projects(SessionSetup);

/// Each kind, one of its tools, and the variables of its caches.
const KINDS: [(&str, &str, &[&str]); 5] = [
    ("rust", "cargo", &["CARGO_HOME"]),
    ("node", "npm", &["NPM_CONFIG_CACHE", "YARN_CACHE_FOLDER", "PNPM_STORE_PATH", "DENO_DIR"]),
    ("python", "pip", &["PIP_CACHE_DIR", "UV_CACHE_DIR", "PYTHONUSERBASE"]),
    ("go", "go", &["GOPATH", "GOMODCACHE", "GOCACHE"]),
    ("c-cpp", "make", &["CCACHE_DIR"]),
];

impl Projects {
    /// `None` unless sidecars are local.
    fn new() -> Option<Self> {
        if *Backend::chosen() != Backend::Local {
            return None;
        }
        let shell =
            |setup: SessionSetup, tool: &str| setup.tool(tool, Tool::Link("/bin/sh".into()));
        Some(Projects(
            KINDS.iter().fold(SessionSetup::new(), |setup, (_, tool, _)| shell(setup, tool)),
        ))
    }

    /// Sets the scope of caches in the user's configuration.
    fn share(&self, scope: &str) {
        let directory = self.0.scratch().join("home/.config/aifo");
        fs::create_dir_all(&directory).unwrap();
        let text = format!("[containers]\ncaches = '{scope}'\n");
        fs::write(directory.join("config.toml"), text).unwrap();
    }

    fn at(&self, project: &str) -> PathBuf {
        let path = self.0.scratch().join(project);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Runs a script as a tool of a kind in a new session of a project.
    fn run(&self, project: &str, kind: &str, script: &str, switches: &[&str]) -> Outcome {
        let (_, tool, _) = KINDS.iter().find(|(known, ..)| *known == kind).unwrap();
        let script = format!("PATH=/usr/bin:/bin; {script}");
        let mut exec = self.0.coder();
        exec.args(["exec", "--toolchain", kind]).args(switches);
        exec.args(["--", tool, "-c", &script]).current_dir(self.at(project));
        Outcome::of(&mut exec)
    }

    fn cache(&self, args: &[&str]) -> Outcome {
        Outcome::of(self.0.coder().arg("cache").args(args))
    }

    /// The planted files that a project's tools find, in the order of the variables.
    #[track_caller]
    fn found(&self, project: &str, kind: &str) -> String {
        let (_, _, variables) = KINDS.iter().find(|(known, ..)| *known == kind).unwrap();
        let each = variables.iter().map(|name| format!("cat \"${name}/{}/planted\";", below(name)));
        let script = each.collect::<String>() + " true";
        self.run(project, kind, &script, &[]).exited(0).text()
    }

    #[track_caller]
    fn plant(&self, project: &str, kind: &str) -> String {
        let (_, _, variables) = KINDS.iter().find(|(known, ..)| *known == kind).unwrap();
        let each = variables.iter().map(|name| {
            let place = format!("\"${name}\"/{}", below(name));
            format!("mkdir -p {place} && echo {name} > {place}/planted || exit; ")
        });
        self.run(project, kind, &each.collect::<String>(), &[]).exited(0);
        variables.iter().map(|name| format!("{name}\n")).collect()
    }
}

/// The directory of unpacked packages.
fn below(variable: &str) -> &'static str {
    if variable == "CARGO_HOME" { "registry/src" } else { "unpacked" }
}

/// A tool of one project changes its unpacked and compiled caches; another project does not build
/// them.
#[test]
fn a_cache_carries_nothing_between_projects() {
    let Some(projects) = Projects::new() else { return };
    for (kind, ..) in KINDS {
        let planted = projects.plant("one", kind);
        assert_eq!(projects.found("one", kind), planted, "{kind}: it is the project's own");
        assert_eq!(projects.found("another", kind), "", "{kind}");
    }
    // The user may choose that all projects share; then they do.
    projects.share("user");
    let planted = projects.plant("one", "go");
    assert_eq!(projects.found("another", "go"), planted);
    projects.share("project");
    assert_eq!(projects.found("another", "go"), "");
}

#[test]
fn a_linked_worktree_shares_the_caches_of_its_repository_and_a_forged_one_does_not() {
    let Some(projects) = Projects::new() else { return };
    let name = "a_linked_worktree_shares_the_caches_of_its_repository_and_a_forged_one_does_not";
    if !can_run(&format!("cache::{name}"), &["git", "--version"]) {
        return;
    }
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.env("HOME", projects.at("home")).current_dir(projects.at("main")).args([
            "-c",
            "user.name=x",
            "-c",
            "user.email=x@example.org",
        ]);
        Outcome::of(git.args(args)).exited(0);
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "begin"]);
    git(&["worktree", "add", "--quiet", "../linked"]);
    let planted = projects.plant("main", "go");
    assert_eq!(projects.found("linked", "go"), planted);

    // Everything that a tool can write claims that the project is that worktree.
    let forged = projects.at("forged");
    fs::copy(projects.at("linked").join(".git"), forged.join(".git")).unwrap();
    assert_eq!(projects.found("forged", "go"), "");
}

#[test]
fn without_a_cache_all_goes_with_the_session() {
    let Some(projects) = Projects::new() else { return };
    for (kind, _, variables) in KINDS {
        let each = variables.iter().map(|name| format!("echo ${name};"));
        let outcome =
            projects.run("one", kind, &each.collect::<String>(), &["--no-toolchain-cache"]);
        for place in outcome.exited(0).text().lines() {
            let place = Path::new(place);
            assert!(place.starts_with(projects.0.runtime()), "{kind}: {}", place.display());
        }
    }
    assert!(!projects.0.scratch().join("home/.cache").exists());
}

#[test]
fn caches_are_listed_by_their_projects_and_cleared_by_project() {
    let Some(projects) = Projects::new() else { return };
    for project in ["one", "another", "past"] {
        projects.run(project, "go", "true", &[]).exited(0);
    }
    projects.share("user");
    projects.run("one", "go", "true", &[]).exited(0);
    fs::remove_dir(projects.at("past")).unwrap();
    let own = projects.0.scratch().join("home/.cache/aifo");
    fs::create_dir_all(own.join("projects/0123456789abcdef/go")).unwrap();

    let owners = || {
        let text = projects.cache(&["list", "go"]).exited(0).text();
        let rows = text.lines().skip(1).map(|row| {
            let words: Vec<_> = row.split_whitespace().collect();
            let (ends, owner) = ([words[0], words[1]], &words[2..words.len() - 1]);
            assert_eq!(ends, ["go", "local"], "{row}");
            owner.join(" ")
        });
        let mut owners: Vec<String> = rows.collect();
        owners.sort();
        owners.dedup();
        owners
    };
    let at = |project: &str| projects.0.scratch().join(project).display().to_string();
    let unknown = "(unknown project)".to_owned();
    assert_eq!(
        owners(),
        [unknown.clone(), at("another"), at("one"), at("past"), "user".to_owned()]
    );
    let json = projects.cache(&["list", "--json", "go"]).exited(0).text();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let row = rows.iter().find(|row| row["project"] == *at("one")).unwrap();
    assert_eq!((&row["owner"], &row["backend"]), (&"project".into(), &"local".into()));
    let row = rows.last().unwrap();
    assert_eq!((&row["owner"], &row["project"]), (&"user".into(), &serde_json::Value::Null));

    projects.cache(&["clear", "--gone"]).exited(0);
    assert_eq!(owners(), [unknown.clone(), at("another"), at("one"), "user".to_owned()]);
    projects.cache(&["clear", "--project", "--workspace", &at("one")]).exited(0);
    assert_eq!(owners(), [unknown.clone(), at("another"), "user".to_owned()]);
    projects.cache(&["clear", "--user"]).exited(0);
    assert_eq!(owners(), [unknown, at("another")]);
    projects.cache(&["clear", "--user", "--project"]).exited(2);
    projects.cache(&["clear"]).exited(0);
    assert_eq!(projects.cache(&["list"]).exited(0).only_line(), "aifo-coder: no caches found");
    assert_eq!(fs::read_dir(own.join("projects")).unwrap().count(), 0);
}

#[test]
fn caches_are_listed_and_cleared_by_kind() {
    let setup = SessionSetup::new();
    let own = setup.scratch().join("home/.cache/aifo");
    let cache = |args: &[&str]| Outcome::of(setup.coder().arg("cache").args(args));
    assert_eq!(cache(&["list"]).exited(0).only_line(), "aifo-coder: no caches found");

    for dir in ["npm", "pip", "go/pkg/mod/example.org"] {
        fs::create_dir_all(own.join(dir)).unwrap();
    }
    // Read-only, like go's downloads.
    let closed = own.join("go/pkg/mod/example.org");
    fs::write(closed.join("go.mod"), "module x").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();

    let listed = cache(&["list"]).exited(0).text();
    let rows: Vec<Vec<&str>> = listed.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["KIND", "BACKEND", "OWNER", "NAME", "SIZE"]);
    let names: Vec<_> = rows[1..].iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(names, [("go", "local"), ("node", "local"), ("python", "local")], "{listed}");

    let printed = cache(&["clear", "--dry-run", "go"]).exited(0).text();
    assert_eq!(printed, format!("would remove {} (local)\n", own.join("go").display()));
    assert!(closed.is_dir());
    let printed = cache(&["clear", "golang,py"]).exited(0).text();
    assert_eq!(printed.lines().count(), 2, "{printed}");
    assert!(!own.join("go").exists() && !own.join("pip").exists() && own.join("npm").exists());

    let json = cache(&["list", "--json"]).exited(0).text();
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[0]["kind"], "node");
    assert_eq!(rows[0]["size"], serde_json::Value::Null);
    assert_eq!(rows.as_array().unwrap().len(), 1);
}

#[test]
fn an_unknown_kind_is_a_mistake_of_the_command_line() {
    let outcome = Outcome::of(SessionSetup::new().coder().args(["cache", "clear", "rsut"]));
    assert!(outcome.exited(2).stderr.contains("did you mean 'rust'?"), "{outcome:?}");
}
