//! A forge: git of an agent in a container fetches and pushes without the user's credential
//! (`spec/forges.md#forges`, `spec/forges.md#tools`, `spec/forges.md#questions`).

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::container_keys::census;
use aifo_tests::{
    ContainerSetup, Engine, Outcome, Running, Signal, WITH_GIT, binaries, eventually,
    write_executable,
};

pub(crate) const TOKEN: &str = "forge-token-0123456789abcdef";

/// `git:` and the token, as in a header.
const BASE64: &str = "Z2l0OmZvcmdlLXRva2VuLTAxMjM0NTY3ODlhYmNkZWY=";

const RULES: &str = "[[rule]]\npush = 'refs/heads/aifo/*'\ncreate = true\nupdate = true\nthen = 'allow'\n\
    [[rule]]\npush = 'refs/tags/*'\ncreate = true\nthen = 'deny'\nbecause = 'no releases'\n";

/// A server with the repositories `o/r` and `o/secret`.
pub(crate) struct Forge {
    server: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Drop for Forge {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Forge {
    pub(crate) fn start() -> Forge {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("server.py");
        fs::write(&script, include_str!("container_forge/server.py")).unwrap();
        for name in ["o/r", "o/secret"] {
            let path = directory.path().join(format!("{name}.git"));
            git(directory.path(), &["init", "-q", "--bare", "-b", "main", path.to_str().unwrap()]);
            git(&path, &["config", "http.receivepack", "true"]);
        }
        let mut server = Command::new("python3");
        server.arg(&script).arg(directory.path()).args(["git", TOKEN]).stdout(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Forge { server, port: line.trim().parse().unwrap(), directory }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The directory of a repository.
    pub(crate) fn repository(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.git"))
    }

    /// The refs of the repository.
    pub(crate) fn refs(&self) -> Vec<String> {
        let path = self.repository("o/r");
        let text = git(&path, &["for-each-ref", "--format=%(refname)"]);
        text.lines().map(str::to_owned).collect()
    }
}

/// git of the user.
#[track_caller]
pub(crate) fn git(directory: &Path, words: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=u", "-c", "user.email=u@x"]).current_dir(directory).args(words);
    Outcome::of(&mut git).exited(0).text()
}

/// A workspace with a commit at the forge, and the user's settings.
fn world(engine: &Engine, forge: &Forge) -> ContainerSetup {
    let containers = ContainerSetup::of(engine);
    let setup = containers.setup();
    let workspace = setup.workspace();
    git(&workspace, &["init", "-q", "-b", "main"]);
    git(&workspace, &["commit", "-qm", "first", "--allow-empty"]);
    let bare = forge.repository("o/r");
    git(&workspace, &["push", "-q", bare.to_str().unwrap(), "main"]);
    git(&workspace, &["remote", "add", "origin", &format!("{}/o/r.git", forge.url())]);
    let config = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    write_executable(setup.scratch().join("token"), TOKEN, 0o600);
    let (url, file) = (forge.url(), setup.scratch().join("token"));
    let text = format!(
        "{RULES}[ask]\ntimeout_secs = 100\n[services.work]\nurl = \"{url}\"\nfile = \"{}\"\n",
        file.display()
    );
    fs::write(config.join("config.toml"), text).unwrap();
    containers
}

/// A `python3` of the project's in a sidecar with git: it runs shell scripts.
fn with_tool(containers: ContainerSetup) -> ContainerSetup {
    let containers = containers.kind_from("python", WITH_GIT);
    let python = containers.setup().workspace().join(".venv/bin/python3");
    fs::create_dir_all(python.parent().unwrap()).unwrap();
    write_executable(python, "#!/bin/sh\nexec sh \"$@\"\n", 0o755);
    containers
}

/// A session whose agent is this script.
fn run(containers: &ContainerSetup, script: &str, options: &[&str]) -> Command {
    let agent = containers.setup().workspace().join("agent");
    let head = "#!/bin/bash\nexport GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x";
    write_executable(&agent, format!("{head}\n{script}\n"), 0o755);
    let mut run = containers.command("run");
    run.args(options).args(["--image", WITH_GIT, "--"]).arg(agent);
    run
}

fn approve(scratch: &Path, args: &[&str]) -> Outcome {
    let mut approve = Command::new(&binaries().coder);
    approve.env_clear().env("HOME", scratch.join("home")).env("TMPDIR", scratch.join("run"));
    approve.env("XDG_RUNTIME_DIR", scratch.join("run")).arg("approve").args(args);
    Outcome::of(&mut approve)
}

/// Waits for a question, answers it, and returns its text.
#[track_caller]
fn answer(scratch: &Path, option: &str) -> String {
    let mut listed = String::new();
    eventually("a push waits", || {
        listed = approve(scratch, &[]).text();
        listed.starts_with('q')
    });
    approve(scratch, &["--answer", listed.split(' ').next().unwrap(), option]).exited(0);
    listed
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn git_pushes_with_an_answer_and_without_the_credential() {
    let Some(engine) = Engine::with_git("git_pushes_with_an_answer_and_without_the_credential")
    else {
        return;
    };
    let forge = Forge::start();
    let containers = world(&engine, &forge);
    let scratch = containers.setup().scratch().to_owned();
    let script = "env; git config --list; git fetch -q origin || exit 3
        git commit -qm more --allow-empty; git push -q origin HEAD:refs/heads/topic || exit 4
        git commit -qm more --allow-empty; git push -q origin HEAD:refs/heads/topic || exit 5
        git push origin HEAD:main 2>&1 && exit 6
        git ls-remote http://127.0.0.1:18460/o/secret 2>&1 && exit 7
        git push -q origin HEAD:refs/heads/aifo/own || exit 8
        git push origin HEAD:refs/tags/v1 2>&1 && exit 9
        exit 0";
    let mut agent = run(&containers, script, &[]);
    let running = Running::start(&mut agent);
    let asked = answer(&scratch, "session");
    let words = format!("push 127.0.0.1:{}/o/r refs/heads/topic\n", forge.port);
    assert!(
        asked.contains(&words) && asked.contains("creates refs/heads/topic with 1 commit at "),
        "{asked}"
    );
    assert!(!asked.contains("PUBLIC"), "{asked}");
    // The second push of what the session wrote needs no answer.
    let asked = answer(&scratch, "deny");
    assert!(asked.contains("moves refs/heads/main forward by 2 commits from "), "{asked}");
    let outcome = running.finish();
    let text = outcome.exited(0).text();
    assert!(text.contains("remote: aifo: ") && text.contains("[remote rejected]"), "{text}");
    assert!(text.contains("'o/secret' is none of the project's remotes"), "{text}");
    assert!(!text.contains(TOKEN) && text.contains("GIT_CONFIG_COUNT="), "{text}");
    assert!(text.contains("denied by rule") && text.contains("no releases"), "{text}");
    assert_eq!(forge.refs(), ["refs/heads/aifo/own", "refs/heads/main", "refs/heads/topic"]);
    let log = &outcome.stderr;
    assert!(log.contains("git gets through to work ("), "{log}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_forge_is_served_for_the_projects_remotes_and_in_its_network() {
    let test = "a_forge_is_served_for_the_projects_remotes_and_in_its_network";
    let Some(engine) = Engine::with_git(test) else { return };
    let forge = Forge::start();
    let containers = world(&engine, &forge);
    let check = |options: &[&str], is_served: bool| {
        let mut run = run(&containers, "env", options);
        let outcome = Outcome::of(&mut run);
        let text = outcome.exited(0).text();
        let has = (text.contains("insteadOf"), outcome.stderr.contains("git gets through"));
        assert_eq!(has, (is_served, is_served), "{options:?} {outcome:?}");
    };
    check(&[], true);
    check(&["--keys", "pass"], false);
    check(&["--net", "none"], false);
    // Without a source, what git's credential helpers have.
    let home = containers.setup().scratch().join("home");
    let config = home.join(".config/aifo/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let without: String =
        text.lines().filter(|line| !line.starts_with("file")).collect::<Vec<_>>().join("\n");
    fs::write(&config, &without).unwrap();
    check(&[], false);
    fs::write(home.join(".gitconfig"), "[credential]\n\thelper = store\n").unwrap();
    let stored = forge.url().replace("//", &format!("//git:{TOKEN}@"));
    fs::write(home.join(".git-credentials"), format!("{stored}\n")).unwrap();
    check(&[], true);
    let mut fetch = run(&containers, "git ls-remote origin", &[]);
    assert!(Outcome::of(&mut fetch).exited(0).text().contains("refs/heads/main"));
    git(&containers.setup().workspace(), &["remote", "remove", "origin"]);
    check(&[], false);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn tools_fetch_and_do_not_push() {
    let Some(engine) = Engine::with_git("tools_fetch_and_do_not_push") else { return };
    let forge = Forge::start();
    let containers = with_tool(world(&engine, &forge));
    let in_tool = "git ls-remote origin || exit 3
        git push origin HEAD:refs/heads/aifo/own 2>&1 && exit 4
        ! env | grep -q '^GH_' || exit 5
        exit 0";
    write_executable(containers.setup().workspace().join("tool.sh"), in_tool, 0o755);
    let script = "git fetch -q origin || exit 6; python3 tool.sh";
    let mut agent = run(&containers, script, &[]);
    let outcome = Outcome::of(&mut agent);
    let text = outcome.exited(0).text();
    assert!(text.contains("refs/heads/main") && text.contains("a tool only fetches"), "{text}");
    assert!(!text.contains(TOKEN), "{text}");
    assert_eq!(forge.refs(), ["refs/heads/main"]);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_census_does_not_find_the_credential() {
    let test = "a_census_does_not_find_the_credential";
    let Some(engine) = Engine::with_git(test) else { return };
    if !fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        return drop(writeln!(
            std::io::stderr(),
            "skipped: {test}: only root reads the memory of containers"
        ));
    }
    let forge = Forge::start();
    let containers = with_tool(world(&engine, &forge));
    let workspace = containers.setup().workspace();
    // The file of the user's own has it.
    let scratch = containers.setup().scratch().to_owned();
    let config = scratch.join("home/.config/aifo/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    let with_env =
        |line: &str| if line.starts_with("file") { "env = 'FORGE_TOKEN'" } else { line }.to_owned();
    let text = text.lines().map(with_env).collect::<Vec<_>>().join("\n");
    fs::write(&config, text).unwrap();
    fs::remove_file(scratch.join("token")).unwrap();
    let tool = "git fetch -q origin && echo ready > ready; sleep 600";
    write_executable(workspace.join("tool.sh"), tool, 0o755);
    let script = "git fetch -q origin || exit 3; git commit -qm more --allow-empty
        git push -q origin HEAD:refs/heads/aifo/own || exit 4
        git push -q origin HEAD:refs/tags/v1; git ls-remote http://127.0.0.1:18460/o/secret
        python3 tool.sh & wait";
    let session = Running::start(run(&containers, script, &[]).env("FORGE_TOKEN", TOKEN));
    eventually("agent and tool have worked", || workspace.join("ready").exists());
    let found = census::places(&engine, &containers, TOKEN.as_bytes());
    assert_eq!(found, [""; 0], "the credential is in these places");
    let found = census::places(&engine, &containers, BASE64.as_bytes());
    assert_eq!(found, [""; 0], "the credential is in these places");
    // The census finds what is there.
    let found = census::places(&engine, &containers, b"127.0.0.1:18460/.extraHeader");
    assert!(found.iter().any(|place| place.contains("environ")), "{found:?}");
    assert_eq!(forge.refs(), ["refs/heads/aifo/own", "refs/heads/main"]);
    session.signal(Signal::SIGTERM);
    session.finish();
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn gh_works_by_the_projects_forge_and_without_the_credential() {
    let test = "gh_works_by_the_projects_forge_and_without_the_credential";
    let Some(engine) = Engine::with_git(test) else { return };
    let Ok(gh) = fs::read("/usr/bin/gh") else {
        return drop(writeln!(std::io::stderr(), "skipped: {test}: no gh"));
    };
    let forge = Forge::start();
    let containers = world(&engine, &forge);
    let scratch = containers.setup().scratch().to_owned();
    write_executable(containers.setup().workspace().join("gh"), gh, 0o755);
    let config = scratch.join("home/.config/aifo/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, format!("{text}form = 'github'\n")).unwrap();
    let script = "export HOME=/tmp; env; git switch -qc topic; git commit -qm more --allow-empty
        git push -q origin HEAD:refs/heads/aifo/topic || exit 3
        git push -q http://127.0.0.1:18460/o/r HEAD:refs/heads/aifo/second || exit 4
        ./gh pr create --title t --body b --head aifo/topic --base main || exit 5
        git push -q origin HEAD:refs/heads/topic || exit 6
        ./gh pr checkout 1 --branch again || exit 7
        ./gh api repos/o/r || exit 8
        ./gh api repos/o/secret && exit 9
        ./gh repo clone o/r elsewhere || exit 10
        exit 0";
    let mut agent = run(&containers, script, &[]);
    let running = Running::start(&mut agent);
    let asked = answer(&scratch, "session");
    let words = format!("forge 127.0.0.1:{}/o/r \"creates a pull request\"", forge.port);
    assert!(asked.contains(&words) && asked.contains("\"title\":\"t\""), "{asked}");
    let asked = answer(&scratch, "once");
    assert!(asked.contains("creates refs/heads/topic"), "{asked}");
    let outcome = running.finish();
    let text = outcome.exited(0).text();
    assert!(text.contains("/o/r/pull/1") && text.contains("from the API"), "{text}");
    assert!(text.contains("'o/secret' is none of the project's remotes"), "{text}");
    assert!(!text.contains(TOKEN) && text.contains("GH_HOST=127.0.0.1"), "{text}");
}
