//! Commands of browsers.

use aifo_acp::Image;
use aifo_policy::{AnswerEffect, AnswerError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Command, Hub, Inner, Slot, is_busy};
use crate::access::secret;
use crate::block::{Attachment, QuestionEnd};
use crate::clock::unix_ms;
use crate::history::SessionFacts;
use crate::journal::Journal;
use crate::media::MAX_IMAGE;
use crate::report_log::{ReportLog, path_beside};
use crate::session_state::{Activity, SessionState};

/// A refused command: the HTTP status and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) message: String,
}

/// A prompt of a browser.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPrompt {
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) attachments: Vec<NewAttachment>,
}

/// A file of a prompt.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAttachment {
    pub(crate) name: String,
    pub(crate) mime: String,
    /// Base64.
    pub(crate) data: String,
}

impl ApiError {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        ApiError { status, message: message.into() }
    }
}

fn unknown(session: &str) -> ApiError {
    ApiError::new(404, format!("no session '{session}'"))
}

impl Hub {
    /// Creates a session and returns its id.
    pub(crate) fn create_session(&self) -> Result<String, ApiError> {
        let mut inner = self.lock();
        if inner.only_watches() {
            return Err(ApiError::new(409, "this server only watches sessions"));
        }
        if inner.sessions.len() >= MOST_SESSIONS {
            return Err(ApiError::new(409, "too many sessions; delete one first"));
        }
        let failed = |error: std::io::Error| ApiError::new(500, error.to_string());
        let id: String = secret().map_err(failed)?.chars().take(16).collect();
        let now = unix_ms();
        let facts = SessionFacts {
            id: id.clone(),
            agent: inner.agent.clone(),
            cwd: inner.cwd.clone(),
            created: now,
            changed: now,
            ..SessionFacts::default()
        };
        let path = inner.storage.history(&id);
        let (journal, _) = Journal::open(&path).map_err(failed)?;
        let limits = inner.storage.report_limits();
        let reports = ReportLog::open(&path_beside(&path), limits).map_err(failed)?;
        let mut state = SessionState::new(facts.clone(), inner.storage.session_bytes, inner.seq);
        state.limit_removals(inner.storage.removals);
        let loaded = super::Loaded { state, journal, reports };
        inner.sessions.insert(id.clone(), Slot { facts, loaded: Some(Box::new(loaded)) });
        self.flush(&mut inner, None);
        Ok(id)
    }

    /// Adds a prompt to a session history and sends it to the driver.
    pub(crate) fn prompt(&self, id: &str, prompt: NewPrompt, key: &str) -> Result<(), ApiError> {
        let mut inner = self.lock();
        let state = inner.load(id).ok_or_else(|| unknown(id))?;
        if state.has_request(key) {
            return Ok(());
        }
        if is_busy(state.activity()) {
            return Err(ApiError::new(409, "the session has a running turn"));
        }
        if prompt.text.trim().is_empty() && prompt.attachments.is_empty() {
            return Err(ApiError::new(400, "the prompt is empty"));
        }
        let (attachments, blocks) = inner.content(&prompt)?;
        let state = inner.load(id).ok_or_else(|| unknown(id))?;
        state.set_facts(|facts| facts.closed = false);
        state.add_prompt(prompt.text, attachments, key.to_owned(), unix_ms());
        self.flush(&mut inner, None);
        drop(inner);
        self.send(Command::Prompt { session: id.to_owned(), blocks });
        Ok(())
    }

    /// Cancels a session's turn. Without one there is nothing to do.
    pub(crate) fn cancel(&self, id: &str) -> Result<(), ApiError> {
        let mut inner = self.lock();
        let state = inner.load(id).ok_or_else(|| unknown(id))?;
        if is_busy(state.activity()) {
            state.set_activity(Activity::Cancelling);
            self.flush(&mut inner, None);
            drop(inner);
            self.send(Command::Cancel { session: id.to_owned() });
        }
        Ok(())
    }

    /// Closes a session: its turn is cancelled, its history stays.
    pub(crate) fn close(&self, id: &str) -> Result<(), ApiError> {
        self.cancel(id)?;
        let mut inner = self.lock();
        let state = inner.load(id).ok_or_else(|| unknown(id))?;
        state.set_facts(|facts| facts.closed = true);
        self.flush(&mut inner, None);
        drop(inner);
        self.send(Command::Close { session: id.to_owned() });
        Ok(())
    }

