//! Capabilities declared to the agent, and the server of each method.

use agent_client_protocol_schema::v1::CLIENT_METHOD_NAMES;
use serde_json::{Map, Value};

use super::MethodServer;
use crate::capabilities::ClientCapabilities;

/// The declared capabilities, which are exactly the served ones
/// (`spec/acp-relay.md#who-serves-what`).
#[derive(Debug)]
pub(super) struct Capabilities {
    files: MethodServer,
    terminal: MethodServer,
    declared: ClientCapabilities,
    /// Methods outside of the schema that are the editor's, and namespaces of them: `_vendor/*`.
    allowed: Vec<String>,
}

/// Requests of the schema, unstable ones included, that are always the editor's. Permission requests
/// are handled before.
const EDITOR_REQUESTS: [&str; 2] = [CLIENT_METHOD_NAMES.elicitation_create, "mcp/message"];

impl Capabilities {
    /// Creates the state before the editor's `initialize`.
    pub(super) fn new(files: MethodServer, terminal: MethodServer, allowed: Vec<String>) -> Self {
        let is_host = |served| served == MethodServer::Host;
        let declared = ClientCapabilities {
            read_text_file: is_host(files),
            write_text_file: is_host(files),
            terminal: is_host(terminal),
        };
        Capabilities { files, terminal, declared, allowed }
    }

    /// Rewrites the capabilities in the editor's `initialize`.
    pub(super) fn declare(&mut self, params: &mut Value) {
        let mut all = object(params.take());
        let mut capabilities = object(all.remove("clientCapabilities").unwrap_or_default());
        let mut files = object(capabilities.remove("fs").unwrap_or_default());
        self.declared = ClientCapabilities {
            read_text_file: declare(self.files, &mut files, "readTextFile"),
            write_text_file: declare(self.files, &mut files, "writeTextFile"),
            terminal: declare(self.terminal, &mut capabilities, "terminal"),
        };
        capabilities.insert("fs".to_owned(), Value::Object(files));
        all.insert("clientCapabilities".to_owned(), Value::Object(capabilities));
        *params = Value::Object(all);
    }

    /// Returns the server of a request. Of methods other than `fs/*` and `terminal/*`, those of the
    /// schema and the allowed ones are the editor's.
    pub(super) fn served_by(&self, method: &str) -> MethodServer {
        let served = match method.split_once('/') {
            Some(("fs", _)) => self.files,
            Some(("terminal", _)) => self.terminal,
            _ => {
                let is_editors =
                    EDITOR_REQUESTS.contains(&method) || self.is_allowed_extension(method);
                return if is_editors { MethodServer::Editor } else { MethodServer::Neither };
            }
        };
        if self.declared.method(method) { served } else { MethodServer::Neither }
    }

    /// Returns whether a notification of the agent is forwarded. A request without its id is none, and an
    /// extension is not if it is not allowed: some editors select what they execute by the method alone.
    pub(super) fn is_notification(&self, method: &str) -> bool {
        NOTIFICATIONS.contains(&method) || self.is_allowed_extension(method)
    }

    fn is_allowed_extension(&self, method: &str) -> bool {
        let is_served_here = matches!(method.split_once('/'), Some(("fs" | "terminal", _)));
        !is_served_here && self.allowed.iter().any(|allowed| allows(allowed, method))
    }
}

/// Returns whether a method is the allowed one, or in the allowed namespace of extensions.
fn allows(allowed: &str, method: &str) -> bool {
    let namespace = allowed.strip_suffix('*');
    match namespace.filter(|start| start.starts_with('_') && start.ends_with('/')) {
        Some(namespace) => method.starts_with(namespace),
        None => allowed == method,
    }
}

/// Notifications of the schema, unstable ones included; `mcp/message` is also a request.
const NOTIFICATIONS: [&str; 4] = [
    CLIENT_METHOD_NAMES.session_update,
    CLIENT_METHOD_NAMES.elicitation_complete,
    "auth/status_update",
    "mcp/message",
];

