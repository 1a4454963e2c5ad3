//! Capabilities of both ends, and the protocol version.

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    self, CLIENT_METHOD_NAMES, FileSystemCapabilities, Implementation, InitializeRequest,
};
use serde_json::Value;

/// The optional methods that the client serves. `initialize` declares exactly these
/// (`spec/acp.md#capabilities`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// `fs/read_text_file`.
    pub read_text_file: bool,
    /// `fs/write_text_file`.
    pub write_text_file: bool,
    /// All of `terminal/*`.
    pub terminal: bool,
}

/// An agent answer to `initialize`.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentInfo {
    /// True if the agent supports `session/load`.
    pub loads_sessions: bool,
    /// The authentication methods, as received.
    pub auth_methods: Vec<Value>,
    /// The agent name, if given.
    pub name: Option<String>,
    /// The whole result.
    pub raw: Value,
}

/// The agent answered with a protocol version other than 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent speaks version {version} of the protocol, and aifo speaks version 1")]
pub struct UnsupportedVersion {
    /// The version, as received.
    pub version: String,
}

impl ClientCapabilities {
    /// Returns whether the client serves a method.
    pub fn method(&self, method: &str) -> bool {
        let names = &CLIENT_METHOD_NAMES;
        let terminal = [
            names.terminal_create,
            names.terminal_output,
            names.terminal_wait_for_exit,
            names.terminal_kill,
            names.terminal_release,
        ];
        (self.read_text_file && method == names.fs_read_text_file)
            || (self.write_text_file && method == names.fs_write_text_file)
            || (self.terminal && terminal.contains(&method))
    }

    /// Returns the parameters of `initialize`.
    pub fn initialize(&self, name: &str, version: &str) -> InitializeRequest {
        let files = FileSystemCapabilities::new()
            .read_text_file(self.read_text_file)
            .write_text_file(self.write_text_file);
        let capabilities = v1::ClientCapabilities::new().fs(files).terminal(self.terminal);
        InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(capabilities)
            .client_info(Implementation::new(name, version))
    }
}

impl AgentInfo {
    /// Parses the answer to `initialize`. A missing capability is off; a missing version counts as
    /// 1.
    pub fn parse(raw: Value) -> Result<Self, UnsupportedVersion> {
        match version(&raw) {
            None => {}
            Some(version) if *version == 1 || *version == 1.0 || version == "1" => {}
            Some(other) => return Err(UnsupportedVersion { version: other.to_string() }),
        }
        let capabilities = raw.get("agentCapabilities");
        let loads_sessions = capabilities.and_then(|all| all.get("loadSession")?.as_bool());
        let auth_methods = raw.get("authMethods").and_then(Value::as_array).cloned();
        let name = raw.get("agentInfo").and_then(|info| info.get("name")?.as_str());
        Ok(AgentInfo {
            loads_sessions: loads_sessions.unwrap_or_default(),
            auth_methods: auth_methods.unwrap_or_default(),
            name: name.map(str::to_owned),
            raw,
        })
    }
}

/// Returns the version in the parameters or the result of `initialize`.
fn version(message: &Value) -> Option<&Value> {
    message.get("protocolVersion").filter(|version| !version.is_null())
}

/// Lowers the offered version to [`LATEST`]. An earlier or missing one is unchanged.
pub(crate) fn lower_version(params: &mut Value) {
    if version(params).is_some_and(is_later)
        && let Some(version) = params.get_mut("protocolVersion")
    {
        *version = LATEST.into();
    }
}

/// Returns the version in an agent answer if it is later than [`LATEST`].
pub(crate) fn later_version(result: &Value) -> Option<UnsupportedVersion> {
    let version = version(result).filter(|version| is_later(version))?;
    Some(UnsupportedVersion { version: version.to_string() })
}

/// A version that is not a number counts as later.
fn is_later(version: &Value) -> bool {
    let number = version.as_f64().or_else(|| version.as_str()?.parse().ok());
    !number.is_some_and(|number| number <= f64::from(LATEST))
}

/// The latest protocol version that aifo supports.
const LATEST: u16 = 1;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn declared_capabilities_are_served() {
        let methods = [
            "fs/read_text_file",
            "fs/write_text_file",
            "terminal/create",
            "terminal/output",
            "terminal/wait_for_exit",
            "terminal/kill",
            "terminal/release",
            "terminal/unheard_of",
            "session/request_permission",
            "craft/drainMidTurnQueue",
        ];
        let rows = [
            (ClientCapabilities::default(), 0..0),
            (ClientCapabilities { read_text_file: true, ..ClientCapabilities::default() }, 0..1),
            (ClientCapabilities { write_text_file: true, ..ClientCapabilities::default() }, 1..2),
            (ClientCapabilities { terminal: true, ..ClientCapabilities::default() }, 2..7),
            (
                ClientCapabilities { read_text_file: true, write_text_file: true, terminal: true },
                0..7,
            ),
        ];
        for (capabilities, served) in rows {
            let found: Vec<&str> =
                methods.into_iter().filter(|method| capabilities.method(method)).collect();
            assert_eq!(found, &methods[served]);
            let declared = serde_json::to_value(capabilities.initialize("aifo", "1")).unwrap();
            assert_eq!(declared["protocolVersion"], 1);
            let fields = &declared["clientCapabilities"];
            assert_eq!(fields["fs"]["readTextFile"], capabilities.read_text_file);
            assert_eq!(fields["fs"]["writeTextFile"], capabilities.write_text_file);
            assert_eq!(fields["terminal"], capabilities.terminal);
        }
    }

    #[test]
    fn versions() {
        let rows = [
            (json!({"protocolVersion": 1}), None),
            (json!({"protocolVersion": "1"}), None),
            (json!({"protocolVersion": 1.0}), None),
            (json!({"protocolVersion": null}), None),
            (json!({}), None),
            (json!(null), None),
            (json!({"protocolVersion": 2}), Some("2")),
            (json!({"protocolVersion": 0}), Some("0")),
            (json!({"protocolVersion": "1.0"}), Some("\"1.0\"")),
        ];
        for (raw, refused) in rows {
            let found = AgentInfo::parse(raw.clone()).err().map(|other| other.version);
            assert_eq!(found.as_deref(), refused, "{raw}");
        }
    }

    #[test]
    fn undeclared_capabilities_are_off() {
        let agent = AgentInfo::parse(json!({"protocolVersion": 1})).unwrap();
        assert_eq!((agent.loads_sessions, agent.auth_methods, agent.name), (false, vec![], None));
        let raw = json!({"agentCapabilities": {"loadSession": true, "new": 1},
            "authMethods": [{"id": "key"}], "agentInfo": {"name": "gemini"}});
        let agent = AgentInfo::parse(raw.clone()).unwrap();
        assert!(agent.loads_sessions);
        assert_eq!(
            (agent.auth_methods, agent.name),
            (vec![json!({"id": "key"})], Some("gemini".into()))
        );
        assert_eq!(agent.raw, raw);
    }
}
