//! Judges a request by its head, and makes the request to the provider.

use hyper::header::{HOST, HeaderMap};
use hyper::{Method, Uri, Version};

use crate::headers;
use crate::key::PhantomKey;
use crate::providers::{Provider, RouteMethod};
use crate::refusal::Refusal;
use crate::target::{RouteMatch, Target, judge_route};

/// Limit of a request head.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// A request head.
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) version: Version,
    pub(crate) headers: &'a HeaderMap,
}

/// A permitted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Permitted {
    /// The path of the provider's API.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) is_web_socket: bool,
    /// Whether it costs tokens.
    pub(crate) is_counted: bool,
}

/// A provider at which this proxy has a key.
pub(crate) trait Served {
    fn provider(&self) -> &Provider;
    fn phantom(&self) -> &PhantomKey;
}

/// Judges host, provider, key, method and path. The error comes with the provider, if it is known.
pub(crate) fn judge<'a, S: Served>(
    head: &Head<'_>,
    port: u16,
    find: impl Fn(&str) -> Option<&'a S>,
    known: impl Fn() -> String,
) -> Result<(&'a S, Permitted), (Option<&'a S>, Refusal)> {
    let early = |refusal| (None, refusal);
    check_head(head, port).map_err(|invalid| early(invalid.into()))?;
    let target = Target::parse(head.uri.path(), head.uri.query());
    let target = target.map_err(|_| early(Refusal::Path))?;
    let served = find(target.provider).ok_or_else(|| early(Refusal::Provider(known())))?;
    let refuse = |refusal| (Some(served), refusal);
    if !headers::has_key(head.headers, target.key, served.phantom()) {
        return Err(refuse(Refusal::Key));
    }
    let is_web_socket = headers::is_web_socket(head.headers);
    let method = match *head.method {
        Method::GET if is_web_socket => Some(RouteMethod::WebSocket),
        Method::GET => Some(RouteMethod::Get),
        Method::POST => Some(RouteMethod::Post),
        _ => None,
    };
    let is_counted = match judge_route(served.provider(), method, target.path) {
        RouteMatch::Permitted { is_counted } => is_counted,
        RouteMatch::OtherMethod => return Err(refuse(Refusal::Method)),
        RouteMatch::Unknown => return Err(refuse(Refusal::Path)),
    };
    let path = target.path.to_owned();
    Ok((served, Permitted { path, query: target.query, is_web_socket, is_counted }))
}

/// Why a head is no request to this proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidHead {
    TooLong,
    Host,
    Malformed,
}

/// Checks length, host and form of a head.
pub(crate) fn check_head(head: &Head<'_>, port: u16) -> Result<(), InvalidHead> {
    // hyper's own limit is that of its buffer, which a head may exceed by one read.
    let fields = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let target = head.uri.path().len() + head.uri.query().map_or(0, str::len);
    if fields.sum::<usize>() + target > MAX_HEAD {
        return Err(InvalidHead::TooLong);
    }
    check_host(head.headers, port)?;
    // An absolute target or CONNECT names another host.
    match head.uri.authority().is_some() || head.version < Version::HTTP_11 {
        true => Err(InvalidHead::Malformed),
        false => Ok(()),
    }
}

/// Requests with another host come from a page or a program that was led here.
fn check_host(headers: &HeaderMap, port: u16) -> Result<(), InvalidHead> {
    let mut hosts = headers.get_all(HOST).into_iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(InvalidHead::Host) };
    let is_own = |name: &str| host.as_bytes() == format!("{name}:{port}").as_bytes();
    if is_own("127.0.0.1") || is_own("localhost") { Ok(()) } else { Err(InvalidHead::Host) }
}
