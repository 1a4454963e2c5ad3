//! Rules on the requests of agents (`spec/rules.md#requests`).

use std::path::{Path, PathBuf};

use aifo_policy::{
    AccessRequest, Judge, Judgement, RequestedCommand, RuleOrigin, RuleText, Verdict,
};

fn rule(text: &str) -> RuleText {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns a judge with these rules, the lines of each separated by `;`.
fn judge(rules: &[&str]) -> Judge {
    let named = |text: &&str| (rule(&text.replace("; ", "\n")), (*text).to_owned());
    let mut judge = Judge::default();
    let rules: Vec<_> = rules.iter().map(named).collect();
    judge.add(&rules, RuleOrigin::User).unwrap_or_else(|error| panic!("{rules:?}: {error:?}"));
    judge
}

/// Judges `kind | command | paths`.
fn judged(judge: &Judge, request: &str) -> Judgement {
    let parts: Vec<&str> = request.split(" | ").map(str::trim).collect();
    let [kind, command, paths] = parts[..] else { panic!("{request}") };
    let command = (!command.is_empty()).then(|| RequestedCommand::Text(command.to_owned()));
    let paths: Vec<&str> = paths.split_whitespace().collect();
    of(judge, kind, command.as_ref(), &paths)
}

fn of(judge: &Judge, kind: &str, command: Option<&RequestedCommand>, paths: &[&str]) -> Judgement {
    let workspace = [PathBuf::from("/w"), PathBuf::from("/workspace")];
    let cwd = Path::new("/w");
    judge.judge_request(&AccessRequest { kind, command, paths, workspace: &workspace, cwd })
}

const CARGO_TEST: &str = "kind = '*'; run = 'cargo test'; exact = true; then = 'allow'";
const SRC: &str =
    "kind = ['read', 'edit', 'delete', 'move', 'search']; path = 'src'; then = 'allow'";

#[test]
fn an_allowing_rule_covers_every_path_and_the_command() {
    let make_in_src = "kind = '*'; run = 'make'; path = 'src'; exact = true; then = 'allow'";
    let rows = [
        ("kind = 'read'; then = 'allow'", "read |  | /etc/passwd", true),
        ("kind = 'read'; then = 'allow'", "edit |  | a", false),
        ("kind = 'read'; then = 'allow'", "read | cat x | x", false),
        ("kind = 'fetch'; then = 'allow'", "fetch | curl x | ", false),
        ("kind = 'execute'; then = 'allow'", "execute | a && b | ", true),
        ("kind = 'execute'; then = 'allow'", "execute | $X | ", true),
        ("kind = 'other'; then = 'allow'", " | make | ", true),
        ("kind = 'other'; then = 'allow'", " |  | ", true),
        ("kind = 'brand_new'; then = 'allow'", "brand_new |  | ", true),
        ("kind = '*'; then = 'allow'", " |  | ", true),
        (CARGO_TEST, "execute | cargo  'test' | ", true),
        (CARGO_TEST, "execute | bash -lc 'cargo test' | ", true),
        (CARGO_TEST, "execute | cargo test; x | ", false),
        (CARGO_TEST, "execute | cargo test > x | ", false),
        (CARGO_TEST, "execute | cargo test | ", true),
        (CARGO_TEST, "execute | cargo test --all | ", false),
        (CARGO_TEST, "execute | cargo | ", false),
        (CARGO_TEST, "execute |  | ", false),
        (CARGO_TEST, "read | cargo test | ", true),
        (SRC, "edit |  | src/a /workspace/src/b", true),
        (SRC, "edit |  | src/a .git/config", false),
        (SRC, "edit |  | src/../.git/config", false),
        (SRC, "edit |  | ", false),
        (SRC, "edit |  | src/a ~/a", false),
        (SRC, "execute |  | src/a", false),
        (SRC, "execute | rm -rf . | src/a", false),
        (SRC, "read | cat x | src/a", false),
        (SRC, "brand_new |  | src/a", false),
        (make_in_src, "execute | make | src", true),
        (make_in_src, "execute | make | src lib", false),
        ("kind = 'edit'; path = ['src', 'lib']; then = 'allow'", "edit |  | src/a lib/b", true),
        ("kind = 'edit'; path = 'src'; then = 'allow'", "delete |  | src/a", false),
    ];
    for (rule, request, is_allowed) in rows {
        let judge = judge(&[rule, "kind = '*'; then = 'deny'"]);
        // Of two rules on everything the stricter one decides.
        let is_allowed = is_allowed && !rule.starts_with("kind = '*'; then");
        let expected = if is_allowed { Verdict::Allow } else { Verdict::Deny };
        assert_eq!(judged(&judge, request).verdict, expected, "{rule}: {request}");
    }
}

#[test]
fn a_rule_that_asks_or_denies_needs_one_path_or_command() {
    let rows = [
        ("path = '.git'", "edit |  | src/a .git/config", true),
        ("path = '.git'", "execute | git gc | /workspace/.git", true),
        ("path = '.git'", "edit |  | .gitignore", false),
        ("path = '.git'", "edit |  | ", false),
        ("kind = '*'; run = ['rm', '-rf', '/']; exact = true", "execute | rm -rf / | ", true),
        (
            "kind = '*'; run = ['rm', '-rf', '/']; exact = true",
            "execute | cd x && rm -rf / | ",
            true,
        ),
        (
            "kind = '*'; run = ['rm', '-rf', '/']; exact = true",
            "execute | sh -c 'x; rm -rf /' | ",
            true,
        ),
        ("kind = '*'; run = ['rm', '-rf', '/']; exact = true", "execute | rm -fr -- / | ", true),
        ("kind = '*'; run = ['rm', '-rf', '/']; exact = true", "execute | rm -rf /x | ", false),
        ("kind = 'delete'", "delete |  | a", true),
        ("kind = 'edit'; path = '.git'", "read |  | .git/a", false),
    ];
    for (rule, request, is_held) in rows {
        let allow = "kind = '*'; then = 'allow'";
        let denying = judge(&[&format!("{rule}; then = 'deny'"), allow]);
        let expected = if is_held { Verdict::Deny } else { Verdict::Allow };
        assert_eq!(judged(&denying, request).verdict, expected, "{rule}: {request}");
        let asking = judge(&[&format!("{rule}; then = 'ask'"), allow]);
        let expected = if is_held { Verdict::Ask } else { Verdict::Allow };
        assert_eq!(judged(&asking, request).verdict, expected, "{rule}: {request}");
    }
}

#[test]
fn the_largest_rule_decides_and_a_denial_is_absolute() {
    let edit = "kind = 'edit'; then = 'allow'";
    let rows: [(&[&str], &str, Verdict); 14] = [
        (&[], "edit |  | a", Verdict::Ask),
        (&["kind = '*'; then = 'deny'"], "edit |  | a", Verdict::Deny),
        (&["kind = '*'; then = 'deny'", edit], "edit |  | a", Verdict::Allow),
        (&["kind = '*'; then = 'ask'", edit], "edit |  | a", Verdict::Allow),
        (&["kind = 'edit'; then = 'ask'", edit], "edit |  | a", Verdict::Ask),
        (&["path = '.git'; then = 'ask'", edit], "edit |  | .git/a", Verdict::Ask),
        (
            &["kind = 'edit'; then = 'ask'", "kind = 'edit'; path = 'src'; then = 'allow'"],
            "edit |  | src/a",
            Verdict::Allow,
        ),
        (
            &["kind = 'edit'; then = 'deny'", "kind = 'edit'; path = 'src'; then = 'allow'"],
            "edit |  | src/a",
            Verdict::Deny,
        ),
        (
            &["kind = 'execute'; then = 'ask'", CARGO_TEST],
            "execute | cargo test | ",
            Verdict::Allow,
        ),
        (
            &["kind = 'execute'; then = 'deny'", CARGO_TEST],
            "execute | cargo test | ",
            Verdict::Deny,
        ),
        (
            &["kind = '*'; run = 'rm'; then = 'ask'", "kind = 'execute'; then = 'allow'"],
            "execute | ls; rm x | ",
            Verdict::Ask,
        ),
        // A question about one command is no answer to a denial of all others.
        (
            &["kind = '*'; then = 'deny'", "kind = '*'; run = 'rm'; then = 'ask'"],
            "execute | env rm x | ",
            Verdict::Deny,
        ),
        (
            &["kind = '*'; then = 'deny'", "kind = '*'; run = 'rm'; then = 'ask'"],
            "execute | rm x | ",
            Verdict::Ask,
        ),
        // A rule on calls allows no request.
        (&["run = 'cargo test'; then = 'allow'"], "execute | cargo test | ", Verdict::Ask),
    ];
    for (rules, request, expected) in rows {
        assert_eq!(judged(&judge(rules), request).verdict, expected, "{rules:?}: {request}");
    }
}

#[test]
fn each_simple_command_surely_needs_a_rule() {
    let rules = [
        "kind = 'execute'; run = ['cargo', ['test', 'check']]; without = ['--config']; then = 'allow'",
        "kind = 'execute'; run = 'cd'; outside = true; then = 'deny'",
        "kind = 'execute'; run = ['cd', 'x']; then = 'allow'",
        "kind = 'execute'; run = 'tail'; then = 'allow'",
        "kind = 'execute'; run = './build.sh'; then = 'allow'",
    ];
    let rows = [
        ("cargo test --all", true),
        ("cargo t", true),
        ("cd x && cargo test 2>&1 | tail -n 20", true),
        ("bash -lc 'cd x && cargo check'", true),
        ("cargo test > /dev/null", true),
        ("for i in 1 2; do cargo test; done", true),
        ("./build.sh x", true),
        ("build.sh x", false),
        ("/tmp/build.sh x", false),
        ("cargo test --config x", false),
        ("cargo test $X", false),
        ("cargo test *", false),
        ("cargo $X", false),
        ("cargo test > log", false),
        ("cargo test < x", false),
        ("cargo test <<E\nx\nE", false),
        ("RUSTC_WRAPPER=x cargo test", false),
        ("export X=1; cargo test", false),
        ("cargo test; cargo run", false),
        ("cargo test $(x)", false),
        ("cargo test <(x)", false),
        ("eval 'cargo test'", false),
        ("env cargo test", false),
        ("sudo cargo test", false),
        ("xargs cargo test", false),
        ("/usr/bin/cargo test", false),
        ("./cargo test", false),
        ("=cargo test", false),
        ("sh -ec 'cargo test'", false),
        ("/tmp/sh -c 'cargo test'", false),
        ("cargo test; $X", false),
        ("cargo() { rm x; }; cargo test", false),
        ("alias cargo=rm; cargo test", false),
        ("cargo 'test", false),
        ("", false),
    ];
    let judge = judge(&rules);
    for (text, is_allowed) in rows {
        let expected = if is_allowed { Verdict::Allow } else { Verdict::Ask };
        let command = RequestedCommand::Text(text.to_owned());
        assert_eq!(of(&judge, "execute", Some(&command), &[]).verdict, expected, "{text}");
    }
    let several = RequestedCommand::AnyOf(vec!["cargo test".to_owned(), "cargo check".to_owned()]);
    assert_eq!(of(&judge, "execute", Some(&several), &[]).verdict, Verdict::Ask);
}

/// Checks whether `make CC=gcc` is all of a command, and whether it is a part.
#[track_caller]
fn check(command: &RequestedCommand, is: bool, has: bool) {
    let make = "kind = '*'; run = 'make CC=gcc'; exact = true";
    let allowing = judge(&[&format!("{make}; then = 'allow'")]);
    let denying = judge(&[&format!("{make}; then = 'deny'"), "kind = '*'; then = 'allow'"]);
    let allowed = of(&allowing, "execute", Some(command), &[]).verdict == Verdict::Allow;
    let denied = of(&denying, "execute", Some(command), &[]).verdict == Verdict::Deny;
    assert_eq!((allowed, denied), (is, has), "{command:?}");
}

fn text(text: &str) -> RequestedCommand {
    RequestedCommand::Text(text.to_owned())
}

fn words(words: &[&str]) -> RequestedCommand {
    RequestedCommand::Words(words.iter().map(|word| (*word).to_owned()).collect())
}

#[test]
fn a_text_and_words_are_one_command() {
    for line in ["make CC=gcc", "  make  'CC=gcc' ", "make CC=\"gcc\"", "ma\\ke CC=gcc"] {
        check(&text(line), true, true);
    }
    check(&words(&["make", "CC=gcc"]), true, true);
    check(&words(&["make CC=gcc"]), false, false);
    for line in ["make", "make CC=gcc x", "make CC=gccx", "make CC gcc", "CC=gcc make", ""] {
        check(&text(line), false, false);
    }
    for line in ["/usr/bin/make CC=gcc", "./make CC=gcc"] {
        check(&text(line), false, true);
    }
}

#[test]
fn a_shell_that_runs_one_command_is_that_command() {
    let options: [&[&str]; 6] =
        [&["-c"], &["-lc"], &["-cl"], &["-l", "-c"], &["--login", "-c"], &["-c", "-l"]];
    for shell in ["sh", "bash", "dash", "ash", "zsh", "/bin/sh", "/usr/bin/bash"] {
        for options in options {
            let line = [&[shell], options, &["make CC=gcc"]].concat();
            check(&words(&line), true, true);
            let quoted = line.iter().map(|word| shlex::try_quote(word).unwrap());
            check(&text(&quoted.collect::<Vec<_>>().join(" ")), true, true);
        }
    }
    check(&words(&["sh", "-c", "bash -lc 'make CC=gcc'"]), true, true);
    let rows: [&[&str]; 11] = [
        &["bash", "-lc", "cd x && make CC=gcc"],
        &["bash", "-lc", "make CC=gcc; x"],
        &["bash", "-lc", "make CC=gcc", "x"],
        &["bash", "-ic", "make CC=gcc"],
        &["bash", "-ec", "make CC=gcc"],
        &["bash", "--rcfile", "x", "-c", "make CC=gcc"],
        &["bash", "-o", "pipefail", "-c", "make CC=gcc | tee x"],
        &["bash", "+x", "-c", "make CC=gcc"],
        &["/tmp/sh", "-c", "make CC=gcc"],
        &["fish", "-c", "make CC=gcc"],
        &["sh", "-c", "x; sh -c 'echo $(make CC=gcc)'"],
    ];
    for line in rows {
        check(&words(line), false, true);
    }
    check(&words(&["bash", "make", "CC=gcc"]), false, false);
    check(&words(&["bash", "-lc", "echo make CC=gcc"]), false, false);
    let one_of = ["x", "make CC=gcc"].map(str::to_owned).to_vec();
    check(&RequestedCommand::AnyOf(one_of), false, true);
}

#[test]
fn a_compound_text_has_each_of_its_commands() {
    let rows = [
        "make CC=gcc; x",
        "x && make CC=gcc",
        "make CC=gcc | x",
        "make CC=gcc\nx",
        "make CC=gcc &",
        "make CC=gcc > log",
        "2>x make CC=gcc >>y",
        "(make CC=gcc)",
        "{ make CC=gcc; }",
        "f() { make CC=gcc; }",
        "A=1 B+=2 C[0]=3 make CC=gcc",
        "echo $(make CC=gcc)",
        "echo \"$(make CC=gcc)\"",
        "echo `make CC=gcc`",
        "diff <(make CC=gcc) >(b)",
        "if make CC=gcc; then x; fi",
        "while ! make CC=gcc; do b; done",
        "case x in a) make CC=gcc;; esac",
        "time make CC=gcc",
        "! make CC=gcc",
        "$'make' $\"CC=gcc\"",
        "x || bash -lc 'make CC=gcc'",
        "env make CC=gcc",
        "sudo make CC=gcc",
    ];
    for line in rows {
        check(&text(line), false, true);
    }
    // Expansions are unknown: they are asked about.
    let make = "kind = '*'; run = 'make CC=gcc'; exact = true; then = 'deny'";
    let judge = judge(&[make, "kind = '*'; then = 'allow'"]);
    for line in ["make $X", "make CC=g*", "$M CC=gcc", "make CC=$(x)"] {
        let judgement = of(&judge, "execute", Some(&text(line)), &[]);
        assert_eq!(judgement.verdict, Verdict::Ask, "{line}");
        assert!(judgement.reason.contains("known only when it runs"), "{judgement:?}");
    }
}

#[test]
fn deep_nesting_neither_overflows_nor_is_allowed() {
    let judge = judge(&["kind = '*'; run = 'make'; then = 'allow'"]);
    for part in ["$(", "`", "(", "\"$(", "<(", "'", "\\", "a=", "<", "sh -c "] {
        let command = text(&part.repeat(50_001));
        assert_eq!(of(&judge, "execute", Some(&command), &[]).verdict, Verdict::Ask, "{part}");
    }
    let nested = |count: usize| {
        (0..count).fold("make".to_owned(), |text, _| {
            format!("sh -c {}", shlex::try_quote(&text).unwrap())
        })
    };
    assert_eq!(of(&judge, "execute", Some(&text(&nested(5))), &[]).verdict, Verdict::Allow);
}

#[test]
fn paths_are_compared_by_their_spelling() {
    let workspace = [PathBuf::from("/home/me/p"), PathBuf::from("/workspace")];
    let cwd = Path::new("/workspace/sub");
    let rows = [
        ("/workspace/src/a.rs", "src", true),
        ("/home/me/p/src", "src", true),
        ("/home/me/p/src/a", "/workspace/src", true),
        ("/workspace/src", "/home/me/p/src/", true),
        ("a.rs", "sub", true),
        ("a.rs", "src", false),
        ("../src/a.rs", "./src", true),
        ("/workspace/src-evil/a", "src", false),
        ("/workspace/src/../.git/config", "src", false),
        ("/workspace/src/../.git/config", ".git", true),
        ("/workspace/../etc/passwd", ".", false),
        ("/workspace/../etc/passwd", "/etc", true),
        ("/workspace-evil", ".", false),
        ("/workspace", ".", true),
        ("/a", "/", true),
        ("~/p/src", ".", false),
        ("file:///home/me/p/src", ".", false),
        ("a\0b", ".", false),
    ];
    for (path, of, expected) in rows {
        let judge = judge(&[&format!("path = '{of}'; then = 'deny'")]);
        let paths = [path];
        let request =
            AccessRequest { workspace: &workspace, cwd, paths: &paths, ..AccessRequest::default() };
        let denied = judge.judge_request(&request).verdict == Verdict::Deny;
        assert_eq!(denied, expected, "{path} {of}");
        assert_eq!(judge.denial(&request).is_some(), expected, "{path} {of}");
        let nowhere = AccessRequest { workspace: &[], ..request };
        assert!(judge.denial(&nowhere).is_none(), "no path matches without a workspace");
    }
}

#[test]
fn invalid_rules() {
    let rows = [
        ("kind = ' '; then = 'deny'", "a condition of the rule is empty"),
        ("kind = []; then = 'deny'", "a condition of the rule is empty"),
        ("path = ''; then = 'deny'", "a condition of the rule is empty"),
        ("path = '~/x'; then = 'deny'", "invalid path '~/x': expected one that is absolute or"),
        ("path = 'src'; then = 'allow'", "a rule that allows by a path names its kinds"),
        (
            "kind = 'execute'; path = 'src'; then = 'allow'",
            "a path alone cannot allow requests of kind 'execute'",
        ),
        ("kind = ['edit', 'new']; path = 'src'; then = 'allow'", "requests of kind 'new'"),
        ("kind = 'edit'", "neither 'then' nor 'net'"),
        ("kind = 'execute'; run = 'x'; net = 'none'", "'net' is for calls"),
        ("kind = 'edit'; with = ['-f']; then = 'deny'", "conditions of a command, but no 'run'"),
        (
            "kind = 'edit'; examples.yes = ['x']; then = 'deny'",
            "conditions of a command, but no 'run'",
        ),
        ("kind = '*'; run = 'rm -f'; then = 'deny'", "'-f' is no tool or subcommand"),
        (
            "kind = '*'; run = 'rm'; examples.yes = ['ls']; then = 'deny'",
            "does not match its example 'ls'",
        ),
        (
            "kind = '*'; run = 'rm'; examples.no = ['x && rm y']; then = 'deny'",
            "matches its counterexample",
        ),
        ("then = 'deny'", "the rule has no tool"),
    ];
    for (text, expected) in rows {
        let rules = [(rule(&text.replace("; ", "\n")), String::new())];
        let (_, error) = Judge::default().add(&rules, RuleOrigin::User).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
    let of_paths = "kind = 'fetch'; path = 'src'; then = 'deny'";
    judge(&[of_paths, "kind = 'execute'; run = 'make'; path = 'src'; then = 'allow'"]);
}

#[test]
fn a_workspace_only_tightens() {
    let mut judge = judge(&["kind = 'edit'; then = 'allow'", "kind = '*'; then = 'deny'"]);
    let of_workspace = |text: &str| (rule(text), text.to_owned());
    judge.restrict(&[of_workspace("path = 'secrets'\nthen = 'deny'")]).unwrap();
    judge.restrict(&[of_workspace("path = 'src'\nthen = 'ask'")]).unwrap();
    let rows = [
        ("edit |  | a", Verdict::Allow),
        ("edit |  | secrets/a", Verdict::Deny),
        ("edit |  | src/a", Verdict::Ask),
        // No question in place of the user's denial.
        ("read |  | src/a", Verdict::Deny),
    ];
    for (request, expected) in rows {
        assert_eq!(judged(&judge, request).verdict, expected, "{request}");
    }
}

#[test]
fn a_judgement_names_its_rule() {
    let mut judge = judge(&["kind = 'delete'; then = 'deny'; because = 'no'"]);
    let flag = [(rule("kind = 'edit'\nthen = 'allow'"), "--yes-to".to_owned())];
    judge.add(&flag, RuleOrigin::Flag).unwrap();
    let told = |request| judged(&judge, request).to_string();
    assert_eq!(told("delete |  | "), "deny: kind = 'delete'; then = 'deny'; because = 'no': no");
    assert_eq!(told("edit |  | "), "allow: --yes-to");
    assert_eq!(told("fetch |  | "), "ask: no rule");
}

#[test]
fn one_program_with_its_arguments() {
    let single = |command: &RequestedCommand| command.single();
    let make = Some(vec!["make".to_owned(), "x y".to_owned()]);
    assert_eq!(single(&text("bash -lc \"make 'x y'\"")), make);
    assert_eq!(single(&words(&["make", "x y"])), make);
    for line in ["make; x", "make $X", "A=1 make", "make > x", "! make", "make &", "(make)", ""] {
        assert_eq!(single(&text(line)), None, "{line}");
    }
}
