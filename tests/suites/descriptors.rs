//! Version 3: passed descriptors, relayed streams, and protocol errors (`spec/exec3.md`).

mod broken;
mod relayed;
mod sent;

use aifo_tests::{Invocation, Session, SessionSetup, Tool};

/// A session in which `make` is a shell and other tools are fake.
fn session() -> Session {
    SessionSetup::new().kinds(&["c-cpp"]).tool("make", Tool::Link("/bin/sh".into())).start()
}

/// A shell script as a call, with the machine's commands.
fn sh(session: &Session, script: &str) -> Invocation {
    Invocation::new(session, "make", ["-c", &in_sh(script)])
}

fn in_sh(script: &str) -> String {
    format!("PATH=/usr/bin:/bin; {script}")
}
