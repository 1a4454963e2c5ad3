//! The shell that is left behind when the session is gone.

use std::io::IsTerminal;

use aifo_process::signal_process;
use aifo_types::Signal;
use nix::unistd::{getpgid, getpgrp, getppid};

/// Shells whose interactive sessions end with the sandbox they were opened in.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ash", "ksh", "fish"];

/// Hangs up on the shell that started us: a shell in an agent's place without a proxy is of no use,
/// and nobody may be there to end it. Only an interactive one, and only our direct parent.
pub(crate) fn hang_up_on_parent() {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return;
    }
    let parent = getppid();
    // Jobs of an interactive shell have groups of their own; a script shares its group with them.
    if getpgid(Some(parent)) == Ok(getpgrp()) {
        return;
    }
    let name = std::fs::read_to_string(format!("/proc/{parent}/comm")).unwrap_or_default();
    // A login shell's name begins with a dash.
    let name = name.trim_end().trim_start_matches('-');
    if SHELLS.contains(&name) {
        signal_process(parent, Signal::Hup);
    }
}
