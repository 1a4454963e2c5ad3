//! A pod container.

use crate::security;
use crate::session_pod::Limits;
use crate::volumes::WORKSPACE_PATH as WORKSPACE;
use crate::yaml::{Entry, Node, list, map};

/// Memory of the launcher container: its programs need 15 MB, and a log is written.
const LAUNCHER_MEMORY: (&str, &str) = ("32Mi", "256Mi");
/// Thousandths of a processor that the launcher container requests, if it has a limit.
const LAUNCHER_MILLI_CPUS: u64 = 100;

/// Returns a variable of a container.
pub(crate) fn variable(name: &str, value: &str) -> Node {
    map([Entry::new("name", name), Entry::new("value", unexpanded(value))])
}

/// Whether a container starts without a key of a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
}

pub(crate) fn secret_variable(name: &str, secret: &str, key: &str, presence: Presence) -> Node {
    let optional = (presence == Presence::Optional).then(|| Entry::new("optional", true));
    let entries = [Entry::new("name", secret), Entry::new("key", key)];
    let reference = map(entries.into_iter().chain(optional));
    let source = map([Entry::new("secretKeyRef", reference)]);
    map([Entry::new("name", name), Entry::new("valueFrom", source)])
}

/// A container to print.
pub(crate) struct Container<'a> {
    pub(crate) name: &'a str,
    pub(crate) image: &'a str,
    pub(crate) comment: &'a str,
    pub(crate) command: Node,
    pub(crate) mounts: Vec<Node>,
    pub(crate) limits: Limits,
    pub(crate) terminal: bool,
    pub(crate) is_launcher: bool,
}

impl Default for Container<'_> {
    fn default() -> Self {
        Container {
            name: "",
            image: "",
            comment: "",
            command: list::<Node>([]),
            mounts: Vec::new(),
            limits: Limits::default(),
            terminal: false,
            is_launcher: false,
        }
    }
}

impl Container<'_> {
    pub(crate) fn node(self, variables: Vec<Node>) -> Node {
        let resources = self.resources();
        let mut entries = vec![
            Entry::new("name", self.name).comment(self.comment),
            Entry::new("image", self.image),
            Entry::new("imagePullPolicy", "IfNotPresent"),
            Entry::new("command", escaped(self.command)),
        ];
        if self.name != "install" {
            entries.push(Entry::new("workingDir", WORKSPACE));
        }
        if self.terminal {
            entries.extend([Entry::new("stdin", true), Entry::new("tty", true)]);
        }
        entries.extend((!variables.is_empty()).then(|| Entry::new("env", list(variables))));
        entries.extend(resources.map(|node| Entry::new("resources", node)));
        entries.push(Entry::new("securityContext", security::of_container()));
        entries.push(Entry::new("volumeMounts", list(self.mounts)));
        map(entries)
    }

    fn resources(&self) -> Option<Node> {
        let processors = |milli: u64| Entry::new("cpu", format!("{milli}m"));
        if self.is_launcher {
            let limit = self.limits.milli_cpus;
            let of = |memory: &str, milli: Option<u64>| {
                map([Entry::new("memory", memory)].into_iter().chain(milli.map(processors)))
            };
            let (requested, most) = LAUNCHER_MEMORY;
            let requests = of(requested, limit.map(|milli| milli.min(LAUNCHER_MILLI_CPUS)));
            let entries = [Entry::new("requests", requests), Entry::new("limits", of(most, limit))];
            return Some(map(entries));
        }
        let memory = self.limits.memory.map(|bytes| Entry::new("memory", bytes.to_string()));
        let cpu = self.limits.milli_cpus.map(processors);
        let limits: Vec<Entry> = memory.into_iter().chain(cpu).collect();
        (!limits.is_empty()).then(|| map([Entry::new("limits", map(limits))]))
    }
}

fn escaped(command: Node) -> Node {
    match command {
        Node::List(words) => Node::List(words.into_iter().map(escaped).collect()),
        Node::Text(word) => Node::Text(unexpanded(&word)),
        other => other,
    }
}

/// Escapes a text of a command or variable, in which Kubernetes replaces `$$`, and `$(NAME)` by a variable
/// of the container. Podman does neither, so other texts stay unchanged.
fn unexpanded(text: &str) -> String {
    let mut escaped = String::new();
    for (index, part) in text.replace("$$", "$$$$").split("$(").enumerate() {
        if index > 0 {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
            let name = part.split_once(')').map(|(name, _)| name);
            let refers = name.is_some_and(|name| !name.is_empty() && name.bytes().all(is_name));
            escaped.push_str(if refers { "$$(" } else { "$(" });
        }
        escaped.push_str(part);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_references_and_double_dollars_are_escaped() {
        assert_eq!(unexpanded("$(HOME) $(ls x) $$ $HOME $("), "$$(HOME) $(ls x) $$$$ $HOME $(");
    }
}
