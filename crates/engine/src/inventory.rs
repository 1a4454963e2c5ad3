//! Lists and removes the containers, networks and volumes of sessions, and replaced images.

use std::path::PathBuf;

use crate::engine::{Engine, EngineError};
use crate::flavor::Flavor;
use crate::images::IMAGE_LABEL;
use crate::labels::{Label, POD, container_name, network_name};
use crate::messages::is_missing;

/// A session container, running or not. An image of the user can have the same labels, so a
/// container also has the name that they imply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// The session id.
    pub session: String,
    /// The sidecar's kind.
    pub kind: String,
    /// The session directory.
    pub directory: PathBuf,
    /// Its image.
    pub image: String,
    /// The engine's description of its state: `Up 3 minutes`.
    pub status: String,
}

/// A session network, with the name that its labels imply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkEntry {
    /// Its name.
    pub name: String,
    /// The session it belongs to.
    pub session: String,
    /// The session directory.
    pub directory: PathBuf,
}

impl Engine {
    /// Lists this user's containers, or those of one session.
    pub async fn containers(&self, session: Option<&str>) -> Result<Vec<Container>, EngineError> {
        let label = |label: Label| match self.flavor() {
            Flavor::Docker => format!("{{{{.Label \"{}\"}}}}", label.name()),
            Flavor::Podman => format!("{{{{index .Labels \"{}\"}}}}", label.name()),
        };
        let labels = [Label::Session, Label::Kind, Label::Directory].map(label).join("\t");
        let format = format!("{labels}\t{{{{.Names}}}}\t{{{{.Image}}}}\t{{{{.Status}}}}");
        let command = self.command().args(["ps", "--all", "--no-trunc", "--format", &format]);
        let lines = self.lines(command.args(filters(session))).await?;
        Ok(lines.iter().filter_map(|line| container(line)).collect())
    }

    /// This user's networks, or that of one session.
    pub async fn networks(&self, session: Option<&str>) -> Result<Vec<NetworkEntry>, EngineError> {
        let list = self.command().args(["network", "ls", "--format", "{{.Name}}"]);
        let names = self.lines(list.args(filters(session))).await?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        // Both engines print labels alike only with `inspect`.
        let label = |label: Label| format!("{{{{index .Labels \"{}\"}}}}", label.name());
        let format =
            format!("{}\t{}\t{{{{.Name}}}}", label(Label::Session), label(Label::Directory));
        let inspect = self.command().args(["network", "inspect", "--format", &format]);
        let lines = match self.lines(inspect.clone().args(&names)).await {
            Ok(lines) => lines,
            // One network that was removed meanwhile fails the command for all.
            Err(_) => {
                let mut lines = Vec::new();
                for name in &names {
                    lines.extend(self.lines(inspect.clone().arg(name)).await.unwrap_or_default());
                }
                lines
            }
        };
        Ok(lines.iter().filter_map(|line| network(line)).collect())
    }

    /// Lists the names of the volumes that start with `prefix`.
    pub async fn volumes(&self, prefix: &str) -> Result<Vec<String>, EngineError> {
        let filter = format!("name={prefix}");
        let command = self.command().args(["volume", "ls", "--quiet", "--filter", &filter]);
        let mut names = self.lines(command).await?;
        // The filter also matches the middle of a name.
        names.retain(|name| name.starts_with(prefix));
        names.sort_unstable();
        Ok(names)
    }

    /// Lists the images of aifo, of any user, that a newer one of their name has replaced and that no
    /// container has.
    pub async fn replaced_images(&self) -> Result<Vec<String>, EngineError> {
        let label = format!("label={IMAGE_LABEL}");
        let filters = ["--filter", &label, "--filter", "dangling=true"];
        let list = self.command().args(["images", "--quiet", "--no-trunc"]).args(filters);
        let mut unused = Vec::new();
        for image in self.lines(list).await? {
            // Podman finds no container by an id with its algorithm.
            let image = image.trim_start_matches("sha256:").to_owned();
            let filter = format!("ancestor={image}");
            let users = self.command().args(["ps", "--all", "--quiet", "--filter", &filter]);
            if self.lines(users).await?.is_empty() && !unused.contains(&image) {
                unused.push(image);
            }
        }
        Ok(unused)
    }

