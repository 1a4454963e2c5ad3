//! Says what aifo knows of this machine: sessions that run, and what the project here needs.

use std::path::Path;

use aifo_host::{
    TrustedPrograms, default_workspace, detect_kinds, project_version, running_sessions,
};

fn main() {
    for session in running_sessions() {
        let agent = session.agent.as_deref().unwrap_or("a command");
        println!("{} runs {agent} in '{}'", session.id, session.workspace.display());
        for call in session.running_tools() {
            println!("  {} of {}", call.tool, call.kind);
        }
    }

    let workspace = default_workspace(Path::new("."));
    println!("the project here is '{}'", workspace.display());
    for kind in detect_kinds(&workspace) {
        match project_version(&kind, &workspace) {
            Some(wanted) => println!("  it needs {kind} {}", wanted.version),
            None => println!("  it needs {kind}"),
        }
    }

    // A program that no file of the project can have replaced.
    match TrustedPrograms::for_workspace(&workspace, &[]).program("git") {
        Ok(git) => println!("git is '{}'", git.display()),
        Err(why) => println!("git cannot be started: {why}"),
    }
}