    /// Deletes an idle session with its history.
    pub(crate) fn delete(&self, id: &str) -> Result<(), ApiError> {
        let mut inner = self.lock();
        let state = inner.load(id).ok_or_else(|| unknown(id))?;
        if is_busy(state.activity()) {
            return Err(ApiError::new(409, "the session has a running turn"));
        }
        inner.remove(id);
        self.flush(&mut inner, None);
        drop(inner);
        self.send(Command::Close { session: id.to_owned() });
        Ok(())
    }

    /// Answers a question. The first answer counts.
    pub(crate) fn answer(&self, question: &str, option: &str) -> Result<(), ApiError> {
        let mut inner = self.lock();
        let effect = inner.questions.answer(question, option).map_err(|error| {
            let status = match error {
                AnswerError::Unknown(_) => 404,
                AnswerError::NotOffered { .. } => 400,
                AnswerError::Decided { .. } | AnswerError::Withdrawn { .. } => 409,
            };
            ApiError::new(status, error.to_string())
        })?;
        if effect == AnswerEffect::Repeated {
            return Ok(());
        }
        let options = inner.questions.get(question).map(|question| question.options.as_slice());
        let place = options.into_iter().flatten().position(|offered| offered.id == option);
        let session = question.split('-').next().unwrap_or_default().to_owned();
        if let Some(state) = inner.load(&session) {
            let end = QuestionEnd::Answered { option: option.to_owned(), by: "you".to_owned() };
            state.end_question(question, end);
        }
        self.flush(&mut inner, None);
        drop(inner);
        let option = place.unwrap_or_default();
        self.send(Command::Answer { question: question.to_owned(), option });
        Ok(())
    }

    /// Returns the sessions, the newest first.
    pub(crate) fn list(&self) -> Value {
        let inner = self.lock();
        let mut sessions: Vec<&SessionFacts> =
            inner.sessions.values().map(|slot| &slot.facts).collect();
        sessions.sort_by_key(|facts| std::cmp::Reverse(facts.created));
        json!(sessions)
    }

    /// Returns the remembered answer to a request, or makes and remembers it.
    pub(crate) fn once(&self, key: &str, make: impl FnOnce() -> (u16, String)) -> (u16, String) {
        if let Some(answer) = self.lock().answers.get(key) {
            return answer.clone();
        }
        let answer = make();
        let mut inner = self.lock();
        inner.answers.insert(key.to_owned(), answer.clone());
        inner.answer_order.push_back(key.to_owned());
        if inner.answer_order.len() > MOST_ANSWERS
            && let Some(oldest) = inner.answer_order.pop_front()
        {
            inner.answers.remove(&oldest);
        }
        answer
    }
}

impl Inner {
    /// Checks a prompt's files and returns them with the blocks for the agent.
    fn content(&mut self, prompt: &NewPrompt) -> Result<(Vec<Attachment>, Value), ApiError> {
        let mut blocks = vec![json!({"type": "text", "text": prompt.text})];
        let mut attachments = Vec::new();
        if prompt.attachments.len() > MOST_FILES {
            return Err(ApiError::new(413, format!("more than {MOST_FILES} files")));
        }
        for file in &prompt.attachments {
            let name: String =
                file.name.chars().filter(|char| !char.is_control()).take(200).collect();
            let bytes = STANDARD
                .decode(&file.data)
                .map_err(|_| ApiError::new(400, format!("'{name}' is not valid base64")))?;
            if bytes.len() > MAX_IMAGE {
                return Err(ApiError::new(413, format!("'{name}' is larger than 10 MiB")));
            }
            let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let image = Image::decode(&file.mime, &file.data, MAX_IMAGE)
                .and_then(|image| self.media.store(&image));
            if image.is_some() && self.prompt_images {
                blocks.push(json!({"type": "image", "mimeType": file.mime, "data": file.data}));
            } else {
                let text = String::from_utf8(bytes).map_err(|_| {
                    ApiError::new(415, format!("the agent takes no files such as '{name}'"))
                })?;
                let uri = format!("attachment:///{}", name.replace(['/', '\\'], "_"));
                if self.prompt_resources {
                    let resource = json!({"uri": uri, "mimeType": "text/plain", "text": text});
                    blocks.push(json!({"type": "resource", "resource": resource}));
                } else {
                    let text = format!("\n\nAttached file {name}:\n\n{text}\n");
                    blocks.push(json!({"type": "text", "text": text}));
                }
            }
            attachments.push(Attachment { name, bytes: len, image });
        }
        Ok((attachments, Value::Array(blocks)))
    }
}

/// Answers that are remembered for repeated requests.
const MOST_ANSWERS: usize = 4096;
/// Sessions of a server.
const MOST_SESSIONS: usize = 500;
/// Files of one prompt.
const MOST_FILES: usize = 10;