    /// Removes an image that has no name. A missing one is not an error.
    pub async fn remove_image(&self, id: &str) -> Result<(), EngineError> {
        self.ignore_missing(self.output(&self.command().args(["image", "rm", id])).await)
    }

    /// Removes containers, running or not. A missing one is not an error, nor is one that is being removed.
    pub async fn remove_containers(&self, names: &[String]) -> Result<(), EngineError> {
        self.ignore_missing(self.remove_now(names).await)
    }

    /// Removes containers, running or not: none is left then. Errors: one is being removed already, or cannot be.
    pub async fn remove_now(&self, names: &[String]) -> Result<Vec<u8>, EngineError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = self.command().args(["rm", "--force", "--volumes"]);
        if self.flavor() == Flavor::Podman {
            command = command.args(["--time", "0"]);
        }
        self.output(&command.args(names)).await
    }

    /// Removes a network. A missing one is not an error.
    pub async fn remove_network(&self, name: &str) -> Result<(), EngineError> {
        self.ignore_missing(self.output(&self.command().args(["network", "rm", name])).await)
    }

    /// Removes a volume. A missing one is not an error.
    pub async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        self.ignore_missing(self.output(&self.command().args(["volume", "rm", name])).await)
    }

    fn ignore_missing(&self, done: Result<Vec<u8>, EngineError>) -> Result<(), EngineError> {
        match done {
            Err(EngineError::Failed { reason, .. }) if is_missing(&reason) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    async fn lines(&self, command: crate::EngineCommand) -> Result<Vec<String>, EngineError> {
        let output = self.output(&command).await?;
        let text = String::from_utf8_lossy(&output).into_owned();
        Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }
}

fn filters(session: Option<&str>) -> Vec<String> {
    let label = |label: Label, value: &str| format!("label={}={value}", label.name());
    let mut filters =
        vec!["--filter".to_owned(), label(Label::User, &nix::unistd::getuid().to_string())];
    if let Some(session) = session {
        filters.extend(["--filter".to_owned(), label(Label::Session, session)]);
    }
    filters
}

fn container(line: &str) -> Option<Container> {
    let mut fields = line.split('\t').map(str::to_owned);
    let found = Container {
        session: fields.next()?,
        kind: fields.next()?,
        directory: fields.next()?.into(),
        name: fields.next()?,
        image: fields.next()?,
        status: fields.next()?,
    };
    let owned = found.kind.strip_suffix("-owner");
    let is_named = match owned {
        Some(kind) => found.name == format!("{}-owner", container_name(kind, &found.session)),
        None => without_lost(&found) == container_name(&found.kind, &found.session),
    };
    is_named.then_some(found)
}

/// Returns a container name without the suffix of a network's holder that was lost and renamed,
/// `-lost-1`.
fn without_lost(container: &Container) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_holder = container.kind.split('.').next() == Some(POD);
    match container.name.rsplit_once("-lost-") {
        Some((name, number)) if is_holder && is_number(number) => name,
        _ => &container.name,
    }
}

fn network(line: &str) -> Option<NetworkEntry> {
    let mut fields = line.split('\t').map(str::to_owned);
    let found = NetworkEntry {
        session: fields.next()?,
        directory: fields.next()?.into(),
        name: fields.next()?,
    };
    (found.name == network_name(&found.session)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_name_agree() {
        let named = |kind: &str, name: &str| {
            container(&format!("12ab\t{kind}\t/run/x\t{name}\timage\tUp")).is_some()
        };
        assert!(named("rust", "aifo-tc-rust-12ab"));
        assert!(named("agent", "aifo-agent-12ab"));
        assert!(named("net", "aifo-pod-12ab"));
        assert!(named("net", "aifo-pod-12ab-lost-1"));
        assert!(!named("net", "aifo-pod-12ab-lost-"));
        assert!(!named("rust", "aifo-tc-rust-12ab-lost-1"));
        assert!(named("rust-owner", "aifo-tc-rust-12ab-owner"));
        for name in ["database", "aifo-tc-rust-12ac", "aifo-tc-go-12ab", "aifo-agent-12ab"] {
            assert!(!named("rust", name), "{name}");
        }
        assert!(network("12ab\t/run/x\taifo-net-12ab").is_some());
        assert!(network("12ab\t/run/x\tbridge").is_none());
    }
}
