//! Heads of requests to a proxy on the agent's localhost.

use hyper::header::{HOST, HeaderMap};
use hyper::{Method, StatusCode, Uri, Version};

/// Limit of a request head.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// A request head.
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) version: Version,
    pub(crate) headers: &'a HeaderMap,
}

/// Why a request is none to this proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidRequest {
    #[error("the head of the request is longer than 64 KiB")]
    LongHead,
    #[error("the host of this request is not this proxy")]
    Host,
    #[error("the request is malformed")]
    Malformed,
}

impl InvalidRequest {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            InvalidRequest::LongHead => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            InvalidRequest::Host => StatusCode::MISDIRECTED_REQUEST,
            InvalidRequest::Malformed => StatusCode::BAD_REQUEST,
        }
    }
}

/// Checks length, host and form of a head.
pub(crate) fn check_head(head: &Head<'_>, port: u16) -> Result<(), InvalidRequest> {
    // hyper's own limit is that of its buffer, which a head may exceed by one read.
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let target = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    if fields.sum::<usize>() + target > MAX_HEAD {
        return Err(InvalidRequest::LongHead);
    }
    check_host(head.headers, port)?;
    // An absolute target or CONNECT names another host.
    match head.uri.authority().is_some() || head.version < Version::HTTP_11 {
        true => Err(InvalidRequest::Malformed),
        false => Ok(()),
    }
}

/// Requests with another host come from a page or a program that was led here.
fn check_host(headers: &HeaderMap, port: u16) -> Result<(), InvalidRequest> {
    let mut hosts = headers.get_all(HOST).into_iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(InvalidRequest::Host) };
    let is_own = |name: &str| host.as_bytes() == format!("{name}:{port}").as_bytes();
    if is_own("127.0.0.1") || is_own("localhost") { Ok(()) } else { Err(InvalidRequest::Host) }
}
