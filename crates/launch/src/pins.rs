//! The image of a kind whose version the user or the project files request (`spec/cli.md#versions`).

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use aifo_engine::{Engine, Flavor, VERSIONS_LABEL};
use aifo_host::{ProjectVersion, Toolchain, VersionSource, project_version};
use aifo_policy::kind_spec;
use aifo_sidecar::Images;
use aifo_types::Kind;

/// The image of a kind, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDecision {
    /// The kind.
    pub kind: Kind,
    /// The image.
    pub image: String,
    /// The version that the user or the project files request.
    pub requested: Option<ProjectVersion>,
    /// The reason.
    pub reason: ImageReason,
}

impl ImageDecision {
    /// Returns who requests which version: `'.nvmrc' requests node 22`, `you request node 22`.
    pub fn request(&self) -> Option<String> {
        let (kind, requested) = (&self.kind, self.requested.as_ref()?);
        let later = if requested.is_minimum { " or later" } else { "" };
        let subject = match requested.version.source() {
            VersionSource::ProjectFile(path) => {
                format!("'{}' requests", path.file_name().unwrap_or_default().to_string_lossy())
            }
            VersionSource::User => "you request".to_owned(),
        };
        Some(format!("{subject} {kind} {}{later}", requested.version))
    }

    /// Returns the line about a version that no image has, with the remedy.
    pub fn unavailable(&self) -> Option<String> {
        let ImageReason::Unavailable { contained, official } = &self.reason else { return None };
        let (kind, usual) = (&self.kind, &self.image);
        let requested = self.requested.as_ref()?;
        let is_of_user = *requested.version.source() == VersionSource::User;
        let mut line = self.request()?;
        // Writing to a String does not fail.
        let _ = match contained {
            Some(version) => write!(line, ", but '{usual}' has {version}"),
            None => write!(line, ", but no image of that version is on this machine"),
        };
        let _ = match official {
            Some((image, why)) if is_of_user => write!(
                line,
                ", and '{image}' cannot be pulled: {why}\nhint: omit the version, load '{image}' into the \
             engine, or name an image with --toolchain-image {kind}=IMAGE"
            ),
            None if is_of_user => write!(
                line,
                "\nhint: omit the version, or name an image with --toolchain-image {kind}=IMAGE"
            ),
            Some((image, why)) => write!(
                line,
                ", and '{image}' cannot be pulled: {why}; using '{usual}'; load '{image}' into the engine, or \
             name an image with --toolchain-image {kind}=IMAGE"
            ),
            None => {
                write!(line, "; using '{usual}'; name an image with --toolchain-image {kind}=IMAGE")
            }
        };
        Some(line)
    }
}

/// Reasons for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageReason {
    /// The usual image: no file requests a version, or only a channel such as `stable`.
    Usual,
    /// An image of aifo has the version as its tag.
    Tag,
    /// The usual image has this version, which is as requested.
    Contains(String),
    /// The official image is on this machine.
    Official,
    /// The official image, which is not on this machine yet.
    Pullable {
        /// The usual image.
        usual: String,
        /// The version in the usual image; `None` if its label does not name it.
        contained: Option<String>,
    },
    /// The official image was pulled.
    Pulled,
    /// The usual image, as no other is available.
    Unavailable {
        /// The version in the usual image; `None` if its label does not name it.
        contained: Option<String>,
        /// The official image and the reason why it cannot be used; `None` if there is none of this
        /// version.
        official: Option<(String, String)>,
    },
}

/// How long a registry may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Decides the image of a toolchain that the user configured no image for. Pulls nothing.
pub(crate) async fn decide_image(
    engine: &Engine,
    images: &Images,
    toolchain: &Toolchain,
    workspace: &Path,
) -> ImageDecision {
    let kind = &toolchain.kind;
    let of_user = toolchain.version.clone();
    let of_user = of_user.map(|version| ProjectVersion { version, is_minimum: false });
    let requested = of_user.or_else(|| project_version(kind, workspace));
    let mut unversioned = images.clone();
    unversioned.versions.remove(kind);
    let usual = unversioned.of(kind);
    let decision = |image: &str, reason| ImageDecision {
        kind: kind.clone(),
        image: image.to_owned(),
        requested: requested.clone(),
        reason,
    };
    let Some(version) = &requested else { return decision(&usual, ImageReason::Usual) };
    let text = version.version.as_str();
    let mut tagged = images.clone();
    tagged.versions.insert(kind.clone(), text.to_owned());
    let tagged = tagged.of(kind);
    // The engine itself pulls from a registry that the user configured.
    let is_pulled_by_engine = toolchain.version.is_some() && !images.prefix.is_empty();
    if is_pulled_by_engine || engine.has_image(&tagged).await {
        return decision(&tagged, ImageReason::Tag);
    }
    if !is_release(text) {
        // A channel: the usual image has one of its releases, or no image has it.
        let reason = match text == "stable" {
            true => ImageReason::Usual,
            false => ImageReason::Unavailable { contained: None, official: None },
        };
        return decision(&usual, reason);
    }
    let contained = engine.image_label(&usual, VERSIONS_LABEL).await.unwrap_or_default();
    let mut versions = contained.split_whitespace();
    if let Some(found) = versions.clone().find(|found| satisfies(found, version)) {
        return decision(&usual, ImageReason::Contains(found.to_owned()));
    }
    let contained = versions.next().map(str::to_owned);
    let Some(official) = official_image(engine.flavor(), kind, text) else {
        return decision(&usual, ImageReason::Unavailable { contained, official: None });
    };
    match engine.has_image(&official).await {
        true => decision(&official, ImageReason::Official),
        false => decision(&official, ImageReason::Pullable { usual, contained }),
    }
}

