//! Server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::Shared;
use crate::hub::{Hub, is_session_id};
use crate::page_state::{PageChange, PageChanges, Seq};

/// The parameters of a page's stream.
#[derive(Debug, Deserialize)]
pub(super) struct PageQuery {
    session: Option<String>,
    /// The session whose calls are shown.
    calls: Option<String>,
    #[serde(default)]
    visible: u8,
    /// The server that the last event came from.
    instance: Option<String>,
}

/// Streams the list of sessions and one session.
pub(super) async fn page(
    State(hub): State<Shared>,
    Query(query): Query<PageQuery>,
    headers: HeaderMap,
) -> Response {
    if let Some(session) = &query.session
        && (!is_session_id(session) || hub.lock().load(session).is_none())
    {
        return (StatusCode::NOT_FOUND, "no such session\n").into_response();
    }
    if hub.lock().viewers() >= MOST_VIEWERS {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many open pages\n").into_response();
    }
    let is_same_server = query.instance.as_ref().is_none_or(|instance| *instance == hub.instance);
    let after = last_event_id(&headers).filter(|_| is_same_server);
    let viewer = Viewer::new(&hub, query.visible == 1);
    let (sender, body) = channel();
    tokio::spawn(run_page(hub, viewer, query.session, query.calls, after, sender));
    body
}

async fn run_page(
    hub: Shared,
    viewer: Viewer,
    session: Option<String>,
    calls: Option<String>,
    mut after: Option<Seq>,
    sender: mpsc::Sender<Bytes>,
) {
    let mut watch = hub.watch();
    let hello = json!({
        "viewer": viewer.number,
        "instance": hub.instance,
        "watches": hub.lock().only_watches(),
    });
    let mut out = format!("retry: 1000\nevent: hello\ndata: {hello}\n\n");
    loop {
        watch.borrow_and_update();
        let Some(changes) = changes(&hub, session.as_deref(), calls.as_deref(), after) else {
            out.push_str("event: gone\ndata: {}\n\n");
            let _ = sender.send(out.into()).await;
            return;
        };
        let (is_snapshot, mut list) = match changes {
            PageChanges::Since(list) => (false, list),
            PageChanges::Snapshot(list) => (true, list),
        };
        list.sort_by_key(|change| change.seq);
        if is_snapshot {
            out.push_str("event: reset\ndata: {}\n\n");
        }
        let is_news = is_snapshot || !list.is_empty() || after.is_none();
        for change in list {
            change.write(&mut out);
            after = Some(change.seq);
            if out.len() > CHUNK && sender.send(std::mem::take(&mut out).into()).await.is_err() {
                return;
            }
        }
        if after.is_none() || is_snapshot {
            after = after.or(Some(hub.lock().seq()));
        }
        if is_news {
            out.push_str(&format!("event: synced\ndata: {}\n\n", after.unwrap_or_default()));
        }
        if !out.is_empty() && sender.send(std::mem::take(&mut out).into()).await.is_err() {
            return;
        }
        if wait(&mut watch, &sender, &mut out).await.is_err() {
            return;
        }
    }
}

/// Returns the changes of the list, a session and a timeline: if one needs a snapshot, all are sent whole, as
/// the page then forgets what it has. `None` if the session was deleted.
fn changes(
    hub: &Hub,
    session: Option<&str>,
    calls: Option<&str>,
    after: Option<Seq>,
) -> Option<PageChanges> {
    let mut inner = hub.lock();
    // Reading a timeline for the first time numbers its calls.
    if let Some(id) = calls {
        inner.timeline(id)?;
    }
    let now = inner.seq();
    let mut read = |after| {
        let mut all = vec![inner.home.changes(after, now)];
        if let Some(id) = session {
            all.push(inner.page(id)?.changes(after, now));
        }
        if let Some(id) = calls {
            all.push(inner.timeline(id)?.changes(after, now));
        }
        Some(all)
    };
    let all = read(after)?;
    let is_snapshot = all.iter().any(|changes| matches!(changes, PageChanges::Snapshot(_)));
    let all = if is_snapshot { read(None)? } else { all };
    let lists = all.into_iter().flat_map(|changes| match changes {
        PageChanges::Since(list) | PageChanges::Snapshot(list) => list,
    });
    let list: Vec<PageChange> = lists.collect();
    Some(if is_snapshot { PageChanges::Snapshot(list) } else { PageChanges::Since(list) })
}