/// Sets a capability and returns its value.
fn declare(served: MethodServer, members: &mut Map<String, Value>, name: &str) -> bool {
    let is_there = match served {
        MethodServer::Host => true,
        MethodServer::Editor => members.get(name) == Some(&Value::Bool(true)),
        MethodServer::Neither => false,
    };
    members.insert(name.to_owned(), Value::Bool(is_there));
    is_there
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn declared_capabilities_are_served() {
        use MethodServer::{Editor, Host, Neither};
        let full = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
        let none =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let read = json!({"fs": {"readTextFile": true, "writeTextFile": false}, "terminal": false});
        let rows = [
            (Host, Host, json!(null), full.clone()),
            (Host, Host, none.clone(), full.clone()),
            (Neither, Neither, full.clone(), none.clone()),
            (Editor, Editor, full.clone(), full.clone()),
            (Editor, Editor, read.clone(), read.clone()),
            (Editor, Editor, json!({"fs": 7, "terminal": "yes"}), none.clone()),
            (Editor, Editor, json!(null), none),
            (
                Editor,
                Neither,
                full,
                json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": false}),
            ),
        ];
        for (files, terminal, declared, expected) in rows {
            let mut capabilities = Capabilities::new(
                files,
                terminal,
                vec!["_x".to_owned(), "fs/unheard_of".to_owned()],
            );
            let mut params = json!({"clientCapabilities": declared});
            capabilities.declare(&mut params);
            let declared_here = &params["clientCapabilities"];
            assert_eq!(declared_here, &expected, "{files:?} {terminal:?} {declared}");
            let served_by =
                |is_declared: &Value, served| if is_declared == true { served } else { Neither };
            assert_eq!(
                capabilities.served_by("fs/read_text_file"),
                served_by(&declared_here["fs"]["readTextFile"], files)
            );
            assert_eq!(
                capabilities.served_by("fs/write_text_file"),
                served_by(&declared_here["fs"]["writeTextFile"], files)
            );
            for method in ["create", "output", "wait_for_exit", "kill", "release"] {
                let method = format!("terminal/{method}");
                assert_eq!(
                    capabilities.served_by(&method),
                    served_by(&declared_here["terminal"], terminal)
                );
            }
            for method in ["fs/unheard_of", "terminal/unheard_of"] {
                assert_eq!(capabilities.served_by(method), Neither);
            }
            for method in ["elicitation/create", "mcp/message", "_x"] {
                assert_eq!(capabilities.served_by(method), Editor);
            }
            for method in ["craft/drainMidTurnQueue", "_y", "fsx", "session/new", "initialize"] {
                assert_eq!(capabilities.served_by(method), Neither);
            }
        }
    }

    #[test]
    fn other_capabilities_are_forwarded() {
        let mut params = json!({"protocolVersion": 7, "clientInfo": {"name": "e"}, "_meta": {"a": 1},
            "clientCapabilities": {"fs": {"_meta": 1}, "elicitation": {"form": {}}, "_meta": {"x": 2}}});
        let mut expected = params.clone();
        expected["clientCapabilities"]["fs"] =
            json!({"_meta": 1, "readTextFile": true, "writeTextFile": true});
        expected["clientCapabilities"]["terminal"] = json!(false);
        Capabilities::new(MethodServer::Host, MethodServer::Neither, vec![]).declare(&mut params);
        assert_eq!(params, expected);
        let mut nothing = Value::Null;
        Capabilities::new(MethodServer::Neither, MethodServer::Neither, vec![])
            .declare(&mut nothing);
        assert_eq!(nothing["clientCapabilities"]["terminal"], false);
    }

    #[test]
    fn before_initialize_only_host_methods_are_served() {
        let capabilities = Capabilities::new(MethodServer::Host, MethodServer::Editor, vec![]);
        assert_eq!(capabilities.served_by("fs/read_text_file"), MethodServer::Host);
        assert_eq!(capabilities.served_by("terminal/create"), MethodServer::Neither);
    }
}
