//! HTTP: routes, checks and headers (`spec/web.md#requests`).

mod api;
mod assets;
mod listener;
mod streams;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::access::{Credentials, Denied, Purpose};
use crate::clock::unix_ms;
use crate::hub::Hub;

pub(crate) use listener::Guarded;

/// What handlers share.
pub(crate) type Shared = Arc<Hub>;

/// Returns the routes.
pub(crate) fn router(hub: Shared) -> Router {
    Router::new()
        .route("/", get(assets::index))
        .route("/assets/{name}", get(assets::asset))
        .route("/media/{name}", get(media))
        .route("/sign-in", post(api::sign_in))
        .route("/api/link", post(api::link))
        .route("/api/revoke", post(api::revoke))
        .route("/api/visible", post(api::visible))
        .route("/api/stream", get(streams::page))
        .route("/api/sessions", get(api::sessions).post(api::create))
        .route("/api/sessions/{id}/events", get(streams::typed))
        .route("/api/sessions/{id}/prompt", post(api::prompt))
        .route("/api/sessions/{id}/cancel", post(api::cancel))
        .route("/api/sessions/{id}/close", post(api::close))
        .route("/api/sessions/{id}/delete", post(api::delete))
        .route("/api/questions/{id}", post(api::answer_question))
        .fallback(async || (StatusCode::NOT_FOUND, "not found\n"))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&hub), guard))
        .with_state(hub)
}

/// Checks a request and adds the headers of every response.
async fn guard(
    State(hub): State<Shared>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Response {
    let path = request.uri().path();
    let purpose = match path {
        "/" => Purpose::Page,
        "/sign-in" => Purpose::SignIn,
        path if path.starts_with("/assets/") => Purpose::Page,
        path if path.starts_with("/media/") => Purpose::Media,
        _ => Purpose::Session,
    };
    let checked = hub.lock().access.check(credentials(request.headers()), purpose, unix_ms());
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(denied) => {
            let status = match denied {
                Denied::Host => StatusCode::MISDIRECTED_REQUEST,
                Denied::Origin => StatusCode::FORBIDDEN,
                Denied::Credentials => StatusCode::UNAUTHORIZED,
            };
            (status, format!("{denied}\n")).into_response()
        }
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        if !headers.contains_key(name) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }
    response
}

fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    // A second value, or one that is not text, is not the right one either.
    let text = |name: HeaderName| {
        let mut values = headers.get_all(name).into_iter();
        let text = values.next()?.to_str().ok().filter(|_| values.next().is_none());
        Some(text.unwrap_or_default())
    };
    Credentials {
        host: text(header::HOST),
        origin: text(header::ORIGIN),
        fetch_site: text(HeaderName::from_static("sec-fetch-site")),
        cookie: text(header::COOKIE),
        key: text(HeaderName::from_static(KEY_HEADER)),
    }
}

async fn media(State(hub): State<Shared>, Path(name): Path<String>) -> Response {
    match hub.lock().media.read(&name) {
        None => (StatusCode::NOT_FOUND, "no such image\n").into_response(),
        Some((bytes, mime)) => {
            let headers = [
                (header::CONTENT_TYPE, mime),
                (header::CACHE_CONTROL, "private, max-age=31536000, immutable"),
                (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
            ];
            (headers, bytes).into_response()
        }
    }
}

/// Serves until the listener is dropped.
pub(crate) async fn serve(listener: Guarded, hub: Shared) -> std::io::Result<()> {
    axum::serve(listener, router(hub)).await
}

/// Headers of every response that has no other value.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];
/// The header with a browser key.
const KEY_HEADER: &str = "x-aifo-key";
/// The longest body: the files of a prompt in base64.
const MAX_BODY: usize = 15 * 1024 * 1024;
