//! The images of the kinds.

use std::collections::{BTreeSet, HashMap};

use aifo_types::Kind;

/// The images of the kinds: configured names, and for other kinds a name from prefix, kind and tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// The prefix of a constructed name: a registry and its path, or empty.
    pub prefix: String,
    /// The tag of kinds without a version.
    pub tag: String,
    /// Configured names, unchanged.
    pub named: HashMap<Kind, String>,
    /// Versions, used as tags.
    pub versions: HashMap<Kind, String>,
    /// Kinds whose sidecar does not start without an image on this machine; for others the engine pulls it.
    pub never_pulled: BTreeSet<Kind>,
}

impl Default for Images {
    fn default() -> Self {
        Images {
            prefix: String::new(),
            tag: "latest".to_owned(),
            named: HashMap::new(),
            versions: HashMap::new(),
            never_pulled: BTreeSet::new(),
        }
    }
}

impl Images {
    /// Returns the image of a kind, with its tag.
    pub fn of(&self, kind: &Kind) -> String {
        if let Some(named) = self.named.get(kind) {
            return named.clone();
        }
        let tag = self.versions.get(kind).unwrap_or(&self.tag);
        format!("{}aifo-toolchain-{kind}:{tag}", self.prefix)
    }

    /// Returns whether the image of a kind is the one that `aifo-coder images build` makes.
    pub fn is_usual(&self, kind: &Kind) -> bool {
        self.of(kind) == format!("aifo-toolchain-{kind}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_configured_names_before_constructed_ones() {
        let kind = |name: &str| Kind::parse(name).unwrap();
        let mut images = Images::default();
        assert_eq!(images.of(&kind("c-cpp")), "aifo-toolchain-c-cpp:latest");
        images.prefix = "registry.example/team/".to_owned();
        images.tag = "2026-01".to_owned();
        images.versions.insert(kind("rust"), "1.95".to_owned());
        images.named.insert(kind("go"), "golang:1.22".to_owned());
        assert_eq!(images.of(&kind("node")), "registry.example/team/aifo-toolchain-node:2026-01");
        assert_eq!(images.of(&kind("rust")), "registry.example/team/aifo-toolchain-rust:1.95");
        assert_eq!(images.of(&kind("go")), "golang:1.22");
    }
}
