//! Invocations: the body of a version 3 request.

#![no_main]

use aifo_wire::{Invocation, MAX_CONTROL_CHARACTERS, MAX_RESOURCE, Stdio};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let Ok(invocation) = Invocation::parse(body) else { return };
    let mut again = Vec::new();
    invocation.encode(&mut again);
    assert_eq!(again, body, "the encoding is unique");
    check_ranges(&invocation);
    if let Some((_, beginning)) = body.split_last() {
        assert!(Invocation::parse(beginning).is_err(), "truncated by a byte");
    }
    again.push(0);
    assert!(Invocation::parse(&again).is_err(), "a trailing byte");
});

/// Checks the ranges on which the code that starts tools relies.
fn check_ranges(invocation: &Invocation) {
    assert!(!invocation.argv.is_empty());
    let strings = invocation.argv.iter().chain(&invocation.cwd).chain(&invocation.environment);
    strings.for_each(|string| assert!(!string.contains(&0)));
    for variable in &invocation.environment {
        assert!(!variable.starts_with(b"=") && variable.contains(&b'='));
    }
    assert!(invocation.umask.is_none_or(|umask| umask <= 0o777));
    assert!(invocation.nice.is_none_or(|nice| (-20..20).contains(&nice)));
    assert!(invocation.limits.len() <= usize::from(MAX_RESOURCE) + 1);
    assert!(invocation.limits.iter().all(|limit| limit.resource <= MAX_RESOURCE));
    let [stdin, stdout, _] = invocation.stdio;
    assert!(stdin != Stdio::Same && stdout != Stdio::Same);
    assert!(invocation.passed() <= 3);
    let has_terminal = invocation.stdio.contains(&Stdio::Terminal);
    assert_eq!(has_terminal, invocation.terminal.is_some());
    if let Some(terminal) = &invocation.terminal {
        assert!(terminal.modes.characters.len() <= MAX_CONTROL_CHARACTERS);
    }
}
