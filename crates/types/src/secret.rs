//! Which names stand for secrets, for whatever is written where people read.

/// Whether an option, a variable or a member of this name holds a secret.
pub fn names_secret(name: &[u8]) -> bool {
    let plain = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let plain: String = plain.map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    SECRETS.iter().any(|secret| plain.ends_with(secret))
}

/// What stands in the place of a secret.
pub const HIDDEN: &str = "[redacted]";

/// How such names end. Numbers of `tokens` are none.
const SECRETS: [&str; 12] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "secretkey",
    "apikey",
    "accesskey",
    "privatekey",
    "authorization",
    "credential",
    "credentials",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_spelling() {
        for name in ["--token", "GITHUB_TOKEN", "apiKey", "API_KEY", "x-api-key", "Authorization"] {
            assert!(names_secret(name.as_bytes()), "{name}");
        }
        for name in ["totalTokens", "--tokenize", "key", "", "secretary"] {
            assert!(!names_secret(name.as_bytes()), "{name}");
        }
    }
}
