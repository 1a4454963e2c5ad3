//! The part of a registry that images are pushed to.

use std::fmt;

/// A registry and the first part of the names in it: `registry.example:5000/team`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination(String);

/// Why a text names no part of a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a registry with a prefix: {reason}\nhint: {hint}")]
pub struct DestinationError {
    text: String,
    reason: &'static str,
    hint: &'static str,
}

impl Destination {
    /// Parses `REGISTRY[:PORT][/PREFIX]`. A slash at the end is ignored.
    pub fn parse(text: &str) -> Result<Self, DestinationError> {
        let error = |reason, hint| Err(DestinationError { text: text.to_owned(), reason, hint });
        let name = text.strip_suffix('/').unwrap_or(text);
        if name.contains("://") {
            return error("it has a scheme", "leave it out: registry.example/team");
        }
        let (registry, path) = match name.split_once('/') {
            Some((registry, path)) => (registry, Some(path)),
            None => (name, None),
        };
        let (host, port) = match registry.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry, None),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-[]:".contains(&byte);
        let is_number = |port: &str| port.parse::<u16>().is_ok();
        if host.is_empty() || host.starts_with('-') || !host.bytes().all(is_host) {
            return error("its registry is not a name of a host", EXAMPLE);
        }
        if port.is_some_and(|port| !is_number(port)) {
            return error("the port is not a number", EXAMPLE);
        }
        // Docker takes a first part without a dot or port for a user of Docker Hub, podman for an alias.
        if port.is_none() && !host.contains('.') && host != "localhost" {
            return error("it begins with no registry", "name it: docker.io/USER for Docker Hub");
        }
        let is_part = |part: &str| {
            let ends = [part.as_bytes().first(), part.as_bytes().last()];
            let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            ends.into_iter().all(|end| end.is_some_and(|end| is_inner(*end)))
                && part.bytes().all(|byte| is_inner(byte) || b"._-".contains(&byte))
        };
        if path.is_some_and(|path| !path.split('/').all(is_part)) {
            return error(
                "a part of its prefix has other characters than a-z, 0-9, '.', '_' and '-'",
                "write it without a tag and in lower case: registry.example/team",
            );
        }
        Ok(Destination(name.to_owned()))
    }

    /// Returns the prefix of image names: with a slash at the end.
    pub fn prefix(&self) -> String {
        format!("{}/", self.0)
    }

    /// Returns the registry: host and port.
    pub fn registry(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const EXAMPLE: &str = "for example registry.example:5000/team";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_have_a_registry() {
        for (text, registry, prefix) in [
            ("registry.example/team", "registry.example", "registry.example/team/"),
            (
                "registry.example:5000/a/b-c/",
                "registry.example:5000",
                "registry.example:5000/a/b-c/",
            ),
            ("127.0.0.1:5000", "127.0.0.1:5000", "127.0.0.1:5000/"),
            ("localhost/x", "localhost", "localhost/x/"),
        ] {
            let destination = Destination::parse(text).unwrap();
            assert_eq!((destination.registry(), destination.prefix().as_str()), (registry, prefix));
        }
    }

    #[test]
    fn other_texts_are_errors_with_a_hint() {
        for text in [
            "",
            "/",
            "team",
            "team/x",
            "https://registry.example/x",
            "--help",
            "-r.example/x",
            "registry.example/Team",
            "registry.example/x:latest",
            "registry.example//x",
            "registry.example/x/..",
            "registry.example:x/y",
            "registry.example/a b",
            "a\nb.example",
            "registry.example/x@sha256",
        ] {
            let error = Destination::parse(text).unwrap_err().to_string();
            assert!(error.contains("\nhint: "), "{error}");
        }
    }
}
