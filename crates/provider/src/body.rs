//! Bodies that pass through, counted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use crate::meter::Meter;
use crate::usage::UsageScanner;

/// The body of a response: of the proxy itself, or a provider's.
pub(crate) type ResponseBody = Either<Full<Bytes>, Passing>;

/// A body that passes through. It has no buffer: it reads as fast as its receiver.
#[derive(Debug)]
pub(crate) struct Passing {
    body: Incoming,
    meter: Arc<Meter>,
    direction: Direction,
}

#[derive(Debug)]
enum Direction {
    ToProvider,
    ToAgent(Option<UsageScanner>),
}

impl Passing {
    pub(crate) fn to_provider(body: Incoming, meter: Arc<Meter>) -> Self {
        Passing { body, meter, direction: Direction::ToProvider }
    }

    /// Tokens are counted if the scanner finds some.
    pub(crate) fn to_agent(
        body: Incoming,
        meter: Arc<Meter>,
        scanner: Option<UsageScanner>,
    ) -> Self {
        Passing { body, meter, direction: Direction::ToAgent(scanner) }
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
        let frame = ready!(Pin::new(&mut passing.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            match &mut passing.direction {
                Direction::ToProvider => passing.meter.add_sent(data.len()),
                Direction::ToAgent(scanner) => {
                    passing.meter.add_received(data.len());
                    if let Some(scanner) = scanner {
                        scanner.read(data);
                    }
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Passing {
    /// Also for a response that the agent leaves: what was read of it was spent.
    fn drop(&mut self) {
        if let Direction::ToAgent(Some(scanner)) = &self.direction {
            self.meter.add_tokens(scanner.tokens());
        }
    }
}
