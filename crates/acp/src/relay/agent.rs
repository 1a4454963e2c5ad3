//! What the agent says.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::editor::set_request;
use super::end::{Asked, At, Stream, Undecided, What};
use super::event::RelayEvent;
use super::fields::Fields;
use super::link::Link;
use super::path_map::Way;
use super::terminals::Shown;
use super::{CANCEL_REQUEST, Relay, Served, Side};
use crate::event::Withdrawal;
use crate::message::{Id, RpcError, code};
use crate::permission::{Decision, PermissionRequest};
use crate::strays::count;
use crate::update::session_of;

const PERMISSION: &str = "session/request_permission";
const UPDATE: &str = "session/update";

impl Relay {
    pub(super) fn agent_asks(
        &mut self,
        id: Id,
        method: String,
        mut params: Value,
        beside: Map<String, Value>,
    ) {
        if method == PERMISSION {
            return self.permission(id, params, beside);
        }
        match self.offer.whose(&method) {
            Served::Ours if !self.is_serving() => {
                self.refuse(Side::Agent, id, Self::editor_ended());
            }
            Served::Ours => {
                self.terminals.asked(&id, &method, &params);
                self.agent.asked.push(id.clone(), Asked::Host);
                self.events.push_back(RelayEvent::Request { id, method, params });
            }
            Served::Nobody => {
                count(&mut self.agent.strays.unknown_requests);
                let error = RpcError::new(code::METHOD_NOT_FOUND, format!("no method '{method}'"));
                self.refuse(Side::Agent, id, error);
            }
            Served::Editors if self.editor.stream == Stream::Ended => {
                self.refuse(Side::Agent, id, Self::editor_ended());
            }
            Served::Editors => {
                Fields::new(&self.config.map, Way::Outward).params(&method, &mut params);
                if let Some(path) = place_of(&method, &params).filter(|path| !self.is_known(path)) {
                    let text = format!("'{path}' is in no folder that the agent has");
                    let error = RpcError::new(code::INVALID_PARAMS, text);
                    return self.refuse(Side::Agent, id, error);
                }
                let what = What::Other { method: method.clone() };
                self.forward(Side::Editor, id, (method, params), what, beside);
            }
        }
    }

    pub(super) fn agent_tells(
        &mut self,
        method: String,
        mut params: Value,
        beside: Map<String, Value>,
    ) {
        match method.as_str() {
            CANCEL_REQUEST => return self.agent_withdraws(params, beside),
            UPDATE => {
                self.update(&params);
                if let Some(update) = params.get_mut("update") {
                    self.terminals.show(update);
                }
            }
            _ => {}
        }
        Fields::new(&self.config.map, Way::Outward).params(&method, &mut params);
        self.tell(Side::Editor, method, params, beside);
    }

    /// Takes from an update what is to be known here; it passes all the same.
    fn update(&mut self, params: &Value) {
        let (Some(session), Some(body)) =
            (params.get("sessionId").and_then(Value::as_str), params.get("update"))
        else {
            return count(&mut self.agent.strays.invalid_updates);
        };
        let link = self.sessions.get_mut(session);
        if let Some(change) = link.and_then(|link| link.update(body, &self.config.limits)) {
            let session = session.to_owned();
            self.events.push_back(RelayEvent::Tool { session, change });
        }
    }

    fn permission(&mut self, id: Id, params: Value, beside: Map<String, Value>) {
        let Some(session) = session_of(&params) else {
            let error = RpcError::new(code::INVALID_PARAMS, "no session");
            return self.refuse(Side::Agent, id, error);
        };
        // Of a session that nobody has prompted yet, what the request itself tells is all there is.
        let mut unknown = None;
        let link = match self.sessions.get_mut(&session) {
            Some(link) => link,
            None => unknown.insert(Link::new(&self.config.limits)),
        };
        let is_cancelling = link.is_cancelling();
        let told = params.get("toolCall").unwrap_or(&Value::Null);
        let (call, change) = link.permission(told);
        if let Some(change) = change.filter(|_| unknown.is_none()) {
            self.events.push_back(RelayEvent::Tool { session: session.clone(), change });
        }
        let request = PermissionRequest::parse(session.clone(), call, params.clone());
        let options = request.options.iter().map(|option| option.id.clone()).collect();
        let at = At::Owner(Undecided { options, params, beside });
        self.agent.asked.push(id.clone(), Asked::Permission { session, at });
        if is_cancelling {
            self.answer(Side::Agent, &id, Ok(Decision::Cancelled.to_result()), Map::new());
        } else {
            self.events.push_back(RelayEvent::Permission { id, request: Box::new(request) });
        }
    }

