//! Invocations: the body of a version 3 request.

#![no_main]

use aifo_types::{ExecId, ExecRequest, Stdio};
use aifo_wire::{MAX_CONTROL_CHARACTERS, MAX_RESOURCE, encode_invocation, parse_invocation};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let parse = |body: &[u8]| parse_invocation(body, ExecId::parse(b"e1").unwrap());
    let Ok(request) = parse(body) else { return };
    let mut again = Vec::new();
    encode_invocation(&request, &mut again);
    assert_eq!(again, body, "the encoding is unique");
    check_ranges(&request);
    if let Some((_, beginning)) = body.split_last() {
        assert!(parse(beginning).is_err(), "truncated by a byte");
    }
    again.push(0);
    assert!(parse(&again).is_err(), "a trailing byte");
});

/// Checks the ranges on which the code that starts tools relies.
fn check_ranges(request: &ExecRequest) {
    let inherited = &request.inherited;
    let strings = request.args.iter().chain(&request.cwd).chain(&inherited.environment);
    strings.for_each(|string| assert!(!string.contains(&0)));
    for variable in &inherited.environment {
        assert!(!variable.starts_with(b"=") && variable.contains(&b'='));
    }
    assert!(inherited.umask.is_none_or(|umask| umask <= 0o777));
    assert!(inherited.nice.is_none_or(|nice| (-20..20).contains(&nice)));
    assert!(inherited.limits.len() <= usize::from(MAX_RESOURCE) + 1);
    assert!(inherited.limits.iter().all(|limit| limit.resource <= MAX_RESOURCE));
    let [stdin, stdout, _] = inherited.stdio;
    assert!(stdin != Stdio::Same && stdout != Stdio::Same);
    assert!(request.passed() <= 3);
    let has_terminal = inherited.stdio.contains(&Stdio::Terminal);
    assert_eq!(has_terminal, inherited.terminal.is_some());
    if let Some(terminal) = &inherited.terminal {
        assert!(terminal.modes.characters.len() <= MAX_CONTROL_CHARACTERS);
    }
}
