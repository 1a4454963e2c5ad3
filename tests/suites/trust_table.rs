//! README's table of trust is true for tools on this machine.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use aifo_tests::{Outcome, REAL_KEY, Running, SessionSetup, Trusted, differences, trust_probe};

const README: &str = include_str!("../../README.md");

#[test]
fn each_row_is_as_a_running_session_has_it() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let mut users = Command::new("sleep");
    let _users = Running::start(users.arg("1000").env("OPENAI_API_KEY", REAL_KEY));
    let setup = SessionSetup::new().env("OPENAI_API_KEY", REAL_KEY);
    let home = setup.scratch().join("home");
    fs::write(home.join("private"), "x").unwrap();
    let probe = trust_probe(&home, &setup.runtime(), &listener);
    fs::write(setup.workspace().join("probe.sh"), probe).unwrap();
    let setup = setup.script("make", "exec /bin/bash ./probe.sh");
    let another = setup.scratch().join("another");
    fs::create_dir(&another).unwrap();
    fs::copy(setup.workspace().join("probe.sh"), another.join("probe.sh")).unwrap();
    let measured = [setup.workspace(), setup.workspace(), another].map(|project| {
        let mut exec = setup.coder();
        exec.args(["exec", "--toolchain", "c-cpp", "--", "make"]).current_dir(project);
        Outcome::of(&mut exec).exited(0).text()
    });
    let measured = measured.each_ref().map(String::as_str);
    assert_eq!(differences(README, Trusted::LocalTools, measured), "");
    let wrong = README.replace("| **yours** |", "| **names** |");
    let difference = "network: 'names' is stated, and Some(\"yours\") measured\n";
    assert_eq!(differences(&wrong, Trusted::LocalTools, measured), difference);
}
