//! Heads of requests to a proxy on the agent's localhost.

use std::io;

use hyper::header::{HOST, HeaderMap};
use hyper::{Method, Request, StatusCode, Uri, Version};
use tokio::net::TcpListener;

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

impl<'a> Head<'a> {
    pub(crate) fn of<B>(request: &'a Request<B>) -> Head<'a> {
        Head {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
        }
    }
}

/// Returns the values of `Host` for a listener on localhost.
pub(crate) fn local_hosts(listener: &TcpListener) -> io::Result<[String; 2]> {
    let port = listener.local_addr()?.port();
    Ok(["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}")))
}

/// Checks length, host and form of a head.
pub(crate) fn check_head(head: &Head<'_>, hosts: &[String]) -> Result<(), InvalidRequest> {
    // hyper's own limit is that of its buffer, which a head may exceed by one read.
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let target = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    if fields.sum::<usize>() + target > MAX_HEAD {
        return Err(InvalidRequest::LongHead);
    }
    check_host(head.headers, hosts)?;
    // An absolute target or CONNECT names another host.
    match head.uri.authority().is_some() || head.version < Version::HTTP_11 {
        true => Err(InvalidRequest::Malformed),
        false => Ok(()),
    }
}

/// Requests with another host come from a page or a program that was led here.
fn check_host(headers: &HeaderMap, own: &[String]) -> Result<(), InvalidRequest> {
    let mut hosts = headers.get_all(HOST).into_iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(InvalidRequest::Host) };
    match own.iter().any(|own| host == own.as_str()) {
        true => Ok(()),
        false => Err(InvalidRequest::Host),
    }
}
