//! The most important decisions, one test each.

use std::path::Path;

use aifo_decide::{Decision, FileFacts, Settings, SmartToggles, Toggle, ToolCall, decide};

use crate::fake_files::{FakeFiles, decide_line, smart};
use crate::spec::page_files;

#[track_caller]
fn check(call: &str, settings: &Settings, line: &str) {
    let decision = decide_line(call, settings, &page_files()).expect("a runtime");
    let tool = call.split(' ').next().unwrap_or_default();
    assert_eq!(decision.log_line(tool.as_bytes()), format!("smart: {line}"), "{call}");
}

#[test]
fn node_outside_workspace_is_local() {
    check(
        "node /opt/agent/cli.js --flag",
        &smart(),
        "tool=node mode=local reason=outside-workspace program=/opt/agent/cli.js \
         local=/usr/local/bin/node",
    );
}

#[test]
fn node_under_workspace_is_proxied() {
    check(
        "node sub/../app.js",
        &smart(),
        "tool=node mode=proxy reason=inside-workspace program=/workspace/app.js",
    );
}

#[test]
fn python_dash_m_is_local() {
    check(
        "python3 -m agentmod",
        &smart(),
        "tool=python3 mode=local reason=python-module program=agentmod local=/usr/bin/python3",
    );
}

#[test]
fn python_script_under_workspace_is_proxied() {
    check(
        "python app.py",
        &smart(),
        "tool=python mode=proxy reason=inside-workspace program=/workspace/app.py",
    );
}

#[test]
fn pip_and_uv_are_always_proxied_even_with_smart_python() {
    for tool in ["pip", "pip3", "uv", "uvx"] {
        let line = format!("tool={tool} mode=proxy reason=not-a-runtime");
        check(&format!("{tool} /opt/agent/cli.py"), &smart(), &line);
        check(&format!("{tool} -m agentmod"), &smart(), &line);
    }
}

#[test]
fn each_runtime_has_its_own_toggle() {
    let settings = |node, python| Settings {
        smart: SmartToggles::from_toggles(Toggle::On, node, python),
        ..Settings::default()
    };
    let node_only = settings(Toggle::On, Toggle::Off);
    check("python3 -m x", &node_only, "tool=python3 mode=proxy reason=smart-off");
    check("python3.11 /opt/agent/x", &node_only, "tool=python3.11 mode=proxy reason=smart-off");
    let python_only = settings(Toggle::Off, Toggle::On);
    check("node /opt/agent/cli.js", &python_only, "tool=node mode=proxy reason=smart-off");
}

#[test]
fn notify_tools_take_precedence_over_toggles() {
    let notify_tools = vec!["say".to_owned(), "node".to_owned()];
    let settings = Settings { notify_tools, ..Settings::default() };
    check("node /opt/agent/cli.js", &settings, "tool=node mode=notify reason=notify-tool");
    check("say hello", &Settings::default(), "tool=say mode=notify reason=notify-tool");
    let none = Settings { notify_tools: vec![], ..smart() };
    check("say hello", &none, "tool=say mode=proxy reason=not-a-runtime");
}

#[test]
fn the_workspace_may_be_a_link() {
    let files = FakeFiles::parse(
        "/home/me/project/app.js
         /work -> /home/me/project
         /usr/bin/node *",
    );
    let settings = Settings { workspace: "/work/".into(), ..smart() };
    let rows = [
        ("cd /work && node app.js", "inside-workspace"),
        ("cd /home/me/project && node app.js", "inside-workspace"),
        ("cd /home/me && node project/gone.js", "inside-workspace"),
        ("cd /home/me && node x.js", "outside-workspace"),
        ("cd / && node workx/app.js", "outside-workspace"),
    ];
    for (call, reason) in rows {
        let line = decide_line(call, &settings, &files).expect("node").log_line(b"node");
        assert!(line.contains(&format!("reason={reason} ")), "{call}: {line}");
    }
}

#[test]
fn the_workspace_may_have_a_second_path() {
    // A bind mount: no link connects the two.
    let files = FakeFiles::parse(
        "/home/me/project/app.js
         /workspace/app.js
         /usr/bin/node *",
    );
    let alias = Some("/workspace".into());
    let settings =
        Settings { workspace: "/home/me/project".into(), workspace_alias: alias, ..smart() };
    let rows = [
        ("cd /home/me/project && node app.js", "inside-workspace"),
        ("cd /workspace && node app.js", "inside-workspace"),
        ("cd /workspace && node gone/app.js", "inside-workspace"),
        ("cd / && node /workspace-evil/app.js", "outside-workspace"),
        ("cd /home/me && node x.js", "outside-workspace"),
    ];
    for (call, reason) in rows {
        let line = decide_line(call, &settings, &files).expect("node").log_line(b"node");
        assert!(line.contains(&format!("reason={reason} ")), "{call}: {line}");
    }
}

#[test]
fn common_calls_are_decided_without_file_access() {
    struct Untouched;
    impl FileFacts for Untouched {
        fn real_path(&self, path: &Path) -> Option<std::path::PathBuf> {
            panic!("resolved {}", path.display())
        }
        fn is_file(&self, path: &Path) -> bool {
            panic!("checked the file {}", path.display())
        }
        fn is_executable(&self, path: &Path) -> bool {
            panic!("checked the executable {}", path.display())
        }
    }
    for (tool, arg) in [("cargo", "build"), ("say", "hi"), ("node", "app.js"), ("python3", "-V")] {
        let args = [arg.as_bytes().to_vec()];
        let (tool_name, cwd) = (tool.as_bytes(), Path::new("/workspace"));
        let call = ToolCall { tool: tool_name, program: None, args: &args, cwd };
        let decision = decide(&call, &smart(), &Untouched);
        assert!(matches!(decision, Ok(Decision::Proxy(_) | Decision::Notify(_))), "{tool} {arg}");
    }
}
