//! Bodies that pass through, counted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use crate::meter::Meter;
use crate::redact::Redactor;
use crate::usage::UsageScanner;

/// The body of a response: of the proxy itself, or a provider's.
pub(crate) type ResponseBody = Either<Full<Bytes>, Passing>;

/// A body that passes through, without trailers. It has no buffer: it reads as fast as its receiver.
pub(crate) struct Passing {
    body: Incoming,
    meter: Arc<Meter>,
    direction: Direction,
}

enum Direction {
    ToProvider,
    ToAgent(Option<UsageScanner>, Option<Redactor>),
}

impl Passing {
    pub(crate) fn to_provider(body: Incoming, meter: Arc<Meter>) -> Self {
        Passing { body, meter, direction: Direction::ToProvider }
    }

    /// Tokens are counted if the scanner finds some. The redactor overwrites the key.
    pub(crate) fn to_agent(
        body: Incoming,
        meter: Arc<Meter>,
        scanner: Option<UsageScanner>,
        redactor: Option<Redactor>,
    ) -> Self {
        Passing { body, meter, direction: Direction::ToAgent(scanner, redactor) }
    }

    /// Counts the bytes, and returns those that may pass now.
    fn pass(&mut self, data: Bytes) -> Bytes {
        match &mut self.direction {
            Direction::ToProvider => self.meter.add_sent(data.len()),
            Direction::ToAgent(scanner, redactor) => {
                self.meter.add_received(data.len());
                if let Some(scanner) = scanner {
                    scanner.read(&data);
                }
                if let Some(redactor) = redactor {
                    return redactor.read(data);
                }
            }
        }
        data
    }

    fn redactor(&self) -> Option<&Redactor> {
        match &self.direction {
            Direction::ToAgent(_, redactor) => redactor.as_ref(),
            Direction::ToProvider => None,
        }
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let passing = self.get_mut();
        loop {
            let data = match ready!(Pin::new(&mut passing.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => passing.pass(data),
                    Err(_trailers) => continue,
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => match &mut passing.direction {
                    Direction::ToAgent(_, Some(redactor)) if redactor.held() > 0 => {
                        redactor.finish()
                    }
                    _ => return Poll::Ready(None),
                },
            };
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.redactor().is_none_or(|redactor| redactor.held() == 0)
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let held = self.redactor().map_or(0, Redactor::held) as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + held);
        }
        hint.set_lower(hint.lower() + held);
        hint
    }
}

impl Drop for Passing {
    /// Also for a response that the agent leaves: what was read of it was spent.
    fn drop(&mut self) {
        if let Direction::ToAgent(Some(scanner), _) = &self.direction {
            self.meter.add_tokens(scanner.tokens());
        }
    }
}
