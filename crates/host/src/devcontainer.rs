//! The image that a project's `.devcontainer/devcontainer.json` names, and the user's answer whether to
//! use it (`spec/cli.md#devcontainer`).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::beneath::{Beneath, Found};
use crate::own_directories::state_directory;
use crate::project::Project;

/// The file, below the workspace.
const FILE: &str = ".devcontainer/devcontainer.json";

/// Larger than any such file.
const MAX_BYTES: u64 = 64 << 10;

/// The image of a project's devcontainer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Devcontainer {
    /// The image.
    pub image: String,
    /// The file with the user's answer; `None` without a home.
    record: Option<PathBuf>,
}

impl Devcontainer {
    /// Reads the image of a workspace's devcontainer. Reads no other setting. Logs a warning for a file
    /// that cannot be parsed.
    pub fn of(workspace: &Path) -> Option<Self> {
        let image = read_image(workspace).unwrap_or_else(|why| {
            tracing::warn!("'{FILE}' names no image: {why}");
            None
        })?;
        let key = Project::of(workspace).key();
        let record = state_directory().map(|state| state.join("devcontainers").join(key.as_str()));
        Some(Devcontainer { image, record })
    }

    /// Returns the user's answer for this image; `None` if there is none.
    pub fn answer(&self) -> Option<bool> {
        let directory = Beneath::open(self.record.as_ref()?.parent()?).ok()?;
        let name = Path::new(self.record.as_ref()?.file_name()?);
        let Found::File(text, _) = directory.read(name, MAX_BYTES) else { return None };
        match text.strip_suffix(self.image.as_bytes())? {
            b"yes " => Some(true),
            b"no " => Some(false),
            _ => None,
        }
    }

    /// Records the user's answer, outside of the workspace. Errors: of the system.
    pub fn record(&self, answer: bool) -> io::Result<()> {
        let Some(record) = &self.record else { return Ok(()) };
        let directory = record.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let draft = record.with_extension(std::process::id().to_string());
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        let word = if answer { "yes" } else { "no" };
        file.write_all(format!("{word} {}", self.image).as_bytes())?;
        fs::rename(&draft, record)
    }

    /// Returns the file with the user's answer.
    pub fn record_path(&self) -> Option<&Path> {
        self.record.as_deref()
    }
}

fn read_image(workspace: &Path) -> Result<Option<String>, String> {
    let directory = Beneath::open(workspace).map_err(|error| error.to_string())?;
    let text = match directory.read(Path::new(FILE), MAX_BYTES) {
        Found::Missing => return Ok(None),
        Found::Rejected(why) => return Err(format!("it {why}")),
        Found::File(text, _) => String::from_utf8(text).map_err(|error| error.to_string())?,
    };
    let json = without_comments(&text);
    let settings: serde_json::Value =
        serde_json::from_str(&json).map_err(|error| error.to_string())?;
    match settings.get("image") {
        // It has a Dockerfile or a compose file instead.
        None => Ok(None),
        Some(serde_json::Value::String(image)) if is_image_name(image) => Ok(Some(image.clone())),
        Some(_) => Err("its 'image' is not the name of an image".to_owned()),
    }
}

