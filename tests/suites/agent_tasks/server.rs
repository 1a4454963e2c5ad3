//! Servers that agents start with a minimal environment run in sidecars too.

use std::fs;

use aifo_tests::model::{Agent, Script, Start};
use serde_json::{Value, json};

use super::{PATIENCE, fixtures, is_over, run_with, start_with_stdin, without_the_rows_own};

/// A minimal MCP server that writes the place where it runs into a file.
const SERVER: &str = "
import json, os, sys
with open('/workspace/served', 'a') as file:
    print(os.environ.get('PIP_CACHE_DIR'), file=file)
for line in sys.stdin:
    request = json.loads(line)
    if 'id' not in request:
        continue
    result = {}
    if request['method'] == 'initialize':
        version = request['params']['protocolVersion']
        result = {'protocolVersion': version, 'capabilities': {'tools': {}},
                  'serverInfo': {'name': 'ws', 'version': '1'}}
    elif request['method'] == 'tools/list':
        result = {'tools': []}
    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)
";

/// Adds this server to the agent settings; `None` for agents that this test does not cover.
fn with_server(agent: Agent, mut start: Start) -> Option<Start> {
    let words = ["python3", "/workspace/server.py"];
    let edit = |start: &mut Start, change: &dyn Fn(&str) -> String| {
        start.files.iter_mut().for_each(|(_, text)| *text = change(text));
    };
    let insert = |text: &str, key: &str, value: Value| {
        let mut document: Value = serde_json::from_str(text).expect("settings are JSON");
        document[key] = value;
        document.to_string()
    };
    match agent {
        Agent::Codex => edit(&mut start, &|text| {
            format!(
                "{text}\n[mcp_servers.ws]\ncommand = \"{}\"\nargs = [\"{}\"]\n",
                words[0], words[1]
            )
        }),
        Agent::Gemini => edit(&mut start, &|text| {
            insert(text, "mcpServers", json!({"ws": {"command": words[0], "args": [words[1]]}}))
        }),
        Agent::Opencode => edit(&mut start, &|text| {
            let server = json!({"type": "local", "command": words, "enabled": true});
            insert(text, "mcp", json!({"ws": server}))
        }),
        _ => return None,
    }
    Some(start)
}

#[test]
#[ignore = "container: cargo xtask test agents"]
fn a_server_of_an_agents_own_runs_in_its_sidecar() {
    for fixture in fixtures("a_server_of_an_agents_own_runs_in_its_sidecar") {
        let name = fixture.name();
        // Waits until the server has started.
        let waits = "until [ -s served ]; do sleep 0.1; done";
        let (model, url) = fixture.model(Script::new().shell(waits).say("It is served."));
        let start = fixture.agent.headless(&url, model.script());
        let Some(start) = with_server(fixture.agent, start) else { continue };
        let workspace = fixture.workspace();
        fs::write(workspace.join("server.py"), SERVER).unwrap();
        // A state of its own gets no servers of the user's.
        let options = ["--state", "host"];
        let (mut command, stdin, fixture) =
            run_with(&options, fixture, without_the_rows_own(start));
        let running = start_with_stdin(&mut command, &stdin);
        let over = format!("{name} has ended");
        aifo_tests::eventually_within(PATIENCE, &over, || is_over(running.pid()));
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{name}: {outcome:?}");
        let served = fs::read_to_string(workspace.join("served")).unwrap();
        let in_sidecar = served.lines().all(|line| line == "/var/cache/aifo/pip/pip");
        assert!(in_sidecar && !served.is_empty(), "{name}: {served}");
        assert_eq!(fixture.left(), [""; 0], "{name}");
    }
}
