//! Sessions embedded in other launchers: builds and runs the example of `aifo-launch`.

use aifo_tests::{Outcome, SessionSetup, binaries, files_below};

#[test]
fn the_example_embeds_a_session() {
    let setup = SessionSetup::new();
    let mut embed = setup.example("embed");
    embed.arg(setup.workspace()).args(["c-cpp", "make", "say", "hello"]);
    let expected = "AIFO_TOOLEEXEC_URL leads to the session\n\
                    AIFO_TOOLEEXEC_TOKEN leads to the session\n\
                    AIFO_WORKSPACE leads to the session\n\
                    hello\n\
                    the tool ended with exit status: 0\n";
    let outcome = Outcome::of(&mut embed);
    assert_eq!((&*outcome.exited(0).text(), &*outcome.stderr), (expected, ""));
    assert_eq!(files_below(&setup.runtime()), [""; 0].map(std::path::PathBuf::from), "all gone");

    // The directory of the shims is not the workspace: a trusted entry of PATH.
    let path = binaries().shim.parent().unwrap().to_owned();
    let path = std::env::join_paths([setup.tools(), path]).unwrap();
    let mut of_path = setup.example("embed");
    of_path
        .env("PATH", path)
        .env_remove("AIFO_SHIM_BIN")
        .current_dir(setup.scratch().join("home"))
        .arg(setup.workspace())
        .args(["c-cpp", "make", "say", "hello"]);
    assert_eq!(Outcome::of(&mut of_path).exited(0).text(), expected);

    let outcome = Outcome::of(embed.args(["ignored"]).env("AIFO_SHIM_BIN", "/nonexistent"));
    assert!(outcome.exited(1).stderr.contains("/nonexistent"), "{}", outcome.stderr);
}