/// Replaces comments and trailing commas of JSON with spaces.
fn without_comments(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut comma = None;
    while let Some(character) = rest.next() {
        match (character, rest.peek()) {
            ('"', _) => {
                comma = None;
                json.push(character);
                while let Some(character) = rest.next() {
                    json.push(character);
                    match character {
                        '\\' => json.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => while rest.next_if(|next| *next != '\n').is_some() {},
            ('/', Some('*')) => {
                rest.next();
                let mut before = ' ';
                for next in rest.by_ref() {
                    if before == '*' && next == '/' {
                        break;
                    }
                    before = next;
                }
                json.push(' ');
            }
            (',', _) => {
                comma = Some(json.len());
                json.push(',');
            }
            ('}' | ']', _) => {
                if let Some(at) = comma.take() {
                    json.replace_range(at..=at, " ");
                }
                json.push(character);
            }
            _ => {
                if !character.is_whitespace() {
                    comma = None;
                }
                json.push(character);
            }
        }
    }
    json
}

/// Returns whether a text is an image name: `[HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST]`. It begins
/// with a letter or digit, so it is no option of the engine.
fn is_image_name(text: &str) -> bool {
    let (text, digest) = match text.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (text, None),
    };
    let is_digest = |digest: &str| {
        let digits = digest.strip_prefix("sha256:").unwrap_or_default();
        digits.len() == 64 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
    };
    // A ':' before the last '/' belongs to a port.
    let at = text.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match text.get(at..).and_then(|last| last.find(':')) {
        Some(colon) => (text.get(..at + colon).unwrap_or_default(), text.get(at + colon + 1..)),
        None => (text, None),
    };
    let is_word = |word: &str, more: &[u8]| {
        let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = word.as_bytes();
        is_edge(bytes.first())
            && is_edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || more.contains(byte))
    };
    let mut parts = path.split('/');
    let first = parts.next().unwrap_or_default();
    text.len() <= 256
        && is_word(first, if path.contains('/') { b".-_:" } else { b".-_" })
        && parts.all(|part| is_word(part, b".-_"))
        && tag.is_none_or(|tag| tag.len() <= 128 && is_word(tag, b".-_"))
        && digest.is_none_or(is_digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images() {
        let digest = format!("node@sha256:{}", "0a".repeat(32));
        let host = "mcr.microsoft.com/devcontainers/rust:1-bookworm";
        for name in [host, "node", "node:22", "localhost:5000/a/b_c", &digest, "a/b:1.2-x"] {
            assert!(is_image_name(name), "{name}");
        }
        let long = "a".repeat(257);
        let others = [
            "",
            "-v",
            "--privileged",
            "node:",
            ":22",
            "a//b",
            "/a",
            "a/",
            "a b",
            "a:b:c",
            "a/b:c/d e",
            "node@sha256:0",
            "node@x",
            "a\nb",
            "a:-x",
            "ä",
            "a/../b",
            &long,
        ];
        for name in others {
            assert!(!is_image_name(name), "{name}");
        }
    }

    #[test]
    fn comments_and_trailing_commas() {
        let text = r#"{ // a "comment"
            /* "image": "x", */ "name": "a // b /* c */ \" ,}", "image": "node:22", /* * / */
            "features": [1, 2, ], // end
        }"#;
        let value: serde_json::Value = serde_json::from_str(&without_comments(text)).unwrap();
        assert_eq!(value["image"], "node:22");
        assert_eq!(value["name"], "a // b /* c */ \" ,}");
        assert_eq!(value["features"], serde_json::json!([1, 2]));
        for text in ["{,}", "[1,,]", "{\"a\": \"b", "/*", "//"] {
            let parsed = serde_json::from_str::<serde_json::Value>(&without_comments(text));
            assert!(text == "{,}" || parsed.is_err(), "{text}");
        }
    }

    #[test]
    fn only_an_image_of_a_regular_file_is_read() {
        let base = std::env::temp_dir().join(format!("aifo-devcontainer-{}", std::process::id()));
        fs::create_dir_all(base.join(".devcontainer")).unwrap();
        let check = |text: &str, expected: Result<Option<&str>, ()>| {
            fs::write(base.join(FILE), text).unwrap();
            let expected = expected.map(|image| image.map(str::to_owned));
            assert_eq!(read_image(&base).map_err(drop), expected, "{text}");
        };
        check(r#"{"image": "node:22", "runArgs": ["--privileged"]} // x"#, Ok(Some("node:22")));
        check(r#"{"build": {"dockerfile": "x"}}"#, Ok(None));
        check(r#"{"image": "--privileged"}"#, Err(()));
        check(r#"{"image": 1}"#, Err(()));
        check("{", Err(()));
        fs::rename(base.join(FILE), base.join("file")).unwrap();
        std::os::unix::fs::symlink(base.join("file"), base.join(FILE)).unwrap();
        assert!(read_image(&base).is_err(), "a link");
        fs::remove_dir_all(base.join(".devcontainer")).unwrap();
        assert_eq!(read_image(&base), Ok(None));
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn an_answer_is_for_one_image() {
        let base = std::env::temp_dir().join(format!("aifo-answers-{}", std::process::id()));
        let of = |image: &str| Devcontainer {
            image: image.to_owned(),
            record: Some(base.join("state/devcontainers/key")),
        };
        assert_eq!(of("node:22").answer(), None);
        for answer in [true, false] {
            of("node:22").record(answer).unwrap();
            assert_eq!(of("node:22").answer(), Some(answer));
            assert_eq!(of("node:2").answer(), None);
            assert_eq!(of("22").answer(), None);
        }
        fs::remove_dir_all(&base).unwrap();
    }
}
