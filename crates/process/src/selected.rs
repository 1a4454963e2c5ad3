//! Signals for processes that are selected by their arguments and variables.

use std::fs;

use aifo_types::Signal;

use crate::descendants::all_processes;
use crate::signal_process;

/// Sends a signal to every process whose arguments and variables `is_selected` accepts. Returns `false` if none is
/// selected. The variables of a process of another user, or of one that cannot be traced, are empty.
pub fn signal_selected(is_selected: impl Fn(&[&[u8]], &[&[u8]]) -> bool, signal: Signal) -> bool {
    let mut is_sent = false;
    for pid in all_processes() {
        // A process that has ended has no words.
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (arguments, variables) = (read("cmdline"), read("environ"));
        if is_selected(&words(&arguments), &words(&variables)) {
            signal_process(pid, signal);
            is_sent = true;
        }
    }
    is_sent
}

/// Returns the words before each NUL.
fn words(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.strip_suffix(b"\0").unwrap_or_default().split(|byte| *byte == 0).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_the_selected_process_gets_the_signal() {
        let _guard = crate::reaper::lock_children();
        let variable = format!("AIFO_TEST_SELECTED={}", std::process::id());
        let (name, value) = variable.split_once('=').unwrap();
        let start =
            |secs: &str| Command::new("/bin/sleep").arg(secs).env(name, value).spawn().unwrap();
        let select = |secs: &'static [u8], signal| {
            let is_selected = |arguments: &[&[u8]], variables: &[&[u8]]| {
                arguments.get(1) == Some(&secs) && variables.contains(&variable.as_bytes())
            };
            signal_selected(is_selected, signal)
        };
        let (mut one, mut other) = (start("601"), start("603"));
        assert!(!select(b"600", Signal::Term));
        assert!(select(b"601", Signal::Int));
        assert_eq!(one.wait().unwrap().signal(), Some(2));
        assert_eq!(other.try_wait().unwrap(), None);
        assert!(select(b"603", Signal::Term));
        assert_eq!(other.wait().unwrap().signal(), Some(15));
    }
}
