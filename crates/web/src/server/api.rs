//! Commands by POST, each with an idempotency key.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::Shared;
use crate::clock::unix_ms;
use crate::hub::{ApiError, NewPrompt};

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        answer(status.as_u16(), &json!({"error": self.message}).to_string())
    }
}

/// Exchanges the secret of a link for a cookie and a key.
pub(super) async fn sign_in(State(hub): State<Shared>, body: String) -> Response {
    match hub.lock().access.exchange(body.trim(), unix_ms()) {
        Ok(Some(granted)) => {
            let body = json!({"key": granted.key}).to_string();
            let mut response = answer(200, &body);
            if let Ok(cookie) = granted.set_cookie.parse() {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Ok(None) => ApiError::new(403, "the link is unknown, used or expired").into_response(),
        Err(error) => ApiError::new(500, error.to_string()).into_response(),
    }
}

/// Creates a link for another browser.
pub(super) async fn link(State(hub): State<Shared>) -> Response {
    let mut inner = hub.lock();
    let now = unix_ms();
    let secret = inner.access.new_link(Some(now.saturating_add(LINK_MS)), now);
    match secret {
        Ok(secret) => {
            let origin = inner.access.address().origins().first().cloned().unwrap_or_default();
            let link = format!("{origin}/#{secret}");
            answer(200, &json!({"link": link, "seconds": LINK_MS / 1000}).to_string())
        }
        Err(error) => ApiError::new(429, error.to_string()).into_response(),
    }
}

/// Signs every browser out.
pub(super) async fn revoke(State(hub): State<Shared>) -> Response {
    match hub.lock().access.revoke() {
        Ok(()) => answer(200, "{}"),
        Err(error) => ApiError::new(500, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct Visible {
    viewer: u64,
    visible: bool,
}

/// Notes whether a browser shows the page.
pub(super) async fn visible(State(hub): State<Shared>, body: Bytes) -> Response {
    match serde_json::from_slice::<Visible>(&body) {
        Ok(Visible { viewer, visible }) => {
            hub.lock().set_visible(viewer, visible);
            answer(200, "{}")
        }
        Err(error) => ApiError::new(400, error.to_string()).into_response(),
    }
}

pub(super) async fn sessions(State(hub): State<Shared>) -> Response {
    answer(200, &hub.list().to_string())
}

pub(super) async fn create(State(hub): State<Shared>, headers: HeaderMap) -> Response {
    once(&hub, &headers, "create", |_| {
        hub.create_session().map(|id| json!({"session": id}).to_string())
    })
}

pub(super) async fn prompt(
    State(hub): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    once(&hub, &headers, &format!("prompt {id}"), |key| {
        let prompt: NewPrompt = parse(&body)?;
        hub.prompt(&id, prompt, key).map(|()| "{}".to_owned())
    })
}

pub(super) async fn cancel(
    State(hub): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let name = format!("cancel {id}");
    once(&hub, &headers, &name, |_| hub.cancel(&id).map(|()| "{}".to_owned()))
}

pub(super) async fn close(
    State(hub): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let name = format!("close {id}");
    once(&hub, &headers, &name, |_| hub.close(&id).map(|()| "{}".to_owned()))
}

pub(super) async fn delete(
    State(hub): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let name = format!("delete {id}");
    once(&hub, &headers, &name, |_| hub.delete(&id).map(|()| "{}".to_owned()))
}

#[derive(Deserialize)]
struct Answer {
    option: String,
    /// The shown change of the user's file, for *always*.
    change: Option<String>,
}

/// Answers a question, or a waiting call. Its own state makes that idempotent.
pub(super) async fn answer_question(
    State(hub): State<Shared>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response {
    let answered = match parse(&body) {
        Ok(given) => give(&hub, &id, given).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(()) => answer(200, "{}"),
        Err(error) => error.into_response(),
    }
}

async fn give(hub: &Shared, id: &str, given: Answer) -> Result<(), ApiError> {
    let Some(sent) = hub.answer_call(id, &given.option, given.change.as_deref()) else {
        return hub.answer(id, &given.option);
    };
    match sent?.await {
        Ok(answered) => answered.map_err(|why| ApiError::new(409, why)),
        Err(_) => Err(ApiError::new(503, "the server ends")),
    }
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::new(400, error.to_string()))
}

/// Runs a command once for its idempotency key.
fn once(
    hub: &Shared,
    headers: &HeaderMap,
    name: &str,
    run: impl FnOnce(&str) -> Result<String, ApiError>,
) -> Response {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let Some(key) = key.filter(|key| (8..=128).contains(&key.len())) else {
        let why = "the header Idempotency-Key is missing: 8 to 128 characters";
        return ApiError::new(400, why).into_response();
    };
    let (status, body) = hub.once(&format!("{name} {key}"), || match run(key) {
        Ok(body) => (200, body),
        Err(error) => (error.status, json!({"error": error.message}).to_string()),
    });
    answer(status, &body)
}

fn answer(status: u16, body: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (status, headers, body.to_owned()).into_response()
}

/// How long a link for another browser is valid.
const LINK_MS: u64 = 10 * 60 * 1000;
