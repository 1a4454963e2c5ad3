//! Links in paths below the workspace.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// Reads a link at a path relative to the workspace. `None` if the path is no link.
type ReadLink = dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync;

/// The workspace links, as the caller reads them.
#[derive(Clone)]
pub(super) struct Links(Arc<ReadLink>);

/// The place to which a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A path relative to the workspace; empty for the workspace.
    Inside(Vec<u8>),
    /// An absolute path outside.
    Outside(Vec<u8>),
    /// A relative path above the workspace, or too many links.
    Unknown,
}

/// Maximum number of links in a path, as in Linux.
const MAX_LINKS: usize = 40;

impl Links {
    pub(super) fn new(read: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Links(Arc::new(read))
    }

    /// Follows the links of a path relative to the workspace, that of the last component only if
    /// `follows_last`. `workspace` are the workspace's absolute names.
    pub(super) fn resolve(&self, path: &[u8], follows_last: bool, workspace: &[Vec<u8>]) -> Target {
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut rest: VecDeque<Vec<u8>> = components(path).collect();
        let mut links = 0;
        while let Some(component) = rest.pop_front() {
            match component.as_slice() {
                b"." => continue,
                b".." => {
                    if found.pop().is_none() {
                        return Target::Unknown;
                    }
                    continue;
                }
                _ => found.push(component),
            }
            if rest.is_empty() && !follows_last {
                break;
            }
            let Some(target) = (self.0)(&found.join(&b'/')) else { continue };
            links += 1;
            if links > MAX_LINKS {
                return Target::Unknown;
            }
            found.pop();
            let target = match target.strip_prefix(b"/") {
                None => target,
                Some(_) => {
                    let below = workspace.iter().find_map(|name| below(&target, name));
                    let Some(below) = below else {
                        let rest = rest.into_iter().collect::<Vec<_>>().join(&b'/');
                        return Target::Outside([&target, &b"/"[..], &rest].concat());
                    };
                    found.clear();
                    below.to_vec()
                }
            };
            let components: Vec<_> = components(&target).collect();
            components.into_iter().rev().for_each(|component| rest.push_front(component));
        }
        Target::Inside(found.join(&b'/'))
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Links(..)")
    }
}

/// Returns the part of `path` after the directory `name`.
pub(super) fn below<'a>(path: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(name.strip_suffix(b"/").unwrap_or(name))?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(b"/") }
}

fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec)
}