/// The parameters of a typed stream.
#[derive(Debug, Deserialize)]
pub(super) struct TypedQuery {
    /// Also send the reports from before.
    #[serde(default)]
    past: u8,
}

/// Streams the reports of a session.
pub(super) async fn typed(
    State(hub): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<TypedQuery>,
    headers: HeaderMap,
) -> Response {
    if hub.lock().viewers() >= MOST_VIEWERS {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many open pages\n").into_response();
    }
    let last = match hub.lock().reports(&id) {
        None => return (StatusCode::NOT_FOUND, "no such session\n").into_response(),
        Some(reports) if query.past == 1 => reports.first().saturating_sub(1),
        Some(reports) => reports.last(),
    };
    let after = last_event_id(&headers).unwrap_or(last);
    let viewer = Viewer::new(&hub, false);
    let (sender, body) = channel();
    tokio::spawn(run_typed(hub, viewer, id, after, sender));
    body
}

async fn run_typed(
    hub: Shared,
    _viewer: Viewer,
    session: String,
    mut after: u64,
    sender: mpsc::Sender<Bytes>,
) {
    let mut watch = hub.watch();
    let mut out = "retry: 1000\n\n".to_owned();
    loop {
        watch.borrow_and_update();
        let Some(read) = hub.lock().reports(&session).map(|ring| ring.after(after, MOST_REPORTS))
        else {
            return;
        };
        if read.has_gap {
            out.push_str("event: gap\ndata: {\"type\":\"gap\"}\n\n");
            // Without a report the gap would be named again.
            after = hub.lock().reports(&session).map_or(after, |ring| ring.last());
        }
        for (number, report) in &read.reports {
            out.push_str(&format!("id: {number}\ndata: {report}\n\n"));
            after = *number;
        }
        let is_full = read.reports.len() == MOST_REPORTS;
        if !out.is_empty() && sender.send(std::mem::take(&mut out).into()).await.is_err() {
            return;
        }
        if !is_full && wait(&mut watch, &sender, &mut out).await.is_err() {
            return;
        }
    }
}

/// Waits for a change and writes heartbeats meanwhile. Errors: the reader is gone, or the server
/// ends.
async fn wait(
    watch: &mut tokio::sync::watch::Receiver<Seq>,
    sender: &mpsc::Sender<Bytes>,
    out: &mut String,
) -> Result<(), ()> {
    loop {
        tokio::select! {
            changed = watch.changed() => return changed.map_err(|_| ()),
            () = sender.closed() => return Err(()),
            () = tokio::time::sleep(HEARTBEAT) => {
                out.push_str(":\n\n");
                sender.send(std::mem::take(out).into()).await.map_err(|_| ())?;
            }
        }
    }
}

/// A stream in the hub's table, for as long as it runs.
struct Viewer {
    hub: Shared,
    number: u64,
}

impl Viewer {
    fn new(hub: &Shared, is_visible: bool) -> Self {
        let number = hub.lock().add_viewer(is_visible);
        Viewer { hub: Arc::clone(hub), number }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.hub.lock().remove_viewer(self.number);
    }
}

/// Returns a response and the sender of its body. A stream waits until its reader has taken what
/// was sent, so a stalled reader holds one chunk.
fn channel() -> (mpsc::Sender<Bytes>, Response) {
    let (sender, receiver) = mpsc::channel(1);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (sender, (headers, Body::from_stream(Chunks(receiver))).into_response())
}

struct Chunks(mpsc::Receiver<Bytes>);

impl Stream for Chunks {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(Ok))
    }
}

fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

/// Bytes that are sent at once.
const CHUNK: usize = 64 * 1024;
/// Reports that are sent at once.
const MOST_REPORTS: usize = 256;
/// Streams at the same time.
const MOST_VIEWERS: usize = 256;
/// The time between two signs of life. The page shows that it is offline after twice as long.
const HEARTBEAT: Duration = Duration::from_millis(450);
