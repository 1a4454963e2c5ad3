//! Ends an interactive parent shell after the proxy is lost (`spec/shim.md#parent-shell`).

use std::io::IsTerminal;

use aifo_process::signal_process;
use aifo_types::Signal;
use nix::unistd::{getpgid, getpgrp, getppid};

const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish"];

/// Sends HUP to the parent process if it is an interactive shell.
pub(crate) fn hang_up_on_parent() {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return;
    }
    let parent = getppid();
    // An interactive shell puts jobs into groups of their own; a script shares its group with its
    // children.
    if getpgid(Some(parent)) == Ok(getpgrp()) {
        return;
    }
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    // The name of a login shell begins with a dash.
    let name = name.trim_end().trim_start_matches('-');
    if SHELLS.contains(&name) {
        signal_process(parent, Signal::Hup);
    }
}
