//! Messages from the editor.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::passing::unsupported_version_error;
use super::path_map::{Direction, is_beneath};
use super::requests::RequestKind;
use super::{CANCEL, CANCEL_REQUEST, INITIALIZE, Relay, Side};
use crate::capabilities::lower_version;
use crate::message::{Id, RpcError, code};

impl Relay {
    pub(super) fn editor_request(
        &mut self,
        id: Id,
        method: String,
        mut params: Value,
        extra: Map<String, Value>,
    ) {
        if !self.agent.is_open() {
            let error = self.agent_ended();
            return self.reject(Side::Editor, id, error);
        }
        if let Some(other) = self.unsupported_version.as_ref().filter(|_| method != INITIALIZE) {
            return self.reject(Side::Editor, id, unsupported_version_error(other));
        }
        match method.as_str() {
            INITIALIZE => {
                self.unsupported_version = None;
                lower_version(&mut params);
                self.capabilities.declare(&mut params);
            }
            "session/new" | "session/load" | "session/resume" | "session/fork" => {
                if let Some(error) = self.check_directory(&params) {
                    return self.reject(Side::Editor, id, error);
                }
            }
            _ => {}
        }
        Fields::new(&self.config.map, Direction::ToAgent).params(&method, &mut params);
        match params.get("sessionId").and_then(Value::as_str) {
            Some(session) if method == "session/prompt" => {
                let session = session.to_owned();
                if self.take_command(&session, &id, &params) {
                    return;
                }
                self.prompt(session, id, params, extra);
            }
            _ => {
                let kind = RequestKind::Other { method: method.clone() };
                self.forward(Side::Agent, id, (method, params), kind, extra);
            }
        }
    }

    pub(super) fn editor_notification(
        &mut self,
        method: String,
        params: Value,
        extra: Map<String, Value>,
    ) {
        match method.as_str() {
            CANCEL => self.cancel(params, extra),
            CANCEL_REQUEST => self.cancel_received_request(Side::Editor, params, extra),
            _ => self.notify(Side::Agent, method, params, extra),
        }
    }

    /// Returns an error if a session directory is outside the agent directories.
    fn check_directory(&self, params: &Value) -> Option<RpcError> {
        let cwd = params.get("cwd")?.as_str()?;
        if self.is_known(cwd) {
            return None;
        }
        let remedy = &self.config.remedy;
        let hint = if remedy.is_empty() { String::new() } else { format!("\nhint: {remedy}") };
        let text = format!("'{cwd}' is outside the agent's directories{hint}");
        Some(RpcError::new(code::INVALID_PARAMS, text))
    }

    /// Returns whether the editor path is within the agent directories.
    pub(super) fn is_known(&self, path: &str) -> bool {
        let roots = &self.config.roots;
        roots.is_empty() || roots.iter().any(|root| is_beneath(path, root))
    }
}