    /// Leaves a permission to the person at the editor, with paths as the editor names them. Without
    /// an editor it is answered `cancelled`. False if it does not wait for us.
    pub fn ask_editor(&mut self, id: &Id, now: Instant) -> bool {
        self.now = now;
        let Some(Asked::Permission { at: At::Owner(undecided), .. }) = self.agent.asked.get_mut(id)
        else {
            return false;
        };
        let Undecided { mut params, beside, .. } = std::mem::take(undecided);
        let sent = match self.editor.stream {
            Stream::Ended => None,
            Stream::Open => {
                if let Some(call) = params.get_mut("toolCall") {
                    self.terminals.show(call);
                }
                Fields::new(&self.config.map, Way::Outward).params(PERMISSION, &mut params);
                let method = PERMISSION.to_owned();
                let what = What::Other { method: method.clone() };
                self.send(Side::Editor, id, (method, params), what, beside).ok()
            }
        };
        match (sent, self.agent.asked.get_mut(id)) {
            (Some(number), Some(Asked::Permission { at, .. })) => *at = At::Editor(number),
            _ => _ = self.answer(Side::Agent, id, Ok(Decision::Cancelled.to_result()), Map::new()),
        }
        true
    }

    /// Tells the editor the content of a call anew, as there is news of a terminal in it.
    pub(super) fn show_anew(&mut self, Shown { session, call }: Shown) {
        let tools = self.sessions.get(&session).map(Link::tools);
        let content = tools.and_then(|tools| tools.get(&call)?.member("content"));
        let Some(content) = content.cloned() else { return };
        let mut update =
            json!({"sessionUpdate": "tool_call_update", "toolCallId": call, "content": content});
        self.terminals.show(&mut update);
        let mut params = json!({"sessionId": session, "update": update});
        Fields::new(&self.config.map, Way::Outward).params(UPDATE, &mut params);
        self.tell(Side::Editor, UPDATE.to_owned(), params, Map::new());
    }

    /// The agent does not want an answer any more. It still gets one.
    fn agent_withdraws(&mut self, mut params: Value, beside: Map<String, Value>) {
        let id = params.get("requestId").cloned().and_then(Id::parse);
        let asked = id.as_ref().and_then(|id| Some((id.clone(), self.agent.asked.get(id)?)));
        match asked {
            Some((_, Asked::Forwarded(number))) => {
                set_request(&mut params, *number);
                self.tell(Side::Editor, CANCEL_REQUEST.to_owned(), params, beside);
            }
            Some((id, Asked::Permission { .. })) => {
                self.cancel_permission(&id, Withdrawal::ByAgent);
            }
            Some((id, Asked::Host)) => {
                self.events.push_back(RelayEvent::Withdrawn { id, why: Withdrawal::ByAgent });
            }
            // Only the editor prompts.
            Some((_, Asked::Queued { .. })) | None => {
                count(&mut self.agent.strays.unknown_withdrawals);
            }
        }
    }
}

/// Where on the host a request of the agent reaches. The editor may not look at that.
fn place_of<'a>(method: &str, params: &'a Value) -> Option<&'a str> {
    let member = match method {
        "fs/read_text_file" | "fs/write_text_file" => "path",
        "terminal/create" => "cwd",
        _ => return None,
    };
    params.get(member)?.as_str()
}
