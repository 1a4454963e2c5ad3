//! `aifo-coder completions` and `aifo-coder man`, tested with the real shells and groff.
//!
//! Proves `spec/cli.md#man`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aifo_tests::{Outcome, SessionSetup, binaries, can_run};

const SHELLS: [&str; 5] = ["bash", "zsh", "fish", "elvish", "powershell"];

/// Writes the completion script to a file; the user has an own agent and kind.
fn script(setup: &SessionSetup, shell: &str) -> PathBuf {
    let dir = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), "[agents.mine]\n[kind.zig]\ntools = [\"zig\"]\n").unwrap();
    let outcome = Outcome::of(setup.coder().args(["completions", shell]));
    assert_eq!(outcome.exited(0).stderr, "");
    let path = setup.scratch().join(shell);
    fs::write(&path, &outcome.stdout).unwrap();
    path
}

/// Writes the script of a shell; `None`, with a report, without the shell.
fn script_of(shell: &str, test: &str) -> Option<(SessionSetup, PathBuf)> {
    let setup = SessionSetup::new();
    can_run(&format!("completions: {test}"), &[shell, "--version"]).then(|| {
        let script = script(&setup, shell);
        (setup, script)
    })
}

/// A PATH with the tested program.
fn path() -> OsString {
    let programs = binaries().coder.parent().unwrap();
    std::env::join_paths([programs, Path::new("/usr/bin"), Path::new("/bin")]).unwrap()
}

/// The typed text, and the candidates; those after `!` must not be offered.
const TYPED: [(&str, &str); 15] = [
    ("aifo-coder st", "stop state !sessions"),
    ("aifo-coder run co", "codex copilot !claude"),
    ("aifo-coder run -q m", "mine"),
    ("aifo-coder prompt ge", "gemini !codex"),
    ("aifo-coder acp --force-share ge", "gemini !codex"),
    ("aifo-coder prompt --yes-to e", "edit execute !gemini"),
    ("aifo-coder run --toolchain ", "auto rust c-cpp zig !codex"),
    ("aifo-coder serve --net ", "names open separate none !shared"),
    ("aifo-coder serve --backend ", "auto docker podman local"),
    ("aifo-coder images build co", "codex copilot !rust"),
    ("aifo-coder images push r.example/team la", "launcher !codex"),
    ("aifo-coder images build --engine ", "docker podman !codex"),
    ("aifo-coder setup ge", "gemini !codex"),
    ("aifo-coder completions ", "bash zsh fish elvish powershell"),
    ("aifo-coder exec --session ", "!bash !README.md"),
];

/// Completes the arguments in bash, as readline does: the registered function, with command, word, and
/// previous word.
const TAB: &str = "source \"$1\"; shift; compopt() { :; }\n\
    registered=$(complete -p aifo-coder) || exit\n\
    function=${registered#*-F }; function=${function%% *}\n\
    COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1))\n\
    $function \"$1\" \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"\n\
    printf '%s\\n' \"${COMPREPLY[@]}\"";

#[track_caller]
fn judge(typed: &str, offered: &str, expected: &str) {
    let offered: Vec<&str> = offered.lines().filter_map(|l| l.split_whitespace().next()).collect();
    for word in expected.split(' ') {
        match word.strip_prefix('!') {
            Some(word) => assert!(!offered.contains(&word), "{typed:?}: {offered:?}"),
            None => assert!(offered.contains(&word), "{typed:?}: {word} is not in {offered:?}"),
        }
    }
}

#[test]
fn bash_completes() {
    let setup = SessionSetup::new();
    let script = script(&setup, "bash");
    for (typed, expected) in TYPED {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", TAB, "bash"]).arg(&script).args(typed.split(' '));
        let outcome = Outcome::of(&mut bash);
        assert_eq!(outcome.exited(0).stderr, "", "{typed:?}");
        judge(typed, &outcome.text(), expected);
    }
}

