//! The shim's decision about any argument list, in a file system with many links.
//!
//! An input is the tool, the directory and the arguments, separated by NUL.

#![no_main]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use aifo_decide::{
    Decision, FileFacts, Program, Reason, RuntimeNotFound, Settings, SmartToggles, Toggle,
    ToolCall, decide,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut words = data.split(|&byte| byte == 0);
    let tool = words.next().unwrap_or_default();
    let cwd = Path::new("/").join(OsStr::from_bytes(words.next().unwrap_or_default()));
    let mut args: Vec<Vec<u8>> = words.map(<[u8]>::to_vec).collect();
    let smart = SmartToggles::from_toggles(Toggle::On, Toggle::On, Toggle::On);
    let settings = Settings { smart, ..Settings::default() };
    let decided =
        decide(&ToolCall { tool, program: None, args: &args, cwd: &cwd }, &settings, &Links);
    check(tool, &decided);
    if program(&decided).is_some() {
        args.push(b"--more".to_vec());
        let again =
            decide(&ToolCall { tool, program: None, args: &args, cwd: &cwd }, &settings, &Links);
        assert_eq!(decided, again, "arguments after the program do not matter");
    }
});

/// Checks that workspace programs never run locally, and that all others do.
fn check(tool: &[u8], decided: &Result<Decision, RuntimeNotFound>) {
    let Ok(decision) = decided else { return };
    let line = decision.log_line(tool);
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "one line of text: {line}");
    match decision {
        Decision::Local(local) => {
            assert!(Links.is_executable(&local.runtime) && !is_inside(&local.runtime), "{line}");
            match &local.program {
                Program::Path(path) => {
                    assert_eq!(local.reason, Reason::OutsideWorkspace);
                    assert!(!is_inside(path), "{line}");
                }
                Program::Module(_) => assert_eq!(local.reason, Reason::PythonModule),
            }
        }
        Decision::Proxy(proxy) => match proxy.reason {
            Reason::OutsideWorkspace | Reason::PythonModule | Reason::NotifyTool => {
                panic!("not a reason for a sidecar: {line}");
            }
            Reason::InsideWorkspace => assert!(lexically_inside(proxy.program.as_ref()), "{line}"),
            Reason::LinkIntoWorkspace => {
                assert!(!lexically_inside(proxy.program.as_ref()), "{line}");
            }
            Reason::EnvironmentModule => {
                assert!(matches!(proxy.program, Some(Program::Module(_))), "{line}");
            }
            _ => assert_eq!(proxy.program, None, "{line}"),
        },
        Decision::Notify(notify) => assert_eq!(notify.command.as_bytes(), tool),
    }
}

fn program(decided: &Result<Decision, RuntimeNotFound>) -> Option<&Program> {
    match decided {
        Ok(Decision::Local(local)) => Some(&local.program),
        Ok(Decision::Proxy(proxy)) => proxy.program.as_ref(),
        _ => None,
    }
}

fn lexically_inside(program: Option<&Program>) -> bool {
    matches!(program, Some(Program::Path(path)) if path.starts_with(WORKSPACE))
}

/// Returns whether the lexical or the real path is in the workspace.
fn is_inside(path: &Path) -> bool {
    let real = Links.real_path(path);
    path.starts_with(WORKSPACE) || real.is_some_and(|real| real.starts_with(WORKSPACE))
}

const WORKSPACE: &str = "/workspace";

/// A file system in which every path exists, except in loops of links.
struct Links;

const LINKS: &[(&str, &str)] = &[
    ("/workspace/out", "/opt/agent"),
    ("/workspace/out.js", "/opt/agent/cli.js"),
    ("/opt/agent/in.js", "/workspace/app.js"),
    ("/opt/in", "/workspace"),
    ("/opt/up", "/workspace/deep/down"),
    ("/opt/loop", "/opt/loop"),
    ("/opt/own/bin/python3", "/workspace/.venv/bin/python3"),
    ("/proc/self/cwd", "/workspace"),
    ("/usr/local/bin/aider", "/opt/venv/bin/aider"),
];

impl FileFacts for Links {
    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        let mut real = PathBuf::from("/");
        let mut rest: Vec<PathBuf> = path.components().rev().map(own).collect();
        // The kernel's limit.
        let mut links_left = 40;
        while let Some(component) = rest.pop() {
            match component.components().next()? {
                Component::RootDir => real = PathBuf::from("/"),
                Component::ParentDir => _ = real.pop(),
                Component::Normal(name) => real.push(name),
                Component::CurDir | Component::Prefix(_) => {}
            }
            if let Some((_, target)) = LINKS.iter().find(|(link, _)| real == Path::new(link)) {
                links_left -= 1;
                if links_left == 0 {
                    return None;
                }
                rest.extend(Path::new(target).components().rev().map(own));
            }
        }
        Some(real)
    }

    fn is_file(&self, path: &Path) -> bool {
        ["/opt/venv", "/opt/own", "/workspace/.venv"]
            .iter()
            .any(|dir| path == Path::new(dir).join("pyvenv.cfg"))
    }

    fn is_executable(&self, path: &Path) -> bool {
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        path.parent().is_some_and(|dir| dir.ends_with("bin"))
            && (name == b"node" || name.starts_with(b"python3"))
    }
}

fn own(component: Component<'_>) -> PathBuf {
    PathBuf::from(component.as_os_str())
}
