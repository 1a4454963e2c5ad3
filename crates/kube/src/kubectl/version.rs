//! The version of kubectl.

use super::MIN_KUBECTL_MINOR;

/// The version of a kubectl.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientVersion {
    major: u32,
    minor: u32,
    pub(super) text: String,
}

impl ClientVersion {
    /// Reads the output of `kubectl version`.
    pub(super) fn parse(output: &[u8]) -> Option<Self> {
        let document: serde_json::Value = serde_json::from_slice(output).ok()?;
        let text = document.get("clientVersion")?.get("gitVersion")?.as_str()?;
        let mut parts = text.trim_start_matches('v').split('.');
        let mut number = || {
            let digits: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        Some(ClientVersion { major: number()?, minor: number()?, text: text.to_owned() })
    }

    pub(super) fn is_supported(&self) -> bool {
        self.is_at_least(MIN_KUBECTL_MINOR)
    }

    /// Returns whether it is not older than a minor version of kubectl 1.
    pub(super) fn is_at_least(&self, minor: u32) -> bool {
        (self.major, self.minor) >= (1, minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_floor() {
        let version = |text: &str| {
            let output = format!(r#"{{"clientVersion":{{"gitVersion":"{text}"}}}}"#);
            ClientVersion::parse(output.as_bytes())
        };
        for (text, supported) in [
            ("v1.32.4-dispatcher", Some(true)),
            ("v1.20.0", Some(true)),
            ("v1.19.16", Some(false)),
            ("v2.0.0", Some(true)),
            ("v1.36.0-alpha.1+abc", Some(true)),
            ("", None),
            ("1", None),
        ] {
            assert_eq!(version(text).map(|it| it.is_supported()), supported, "{text}");
        }
        assert_eq!(ClientVersion::parse(b"Client Version: v1.30"), None);
    }
}
