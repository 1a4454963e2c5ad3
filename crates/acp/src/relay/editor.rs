//! What the editor says.

use serde_json::{Map, Value};

use super::end::{Asked, Stream, What};
use super::fields::Fields;
use super::passing::not_spoken;
use super::path_map::{Way, is_beneath};
use super::{CANCEL, CANCEL_REQUEST, INITIALIZE, Relay, Side};
use crate::capabilities::lower_version;
use crate::message::{Id, RpcError, code};
use crate::strays::count;

impl Relay {
    pub(super) fn editor_asks(
        &mut self,
        id: Id,
        method: String,
        mut params: Value,
        beside: Map<String, Value>,
    ) {
        if self.agent.stream == Stream::Ended {
            let error = self.agent_ended();
            return self.refuse(Side::Editor, id, error);
        }
        if let Some(other) = self.other_version.as_ref().filter(|_| method != INITIALIZE) {
            return self.refuse(Side::Editor, id, not_spoken(other));
        }
        match method.as_str() {
            INITIALIZE => {
                self.other_version = None;
                lower_version(&mut params);
                self.offer.declare(&mut params);
            }
            "session/new" | "session/load" | "session/resume" | "session/fork" => {
                if let Some(error) = self.outside(&params) {
                    return self.refuse(Side::Editor, id, error);
                }
            }
            _ => {}
        }
        Fields::new(&self.config.map, Way::Inward).params(&method, &mut params);
        match params.get("sessionId").and_then(Value::as_str) {
            Some(session) if method == "session/prompt" => {
                let session = session.to_owned();
                self.prompt(session, id, params, beside);
            }
            _ => {
                let what = What::Other { method: method.clone() };
                self.forward(Side::Agent, id, (method, params), what, beside);
            }
        }
    }

    pub(super) fn editor_tells(
        &mut self,
        method: String,
        params: Value,
        beside: Map<String, Value>,
    ) {
        match method.as_str() {
            CANCEL => self.cancel(params, beside),
            CANCEL_REQUEST => self.editor_withdraws(params, beside),
            _ => self.tell(Side::Agent, method, params, beside),
        }
    }

    /// The error of a session that is opened where the agent has no files.
    fn outside(&self, params: &Value) -> Option<RpcError> {
        let cwd = params.get("cwd")?.as_str()?;
        if self.is_known(cwd) {
            return None;
        }
        let remedy = &self.config.remedy;
        let hint = if remedy.is_empty() { String::new() } else { format!("\nhint: {remedy}") };
        let text = format!("'{cwd}' is in no folder that the agent has{hint}");
        Some(RpcError::new(code::INVALID_PARAMS, text))
    }

    /// Whether a path, as the editor names it, is beneath a folder that the agent has.
    pub(super) fn is_known(&self, path: &str) -> bool {
        let roots = &self.config.roots;
        roots.is_empty() || roots.iter().any(|root| is_beneath(path, root))
    }

    fn editor_withdraws(&mut self, mut params: Value, beside: Map<String, Value>) {
        let id = params.get("requestId").cloned().and_then(Id::parse);
        let asked = id.as_ref().and_then(|id| Some((id, self.editor.asked.get(id)?)));
        match asked {
            Some((_, Asked::Forwarded(number))) => {
                set_request(&mut params, *number);
                self.tell(Side::Agent, CANCEL_REQUEST.to_owned(), params, beside);
            }
            Some((id, Asked::Queued { session })) => {
                let (id, session) = (id.clone(), session.clone());
                if let Some(link) = self.sessions.get_mut(&session) {
                    link.unqueue(&id);
                }
                self.prompt_cancelled(&id);
            }
            // The editor has nothing to ask of us.
            Some((_, Asked::Permission { .. } | Asked::Host)) | None => {
                count(&mut self.editor.strays.unknown_withdrawals);
            }
        }
    }
}

/// Names a request by the id that the receiver knows it by.
pub(super) fn set_request(params: &mut Value, number: u64) {
    if let Some(id) = params.get_mut("requestId") {
        *id = number.into();
    }
}
