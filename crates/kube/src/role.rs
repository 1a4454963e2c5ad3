//! The role to run sessions.

use crate::yaml::{Entry, Node, list, map};

/// The right to run sessions in a namespace, for a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The namespace.
    pub namespace: String,
    /// The subject that gets it.
    pub subject: Subject,
}

/// A subject of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The cluster user.
    User(String),
    /// A group of users.
    Group(String),
    /// A service account of the namespace.
    ServiceAccount(String),
}

/// A right of the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The API group.
    pub group: &'static str,
    /// The resource, such as `pods` or `pods/exec`.
    pub resource: &'static str,
    /// The verb.
    pub verb: &'static str,
}

/// The name of role and binding.
const NAME: &str = "aifo-sessions";
const API_GROUP: &str = "rbac.authorization.k8s.io";

/// The rights: resources of an API group, verbs, and their use.
const RULES: [(&str, &[&str], &[&str], &str); 5] = [
    ("", &["pods"], &["create", "delete", "get", "list", "watch"], "Sessions."),
    ("", &["pods/attach", "pods/exec"], &["create", "get"], "Their terminals and commands."),
    ("", &["pods/log"], &["get"], "Errors of a start."),
    ("", &["events"], &["get", "list", "watch"], "The progress of a start."),
    (
        "networking.k8s.io",
        &["networkpolicies"],
        &["create", "delete", "get", "list", "patch"],
        "Their networks.",
    ),
];

impl Role {
    /// Returns its rights.
    pub fn rights() -> impl Iterator<Item = Right> {
        RULES.into_iter().flat_map(|(group, resources, verbs, _)| {
            resources.iter().flat_map(move |resource| {
                verbs.iter().map(move |verb| Right { group, resource, verb })
            })
        })
    }

    /// Returns a role and its binding, as YAML with comments.
    pub fn render(&self) -> String {
        let rules = RULES.map(|(group, resources, verbs, comment)| {
            map([
                Entry::new("apiGroups", list([group])).comment(comment),
                Entry::new("resources", list(resources.iter().copied())),
                Entry::new("verbs", list(verbs.iter().copied())),
            ])
        });
        let role = self.object("Role", [Entry::new("rules", list(rules))]);
        let reference = map([
            Entry::new("apiGroup", API_GROUP),
            Entry::new("kind", "Role"),
            Entry::new("name", NAME),
        ]);
        let subjects = list([self.subject()]);
        let binding = self.object(
            "RoleBinding",
            [Entry::new("roleRef", reference), Entry::new("subjects", subjects)],
        );
        format!("{}---\n{}", role.print(), binding.print())
    }

    fn object(&self, kind: &str, entries: impl IntoIterator<Item = Entry>) -> Node {
        let metadata = [Entry::new("name", NAME), Entry::new("namespace", self.namespace.as_str())];
        let head = [
            Entry::new("apiVersion", format!("{API_GROUP}/v1")),
            Entry::new("kind", kind),
            Entry::new("metadata", map(metadata)),
        ];
        map(head.into_iter().chain(entries))
    }

    fn subject(&self) -> Node {
        let (kind, name, place) = match &self.subject {
            Subject::User(name) => ("User", name, Entry::new("apiGroup", API_GROUP)),
            Subject::Group(name) => ("Group", name, Entry::new("apiGroup", API_GROUP)),
            Subject::ServiceAccount(name) => {
                ("ServiceAccount", name, Entry::new("namespace", self.namespace.as_str()))
            }
        };
        map([Entry::new("kind", kind), Entry::new("name", name.as_str()), place])
    }
}
