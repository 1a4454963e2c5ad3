//! The decision: the rules of `spec/decide.md`, in order.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_types::normalise_path;

use crate::decision::{Decision, Local, Notify, Program, Proxy, Reason};
use crate::entry_point::EntryPoint;
use crate::file_facts::FileFacts;
use crate::runtime::Runtime;
use crate::runtime_lookup::{RuntimeLookup, RuntimeNotFound};
use crate::settings::{Settings, Toggle};
use crate::workspace::{PathLocation, Workspace};

/// Decides where a call runs.
///
/// The same call, settings and files always give the same decision.
///
/// Errors: [`RuntimeNotFound`] if the call must run locally and no runtime is found. Such a call is
/// never sent to a sidecar instead, where the program is missing or is a different one.
pub fn decide(
    call: &ToolCall<'_>,
    settings: &Settings,
    files: &dyn FileFacts,
) -> Result<Decision, RuntimeNotFound> {
    let proxy = |reason, program| Ok(Decision::Proxy(Proxy { reason, program }));
    let by_name = by_name(call.tool, settings);
    if let ByName::Notification(name) = by_name {
        return Ok(Decision::Notify(Notify { command: name.to_owned() }));
    }
    if let Some(program) = call.program {
        return proxy(Reason::CalledByPath, Some(Program::Path(program.to_owned())));
    }
    let ByName::Runtime(runtime) = by_name else {
        return proxy(Reason::NotARuntime, None);
    };
    if runtime.toggle(settings.smart) == Toggle::Off {
        return proxy(Reason::SmartOff, None);
    }

    let workspace = Workspace::new(settings.workspace_paths(), files);
    let lookup = RuntimeLookup { settings, workspace: &workspace, files };
    match runtime.entry_point(call.args) {
        EntryPoint::Script(word) => {
            let path = call.cwd.join(OsStr::from_bytes(word));
            let lexical = normalise_path(&path);
            let program = Program::Path(lexical.clone());
            match workspace.locate(&path) {
                PathLocation::Inside => proxy(Reason::InsideWorkspace, Some(program)),
                PathLocation::LinksInside => proxy(Reason::LinkIntoWorkspace, Some(program)),
                PathLocation::Outside { real } => {
                    let runtime = lookup.find(runtime, &program, &[&real, &lexical])?;
                    let reason = Reason::OutsideWorkspace;
                    Ok(Decision::Local(Local { runtime, program, reason }))
                }
            }
        }
        EntryPoint::Module(name) if ENVIRONMENT_MODULES.contains(&name) => {
            proxy(Reason::EnvironmentModule, Some(Program::Module(name.to_owned())))
        }
        EntryPoint::Module(name) => {
            let program = Program::Module(name.to_owned());
            let runtime = lookup.find(runtime, &program, &[])?;
            Ok(Decision::Local(Local { runtime, program, reason: Reason::PythonModule }))
        }
        EntryPoint::NoFile(reason) => proxy(reason, None),
    }
}

/// Returns whether calls of a tool that is called by its name go to the proxy, whatever their
/// arguments and the files are. Needs no memory and no files.
pub fn goes_to_proxy(tool: &[u8], settings: &Settings) -> bool {
    matches!(by_name(tool, settings), ByName::Tool)
}

/// The kind of a tool, by its name alone.
enum ByName<'a> {
    Notification(&'a str),
    Runtime(Runtime<'a>),
    Tool,
}

fn by_name<'a>(tool: &'a [u8], settings: &'a Settings) -> ByName<'a> {
    match settings.notify_tools.iter().find(|name| name.as_bytes() == tool) {
        Some(name) => ByName::Notification(name),
        None => Runtime::from_name(tool).map_or(ByName::Tool, ByName::Runtime),
    }
}

/// Python modules that create or fill an environment, which the sidecar's python must own.
const ENVIRONMENT_MODULES: [&[u8]; 4] = [b"venv", b"virtualenv", b"ensurepip", b"pip"];

/// A tool call as the shim received it.
#[derive(Clone, Copy, Debug)]
pub struct ToolCall<'a> {
    /// The tool name, the last component of `argv[0]`.
    pub tool: &'a [u8],
    /// The absolute path by which it was called, if that [leads to an
    /// interpreter](crate::leads_to_interpreter).
    pub program: Option<&'a Path>,
    /// The arguments after `argv[0]`.
    pub args: &'a [Vec<u8>],
    /// The current directory: absolute, possibly with symbolic links.
    pub cwd: &'a Path,
}
