//! Judges a request by its head, and makes the request to the provider.

use hyper::Method;

use crate::head::{Head, check_head};
use crate::headers;
use crate::key::PhantomKey;
use crate::providers::{Provider, RouteMethod};
use crate::refusal::Refusal;
use crate::target::{RouteMatch, Target, judge_route};

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
    hosts: &[String],
    find: impl Fn(&str) -> Option<&'a S>,
    known: impl Fn() -> String,
) -> Result<(&'a S, Permitted), (Option<&'a S>, Refusal)> {
    let early = |refusal| (None, refusal);
    check_head(head, hosts).map_err(|invalid| early(invalid.into()))?;
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
