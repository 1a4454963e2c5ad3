//! Messages from the agent.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::event::RelayEvent;
use super::fields::Fields;
use super::path_map::Direction;
use super::requests::{Decider, IncomingRequest, PendingPermission, RequestKind};
use super::session_state::SessionState;
use super::terminals::CallRef;
use super::{CANCEL_REQUEST, MethodServer, PERMISSION, Relay, Side};
use crate::event::RequestEvent;
use crate::message::{Id, RpcError, code};
use crate::permission::{PermissionOutcome, PermissionRequest};
use crate::protocol_errors::count;
use crate::update::session_of;

const UPDATE: &str = "session/update";

/// Refused notifications that are reported, by method.
const MAX_REPORTED: usize = 16;

/// Bytes of a method that is reported.
const MAX_METHOD: usize = 256;

impl Relay {
    pub(super) fn agent_request(
        &mut self,
        id: Id,
        method: String,
        mut params: Value,
        extra: Map<String, Value>,
    ) {
        if method == PERMISSION {
            return self.permission(id, params, extra);
        }
        match self.capabilities.served_by(&method) {
            MethodServer::Host if !self.is_serving() => {
                self.reject(Side::Agent, id, Self::editor_ended());
            }
            MethodServer::Host => {
                self.terminals.record_request(&id, &method, &params);
                self.agent.received.push(id.clone(), IncomingRequest::Host);
                self.events.push_back(RelayEvent::Request(RequestEvent::Host {
                    id,
                    method,
                    params,
                }));
            }
            MethodServer::Neither => {
                let error = self.agent.unknown_method(&method);
                self.reject(Side::Agent, id, error);
            }
            MethodServer::Editor if !self.editor.is_open() => {
                self.reject(Side::Agent, id, Self::editor_ended());
            }
            MethodServer::Editor => {
                Fields::new(&self.config.map, Direction::ToEditor).params(&method, &mut params);
                if let Err(error) = self.resolve_path(&method, &mut params) {
                    return self.reject(Side::Agent, id, error);
                }
                let kind = RequestKind::Other { method: method.clone() };
                self.forward(Side::Editor, id, (method, params), kind, extra);
            }
        }
    }

    /// Replaces the host path of a request with the resolved one. The editor may not check it.
    fn resolve_path(&self, method: &str, params: &mut Value) -> Result<(), RpcError> {
        let invalid = |text| RpcError::new(code::INVALID_PARAMS, text);
        let (member, is_optional) = match method {
            "fs/read_text_file" | "fs/write_text_file" => ("path", false),
            "terminal/create" => ("cwd", true),
            _ => return Ok(()),
        };
        let path = match params.get_mut(member) {
            Some(Value::String(path)) => path,
            None | Some(Value::Null) if is_optional => return Ok(()),
            _ => return Err(invalid(format!("'{member}' is not a path"))),
        };
        if !self.is_known(path) {
            return Err(invalid(format!("'{path}' is outside the agent's directories")));
        }
        *path = self.config.resolver.resolve(path)?;
        Ok(())
    }

    pub(super) fn agent_notification(
        &mut self,
        method: String,
        mut params: Value,
        extra: Map<String, Value>,
    ) {
        match method.as_str() {
            CANCEL_REQUEST => return self.cancel_received_request(Side::Agent, params, extra),
            UPDATE => {
                self.update(&params);
                if let Some(update) = params.get_mut("update") {
                    self.terminals.replace_terminals(update);
                    self.add_commands(update);
                }
            }
            other if !self.capabilities.is_notification(other) => {
                return self.refuse_notification(method);
            }
            _ => {}
        }
        Fields::new(&self.config.map, Direction::ToEditor).params(&method, &mut params);
        self.notify(Side::Editor, method, params, extra);
    }

    fn refuse_notification(&mut self, method: String) {
        count(&mut self.agent.protocol_errors.refused_notifications);
        let is_short = method.len() <= MAX_METHOD;
        if is_short && self.refused.len() < MAX_REPORTED && !self.refused.contains(&method) {
            self.refused.push(method.clone());
            self.events.push_back(RelayEvent::NotificationRefused { method });
        }
    }

    /// Tracks an update, which is forwarded in any case.
    fn update(&mut self, params: &Value) {
        let (Some(session), Some(body)) =
            (params.get("sessionId").and_then(Value::as_str), params.get("update"))
        else {
            return count(&mut self.agent.protocol_errors.invalid_updates);
        };
        let state = self.sessions.get_mut(session);
        if let Some(change) = state.and_then(|state| state.update(body, &self.config.limits)) {
            let session = session.to_owned();
            self.events.push_back(RelayEvent::Tool { session, change });
        }
    }