#[test]
fn session_names_are_completed() {
    let setup = SessionSetup::new();
    let script = script(&setup, "bash");
    let session = setup.start();
    let run = session.scratch().join("run");
    for typed in ["aifo-coder exec --session ", "aifo-coder log ", "aifo-coder clean "] {
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", TAB, "bash"]).arg(&script).args(typed.split(' '));
        bash.env("PATH", path()).env("HOME", session.scratch().join("home"));
        bash.env("XDG_RUNTIME_DIR", &run).env("TMPDIR", &run);
        judge(typed, &Outcome::of(&mut bash).exited(0).text(), "serve-1");
    }
}

#[test]
fn fish_completes() {
    let Some((setup, script)) = script_of("fish", "fish_completes") else { return };
    for (typed, expected) in TYPED {
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]);
        // The script runs `aifo-coder ps`.
        fish.env("HOME", setup.scratch()).env("PATH", path()).arg(&script).arg(typed);
        let outcome = Outcome::of(&mut fish);
        assert_eq!(outcome.exited(0).stderr, "", "{typed:?}");
        judge(typed, &outcome.text(), expected);
    }
}

#[test]
fn zsh_takes_the_script() {
    let Some((_setup, script)) = script_of("zsh", "zsh_takes_the_script") else { return };
    let take = "autoload -Uz compinit; compinit -u -D; source $1; print $_comps[aifo-coder]";
    let mut zsh = Command::new("zsh");
    let outcome = Outcome::of(zsh.args(["-f", "-c", take, "zsh"]).arg(&script));
    assert_eq!((&*outcome.exited(0).text(), &*outcome.stderr), ("_aifo-coder\n", ""));
}

#[test]
fn every_shell_has_a_script_and_no_other() {
    let setup = SessionSetup::new();
    for shell in SHELLS {
        let text = fs::read_to_string(script(&setup, shell)).unwrap();
        assert!(text.contains("force-share") && text.contains("doctor"), "{shell}");
    }
    Outcome::of(setup.coder().args(["completions", "cmd"])).exited(2);
}

#[test]
fn a_broken_file_of_the_users_breaks_no_shell() {
    let setup = SessionSetup::new();
    let dir = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("config.toml"), "agents =").unwrap();
    let outcome = Outcome::of(setup.coder().args(["completions", "bash"]));
    assert_eq!(outcome.exited(0).stderr, "");
    assert!(outcome.text().contains(" codex "));
}

/// The generated pages.
fn pages(setup: &SessionSetup) -> Vec<PathBuf> {
    let dir = setup.scratch().join("share/man1");
    Outcome::of(setup.coder().arg("man").arg(&dir)).exited(0);
    let pages = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    pages.collect()
}

#[test]
fn every_command_has_a_manual_page() {
    let pages = pages(&SessionSetup::new());
    let has = |name: &str| pages.iter().any(|page| page.ends_with(name));
    for name in ["aifo-coder.1", "aifo-coder-run.1", "aifo-coder-cache-clear.1"] {
        assert!(has(name), "{name}: {pages:?}");
    }
}

#[test]
fn the_pages_render_without_a_warning() {
    if !can_run("completions: the_pages_render_without_a_warning", &["groff", "--version"]) {
        return;
    }
    let setup = SessionSetup::new();
    let rendered = |page: &Path| {
        let mut groff = Command::new("groff");
        let outcome = Outcome::of(groff.args(["-man", "-Tascii", "-wall", "-P-cbou"]).arg(page));
        assert_eq!(outcome.exited(0).stderr, "", "{}", page.display());
        outcome.text()
    };
    for page in pages(&setup) {
        let text = rendered(&page);
        assert!(text.contains("SYNOPSIS"), "{}", page.display());
        if page.ends_with("aifo-coder-run.1") {
            assert!(text.contains("aifo-coder run [OPTIONS] AGENT [ARGS].."), "{text}");
        }
    }
}
