//! Generators for property tests: exec ids, invocations and splits.

mod pieces;

use aifo_types::{ExecId, TerminalModes, WindowSize};
use aifo_wire::{
    Invocation, MAX_CONTROL_CHARACTERS, MAX_RESOURCE, SoftLimit, Stdio, TerminalSettings,
};
use proptest::array::{uniform3, uniform4};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) use pieces::pieces;

pub(crate) fn exec_id() -> impl Strategy<Value = ExecId> {
    "[A-Za-z0-9._-]{1,64}".prop_map(|id| ExecId::parse(id.as_bytes()).unwrap())
}

/// Bytes without NUL.
pub(crate) fn c_string() -> impl Strategy<Value = Vec<u8>> {
    vec(1..=255u8, 0..40)
}

pub(crate) fn invocation() -> impl Strategy<Value = Invocation> {
    let program = (vec(c_string(), 1..8), option::of(c_string()), vec(variable(), 0..5));
    let process = (option::of(0..=0o777u16), option::of(-20..20i8), limits(), any::<u64>());
    (program, process, stdio(), terminal()).prop_map(
        |((argv, cwd, environment), (umask, nice, limits, ignored), stdio, terminal)| {
            let terminal = stdio.contains(&Stdio::Terminal).then_some(terminal);
            Invocation { argv, cwd, environment, umask, nice, limits, ignored, stdio, terminal }
        },
    )
}

/// Valid combinations of the standard descriptors.
pub(crate) fn stdio() -> impl Strategy<Value = [Stdio; 3]> {
    uniform3(0..=5u8).prop_filter_map("only stderr may be `Same`", |codes| {
        let stdio = codes.map(|code| Stdio::from_code(code).unwrap());
        (!stdio[..2].contains(&Stdio::Same)).then_some(stdio)
    })
}

pub(crate) fn window_size() -> impl Strategy<Value = WindowSize> {
    any::<[u16; 4]>().prop_map(|[rows, columns, x_pixels, y_pixels]| WindowSize {
        rows,
        columns,
        x_pixels,
        y_pixels,
    })
}

fn variable() -> impl Strategy<Value = Vec<u8>> {
    ("[A-Za-z_]{1,12}", c_string())
        .prop_map(|(name, value)| [name.as_bytes(), b"=", &value].concat())
}

fn limits() -> impl Strategy<Value = Vec<SoftLimit>> {
    let limit = (0..=MAX_RESOURCE, any::<u64>());
    let limit = limit.prop_map(|(resource, soft)| SoftLimit { resource, soft });
    vec(limit, 0..=usize::from(MAX_RESOURCE) + 1)
}

fn terminal() -> impl Strategy<Value = TerminalSettings> {
    let characters = vec(any::<u8>(), 0..=MAX_CONTROL_CHARACTERS);
    let parts = (window_size(), uniform4(any::<u32>()), characters);
    parts.prop_map(|(size, [input, output, control, local], characters)| TerminalSettings {
        size,
        modes: TerminalModes { input, output, control, local, characters },
    })
}
