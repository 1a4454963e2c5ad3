//! Which image a kind is made from.

use std::collections::HashMap;

use aifo_types::Kind;

/// Images by kind: those that were named, and for the others a name made of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Before every name that is not given in full: a registry and its path, or nothing.
    pub prefix: String,
    /// The tag where no version is wanted.
    pub tag: String,
    /// Images that were named in full.
    pub named: HashMap<Kind, String>,
    /// Versions, which become tags.
    pub versions: HashMap<Kind, String>,
}

impl Default for Images {
    fn default() -> Self {
        Images {
            prefix: String::new(),
            tag: "latest".to_owned(),
            named: HashMap::new(),
            versions: HashMap::new(),
        }
    }
}

impl Images {
    /// The image of a kind, with its tag.
    pub fn of(&self, kind: &Kind) -> String {
        if let Some(named) = self.named.get(kind) {
            return named.clone();
        }
        let tag = self.versions.get(kind).unwrap_or(&self.tag);
        format!("{}aifo-toolchain-{kind}:{tag}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_or_made_of_parts() {
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