impl ImageDecision {
    /// Returns whether the user requests a version that no image has: no other version replaces it.
    pub fn lacks_version_of_user(&self) -> bool {
        let source = self.requested.as_ref().map(|requested| requested.version.source());
        matches!(self.reason, ImageReason::Unavailable { .. })
            && source == Some(&VersionSource::User)
    }

    /// Pulls the official image if it is the one decided on and not on this machine. Without it, the
    /// usual image is decided on. `progress` gets each line of the pull.
    #[must_use]
    pub async fn pulled(self, engine: &Engine, progress: impl FnMut(&str)) -> Self {
        let ImageReason::Pullable { usual, contained } = self.reason else { return self };
        match engine.pull(&self.image, ANSWER, progress).await {
            Ok(()) => ImageDecision { reason: ImageReason::Pulled, ..self },
            Err(why) => {
                let official = Some((self.image, why));
                let reason = ImageReason::Unavailable { contained, official };
                ImageDecision { image: usual, reason, ..self }
            }
        }
    }
}

/// Returns the official image of a version. Only a release becomes a tag: files of the workspace choose
/// no other image.
fn official_image(flavor: Flavor, kind: &Kind, version: &str) -> Option<String> {
    let name = kind_spec(kind)?.official_image.filter(|_| is_release(version))?;
    // Podman may ask for the registry of a short name.
    Some(match flavor {
        Flavor::Docker => format!("{name}:{version}"),
        Flavor::Podman => format!("docker.io/library/{name}:{version}"),
    })
}

/// Returns whether a text is one to three numbers of at most four digits, with dots between them.
fn is_release(text: &str) -> bool {
    let is_number =
        |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    text.split('.').count() <= 3 && text.split('.').all(is_number)
}

/// Returns whether an image version is the requested one, as far as that goes: `22` is satisfied by
/// `22.11.0`.
fn satisfies(found: &str, requested: &ProjectVersion) -> bool {
    let numbers =
        |text: &str| -> Vec<u32> { text.split('.').map_while(|part| part.parse().ok()).collect() };
    let (found, wanted) = (numbers(found), numbers(requested.version.as_str()));
    found.starts_with(&wanted) || requested.is_minimum && found >= wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_host::Version;

    #[test]
    fn only_a_release_becomes_the_tag_of_an_official_image() {
        let image = |kind: &str, version: &str| {
            official_image(Flavor::Docker, &Kind::parse(kind).unwrap(), version)
        };
        assert_eq!(image("rust", "1.95").as_deref(), Some("rust:1.95"));
        assert_eq!(image("node", "22").as_deref(), Some("node:22"));
        assert_eq!(image("python", "3.13.1").as_deref(), Some("python:3.13.1"));
        assert_eq!(image("go", "1.23").as_deref(), Some("golang:1.23"));
        assert_eq!(image("c-cpp", "14"), None);
        for version in
            ["", "stable", "22-evil", "1.2.3.4", "22@sha256", "12345", "1.", ".1", "1..2"]
        {
            assert_eq!(image("node", version), None, "{version}");
        }
        let podman = official_image(Flavor::Podman, &Kind::parse("node").unwrap(), "22");
        assert_eq!(podman.as_deref(), Some("docker.io/library/node:22"));
    }

    #[test]
    fn versions_of_an_image() {
        let rows = [
            ("22.11.0", "22", false, true),
            ("22.11.0", "22.11", false, true),
            ("22.11.0", "22.1", false, false),
            ("22", "22.11", false, false),
            ("24.1.0", "22", false, false),
            ("1.24.4", "1.22", true, true),
            ("1.24.4", "1.24.5", true, false),
            ("1.9.0", "1.22", true, false),
        ];
        for (found, requested, is_minimum, expected) in rows {
            let version = Version::new(requested, VersionSource::User).unwrap();
            let requested = ProjectVersion { version, is_minimum };
            assert_eq!(satisfies(found, &requested), expected, "{found} {requested:?}");
        }
    }
}
