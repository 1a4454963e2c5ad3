//! Bodies that pass through, counted.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::Value;
use tokio::time::timeout;

use crate::background::Background;
use crate::meter::{Meter, Reservation};
use crate::redact::Redactor;
use crate::usage::UsageScanner;

/// The body of a request to a provider: as it arrives, or read before to count it.
pub(crate) type RequestBody = Either<Sent, Full<Bytes>>;

/// The body of a response: of the proxy itself, or a provider's.
pub(crate) type ResponseBody = Either<Full<Bytes>, Received>;

/// A request's body that passes through, without trailers. It has no buffer: it reads as fast as its receiver.
pub(crate) struct Sent {
    /// Bytes that were read before, in what they became.
    begin: Option<Bytes>,
    body: Incoming,
    meter: Arc<Meter>,
}

/// A response's body that passes through in the same way.
pub(crate) struct Received {
    /// `None` once it is dropped.
    counted: Option<Counted>,
    redactor: Redactor,
    background: Arc<Background>,
}

/// A response's body whose bytes and tokens are counted.
pub(crate) struct Counted {
    body: Incoming,
    meter: Arc<Meter>,
    /// `None` for a type without usage.
    scanner: Option<UsageScanner>,
    /// `None` for a request that costs no tokens, and after the end.
    reservation: Option<Reservation>,
    /// The first bytes of an error.
    error: Option<Vec<u8>>,
}

/// The longest plain error in bytes.
const MAX_ERROR: usize = 4096;

/// Members of a plain error, and of the object `error` in it.
const OF_ERROR: [&str; 13] = [
    "code",
    "detail",
    "details",
    "error",
    "innererror",
    "message",
    "metadata",
    "object",
    "param",
    "request_id",
    "status",
    "type",
    "user_id",
];

/// Limits of what is read of a response after the agent has left.
const MAX_UNSENT: usize = 16 << 20;
const UNSENT_TIME: Duration = Duration::from_secs(60);

/// Returns an answer of the proxy itself to a request that it does not pass on.
pub(crate) fn refused(
    status: StatusCode,
    content_type: &'static str,
    text: String,
) -> Response<ResponseBody> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert("x-aifo-refused", HeaderValue::from_static("1"));
    response
}

impl Sent {
    pub(crate) fn new(body: Incoming, meter: Arc<Meter>) -> Self {
        Sent { begin: None, body, meter }
    }

    /// Returns a body that begins with these bytes.
    pub(crate) fn with_begin(begin: Bytes, body: Incoming, meter: Arc<Meter>) -> Self {
        Sent { begin: (!begin.is_empty()).then_some(begin), body, meter }
    }
}

impl Counted {
    pub(crate) fn new(
        body: Incoming,
        meter: Arc<Meter>,
        content_type: &str,
        mut reservation: Option<Reservation>,
        is_error: bool,
    ) -> Self {
        if let Some(reservation) = reservation.as_mut().filter(|_| is_error) {
            reservation.fail();
        }
        let (scanner, error) = (UsageScanner::of(content_type), is_error.then(Vec::new));
        Counted { body, meter, scanner, reservation, error }
    }

    fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        let data = ready!(poll_data(&mut self.body, context));
        match &data {
            Some(Ok(data)) => {
                self.meter.add_received(data.len());
                if let Some(error) = &mut self.error {
                    let room = (MAX_ERROR + 1).saturating_sub(error.len());
                    error.extend(data.iter().take(room));
                }
                if let Some(reservation) = &mut self.reservation {
                    reservation.add_received(data.len());
                    if let Some(scanner) = &mut self.scanner {
                        scanner.read(data);
                        reservation.counted = scanner.tokens();
                    }
                }
            }
            // The body seems to end afterwards. The reservation is charged in full.
            Some(Err(_)) => self.reservation = None,
            None => self.finish(),
        }
        Poll::Ready(data)
    }

    /// The response has ended: it costs the usage of the whole, if it has that.
    fn finish(&mut self) {
        let Some(mut reservation) = self.reservation.take() else { return };
        match self.is_plain_error() || self.scanner.as_ref().is_some_and(UsageScanner::is_final) {
            true => reservation.settle(),
            false => reservation.end(),
        }
    }

    /// True for an error without usage and without anything that a model made.
    fn is_plain_error(&self) -> bool {
        let Some(error) = self.error.as_ref().filter(|error| error.len() <= MAX_ERROR) else {
            return false;
        };
        // Text of a gateway is of another type than a model's.
        let unread = self.scanner.is_none() || error.is_empty();
        serde_json::from_slice(error).map_or(unread, |value| is_plain(&value))
    }

    /// Reads the rest within its limits. The reservation is charged for what is not read.
    async fn read_rest(mut self) {
        let reading = async {
            let mut read = 0;
            while let Some(Ok(data)) = poll_fn(|context| self.poll_data(context)).await
                && read < MAX_UNSENT
            {
                read += data.len();
            }
        };
        let _ = timeout(UNSENT_TIME, reading).await;
    }
}

impl Received {
    /// The redactor overwrites the key.
    pub(crate) fn new(counted: Counted, redactor: Redactor, background: Arc<Background>) -> Self {
        Received { counted: Some(counted), redactor, background }
    }
}

impl Drop for Received {
    /// An agent that leaves a response does not hide its usage.
    fn drop(&mut self) {
        let Some(mut counted) = self.counted.take() else { return };
        if counted.body.is_end_stream() {
            counted.finish();
        }
        if counted.reservation.as_ref().is_some_and(Reservation::is_open) {
            self.background.spawn(counted.read_rest());
        }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Sent { begin, body, meter } = self.get_mut();
        let data = match begin.take() {
            Some(begin) => Some(Ok(begin)),
            None => ready!(poll_data(body, context)),
        };
        if let Some(Ok(data)) = &data {
            meter.add_sent(data.len());
        }
        Poll::Ready(data.map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.begin.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let begin = self.begin.as_ref().map_or(0, Bytes::len) as u64;
        let mut hint = self.body.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + begin);
        }
        hint.set_lower(hint.lower() + begin);
        hint
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Received { counted: Some(counted), redactor, .. } = self.get_mut() else {
            return Poll::Ready(None);
        };
        loop {
            let data = match ready!(counted.poll_data(context)) {
                Some(Ok(data)) => redactor.read(data),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None if redactor.held() > 0 => redactor.finish(),
                None => return Poll::Ready(None),
            };
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_end = self.counted.as_ref().is_none_or(|counted| counted.body.is_end_stream());
        is_end && self.redactor.held() == 0
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.counted.as_ref().map(|counted| &counted.body);
        let mut hint = body.map(Body::size_hint).unwrap_or_default();
        let held = self.redactor.held() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + held);
        }
        hint.set_lower(hint.lower() + held);
        hint
    }
}

fn is_plain(error: &Value) -> bool {
    match error {
        Value::Array(errors) => errors.iter().all(is_plain),
        Value::Object(members) => members.iter().all(|(name, value)| {
            OF_ERROR.contains(&name.as_str()) && (name != "error" || is_plain(value))
        }),
        _ => true,
    }
}

/// Reads the next data, past trailers.
pub(crate) fn poll_data(
    body: &mut Incoming,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, hyper::Error>>> {
    loop {
        match ready!(Pin::new(&mut *body).poll_frame(context)) {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(Ok(data)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        }
    }
}