    fn permission(&mut self, id: Id, params: Value, extra: Map<String, Value>) {
        let Some(session) = session_of(&params) else {
            let error = RpcError::new(code::INVALID_PARAMS, "no session");
            return self.reject(Side::Agent, id, error);
        };
        // For a session without a prompt, only the request describes the call.
        let mut unknown = None;
        let state = match self.sessions.get_mut(&session) {
            Some(state) => state,
            None => unknown.insert(SessionState::new(&self.config.limits)),
        };
        let is_cancelling = state.is_cancelling();
        let call_update = params.get("toolCall").unwrap_or(&Value::Null);
        let (call, change) = state.permission(call_update);
        if let Some(change) = change.filter(|_| unknown.is_none()) {
            self.events.push_back(RelayEvent::Tool { session: session.clone(), change });
        }
        let request = PermissionRequest::parse(session.clone(), call, params.clone());
        let options = request.option_ids();
        let decider = Decider::Host(PendingPermission { options, params, extra });
        self.agent.received.push(id.clone(), IncomingRequest::Permission { session, decider });
        if is_cancelling {
            self.answer(Side::Agent, &id, Ok(PermissionOutcome::Cancelled.to_result()), Map::new());
        } else {
            self.events.push_back(RelayEvent::Request(RequestEvent::Permission {
                id,
                request: Box::new(request),
            }));
        }
    }

    /// Adds a reason to what the editor shows with a permission request, unless it is empty.
    pub fn explain_permission(&mut self, id: &Id, reason: &str) {
        let Some(IncomingRequest::Permission { session, decider: Decider::Host(pending) }) =
            self.agent.received.get_mut(id)
        else {
            return;
        };
        let call = pending.params.get_mut("toolCall").and_then(Value::as_object_mut);
        let Some(call) = call.filter(|_| !reason.is_empty()) else { return };
        // A request replaces what the editor has.
        let name = call.get("toolCallId").and_then(Value::as_str).unwrap_or_default();
        let known = self.sessions.get(session).map(SessionState::tools);
        let known = known.and_then(|tools| tools.get(name)?.member("content")).cloned();
        let content = call.get("content").cloned().filter(Value::is_array).or(known);
        let mut content = content.and_then(|it| it.as_array().cloned()).unwrap_or_default();
        content.push(json!({"type": "content", "content": {"type": "text", "text": reason}}));
        call.insert("content".to_owned(), content.into());
    }

    /// Forwards a permission request to the editor, with mapped paths. Without an editor it is
    /// answered `cancelled`. Returns false if the decision is not the caller's.
    pub fn ask_editor(&mut self, id: &Id, now: Instant) -> bool {
        self.now = now;
        let Some(IncomingRequest::Permission { decider: Decider::Host(pending), .. }) =
            self.agent.received.get_mut(id)
        else {
            return false;
        };
        let PendingPermission { mut params, extra, .. } = std::mem::take(pending);
        let sent = if self.editor.is_open() {
            if let Some(call) = params.get_mut("toolCall") {
                self.terminals.replace_terminals(call);
            }
            Fields::new(&self.config.map, Direction::ToEditor).params(PERMISSION, &mut params);
            let method = PERMISSION.to_owned();
            let kind = RequestKind::Other { method: method.clone() };
            self.send(Side::Editor, id, (method, params), kind, extra).ok()
        } else {
            None
        };
        match (sent, self.agent.received.get_mut(id)) {
            (Some(number), Some(IncomingRequest::Permission { decider, .. })) => {
                *decider = Decider::Editor(number);
            }
            _ => {
                let cancelled = PermissionOutcome::Cancelled.to_result();
                _ = self.answer(Side::Agent, id, Ok(cancelled), Map::new());
            }
        }
        true
    }

    /// Sends the content of a call again, as a terminal in it has new output.
    pub(super) fn resend_content(&mut self, CallRef { session, call }: CallRef) {
        let tools = self.sessions.get(&session).map(SessionState::tools);
        let content = tools.and_then(|tools| tools.get(&call)?.member("content"));
        let Some(content) = content.cloned() else { return };
        let mut update =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "content": content});
        self.terminals.replace_terminals(&mut update);
        let mut params = json!({"sessionId": session, "update": update});
        Fields::new(&self.config.map, Direction::ToEditor).params(UPDATE, &mut params);
        self.notify(Side::Editor, UPDATE.to_owned(), params, Map::new());
    }
}
