//! Generators for property tests: exec ids, requests and splits.

mod pieces;

use aifo_types::{
    ExecId, ExecRequest, Inherited, SoftLimit, Stdio, TerminalModes, TerminalSettings, ToolName,
    WindowSize,
};
use aifo_wire::{MAX_CONTROL_CHARACTERS, MAX_RESOURCE};
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

pub(crate) fn tool_name() -> impl Strategy<Value = ToolName> {
    "[a-z0-9+._-]{1,12}x".prop_map(|name| ToolName::parse(name.as_bytes()).unwrap())
}

pub(crate) fn exec_request() -> impl Strategy<Value = ExecRequest> {
    let call = (exec_id(), tool_name(), vec(c_string(), 0..8), option::of(c_string()));
    (call, inherited()).prop_map(|((id, tool, args, cwd), inherited)| ExecRequest {
        program: cwd.as_ref().map(|_| format!("/ws/{tool}").into_bytes()),
        id,
        tool,
        args,
        cwd,
        inherited,
        no_network: None,
        cwd_id: None,
    })
}

fn inherited() -> impl Strategy<Value = Inherited> {
    let process = (option::of(0..=0o777u16), option::of(-20..20i8), limits(), any::<u64>());
    (vec(variable(), 0..5), process, stdio(), terminal()).prop_map(
        |(environment, (umask, nice, limits, ignored), stdio, terminal)| {
            let terminal = stdio.contains(&Stdio::Terminal).then_some(terminal);
            Inherited { environment, umask, nice, limits, ignored, stdio, terminal }
        },
    )
}

/// Valid combinations of the standard descriptors.
pub(crate) fn stdio() -> impl Strategy<Value = [Stdio; 3]> {
    let all =
        [Stdio::Null, Stdio::Passed, Stdio::Relayed, Stdio::Terminal, Stdio::Closed, Stdio::Same];
    uniform3(0..all.len()).prop_filter_map("only stderr may be `Same`", move |indices| {
        let stdio = indices.map(|index| all[index]);
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
