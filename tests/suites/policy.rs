//! `aifo-coder policy`, and calls that the default rules ask about.
//!
//! Proves `spec/rules.md#commands`.

use std::fs;

use aifo_tests::{Outcome, SessionSetup};

fn coder(setup: &SessionSetup, args: &[&str]) -> Outcome {
    Outcome::of(setup.coder().args(args))
}

#[test]
fn check_prints_the_verdict_the_rule_and_the_normal_form() {
    let setup = SessionSetup::new();
    let outcome = coder(&setup, &["policy", "check", "--", "env", "git", "-C", "x", "push", "-f"]);
    assert_eq!(
        outcome.exited(0).text(),
        "verdict:  ask\n\
         rule:     git|hub push (default)\n\
         because:  rewrites history that others have\n\
         call:     env git -C x push -f\n\
         call:     git push -C=x --force\n"
    );
    let outcome = coder(&setup, &["policy", "check", "--no-rules", "git", "push", "-f"]);
    assert!(outcome.exited(0).text().starts_with("verdict:  allow\nrule:     none\n"));
}

#[test]
fn a_path_through_a_link_is_judged_by_its_target() {
    let setup = SessionSetup::new();
    std::os::unix::fs::symlink("/etc", setup.workspace().join("out")).unwrap();
    fs::create_dir(setup.workspace().join("src")).unwrap();
    std::os::unix::fs::symlink("src", setup.workspace().join("in")).unwrap();
    let rows = [
        ("out/x", "ask"),
        ("out/", "ask"),
        ("out", "allow"),
        ("in/x", "allow"),
        ("src/x", "allow"),
    ];
    for (path, expected) in rows {
        let outcome = coder(&setup, &["policy", "check", "--", "rm", "-rf", path]);
        let verdict = format!("verdict:  {expected}\n");
        assert!(outcome.exited(0).text().starts_with(&verdict), "{path}: {}", outcome.text());
    }
}

#[test]
fn an_example_that_does_not_hold_is_an_error_with_its_line() {
    let setup = SessionSetup::new();
    let file = setup.workspace().join(".aifo.toml");
    fs::write(&file, "\n[[rule]]\nrun = 'make x'\nthen = 'ask'\nexamples = { yes = ['make y'] }\n")
        .unwrap();
    let outcome = coder(&setup, &["policy", "test"]);
    let errors = &outcome.exited(1).stderr;
    let expected = format!("{}:2: the rule does not match its example 'make y'", file.display());
    assert!(errors.contains(&expected), "{errors}");
    fs::write(&file, "[[rule]]\nrun = 'make x'\nthen = 'ask'\nexamples = { yes = ['make x'] }\n")
        .unwrap();
    let outcome = coder(&setup, &["policy", "test"]);
    assert!(outcome.exited(0).text().starts_with("rules in files: 1, examples passed: 1\n"));
}

#[test]
fn doubtful_rules_are_warned_about() {
    let setup = SessionSetup::new();
    let file = setup.workspace().join(".aifo.toml");
    let rows = [
        ("run = 'git psuh'", "git has no 'psuh': did you mean 'push'?"),
        ("run = 'git push'\nwith = ['--forse']", "git has no '--forse': did you mean '--force'?"),
        ("run = 'npm pubilsh'", "npm has no 'pubilsh': did you mean 'publish'?"),
        (
            "run = 'x'\nall = ['-f']\nwithout = ['-f']",
            "the rule matches no call: '-f' is in 'all' and",
        ),
        ("run = 'x'\nwith = ['-f']\nexact = true", "the rule matches no call: an exact rule names"),
        ("run = 'x'\nthen = 'ask'\n[[rule]]\nrun = 'x'", ":1: the stricter one decides"),
    ];
    for (rule, expected) in rows {
        fs::write(&file, format!("[[rule]]\n{rule}\nthen = 'deny'\n")).unwrap();
        for command in [&["policy", "test"][..], &["policy", "check", "x"], &["config", "check"]] {
            let outcome = coder(&setup, command);
            let errors = &outcome.exited(0).stderr;
            assert!(errors.contains(expected), "{rule}: {errors}");
        }
    }
    for rule in ["run = 'cargo xtask'", "run = 'git lfs'", "run = 'npm'\nwith = ['--silent']"] {
        fs::write(&file, format!("[[rule]]\n{rule}\nthen = 'deny'\n")).unwrap();
        assert_eq!(coder(&setup, &["policy", "test"]).exited(0).stderr, "", "{rule}");
    }
}

#[test]
fn an_example_that_fails_shows_how_it_is_read() {
    let setup = SessionSetup::new();
    let text = "[[rule]]\nrun = 'git push'\nwith = ['-f']\nthen = 'ask'\nexamples = { yes = ['git -C x push -u y'] }\n";
    fs::write(setup.workspace().join(".aifo.toml"), text).unwrap();
    let outcome = coder(&setup, &["policy", "test"]);
    let errors = &outcome.exited(1).stderr;
    assert!(
        errors.contains("hint: the example is read as 'git push y -C=x --set-upstream'"),
        "{errors}"
    );
    fs::write(setup.workspace().join(".aifo.toml"), "[rule]\nrun = 'git'\nthen = 'ask'\n").unwrap();
    let outcome = coder(&setup, &["policy", "test"]);
    let errors = &outcome.exited(1).stderr;
    assert!(errors.contains("hint: a list of tables has two brackets: [[NAME]]"), "{errors}");
}

#[test]
fn a_denied_call_does_not_run() {
    let setup = SessionSetup::new();
    let file = setup.workspace().join(".aifo.toml");
    fs::write(&file, "[[rule]]\nrun = 'make x'\nthen = 'deny'\nbecause = 'not here'\n").unwrap();
    let outcome = coder(&setup, &["exec", "-q", "--toolchain", "c-cpp", "make", "-C", ".", "x"]);
    let errors = &outcome.exited(86).stderr;
    assert!(errors.contains("not here"), "{errors}");
}
