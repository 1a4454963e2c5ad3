//! Which kinds run in containers that the user runs already.

use crate::config::error::ConfigError;
use crate::config::source::{Source, Sourced};
use crate::config::values::Config;

/// The flag.
pub(crate) const ATTACH: &str = "--attach";

impl Config {
    /// `NAME=KIND`, each of which the session gets whatever else it has.
    pub(crate) fn apply_attach_flags(&mut self, words: &[String]) -> Result<(), ConfigError> {
        let source = Source::Flag(ATTACH);
        for word in words {
            let Some((container, kind)) = word.split_once('=') else {
                let what = format!("'{word}' names no kind");
                return Err(ConfigError::new(&source, what).hint("say NAME=KIND: devbox=rust"));
            };
            let kind = self.kind_named(kind, &source)?;
            // The engine would take it for one of its options.
            if container.is_empty() || container.starts_with('-') {
                let what = format!("'{container}' cannot be a container");
                return Err(ConfigError::new(&source, what));
            }
            if let Some(other) = self.containers.attached.get(&kind) {
                let what = format!("{kind} is attached to '{}' already", other.value);
                return Err(ConfigError::new(&source, what));
            }
            let image = self.containers.images.get(&kind).map(|image| &image.source);
            if let Some(Source::Flag(flag)) = image {
                let what = format!("{kind} has an image by {flag}, and is attached");
                return Err(ConfigError::new(&source, what).hint("leave one of the two out"));
            }
            let container = Sourced::new(container.to_owned(), source.clone());
            self.containers.attached.insert(kind, container);
        }
        Ok(())
    }

    /// Attached kinds are the session's, whoever chose the others.
    pub(crate) fn add_attached_kinds(&mut self) {
        for kind in self.containers.attached.keys() {
            if self.toolchains.value.find(kind).is_none() {
                self.toolchains.value.list.push(kind.clone().into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::containers::ContainerFlags;

    fn config(attach: &[&str], images: &[&str]) -> Result<Config, String> {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let flags = ContainerFlags {
            attach: owned(attach),
            images: owned(images),
            ..ContainerFlags::default()
        };
        let mut config = Config::builtin();
        config.apply_container_flags(&flags).map_err(|error| error.to_string())?;
        config.add_attached_kinds();
        Ok(config)
    }

    #[test]
    fn attached_kinds_are_the_sessions() {
        let config = config(&["devbox=rust", "web=ts", "devbox=c++"], &["go=golang:1"]).unwrap();
        let attached = config.containers.attached.iter();
        let attached: Vec<_> =
            attached.map(|(kind, name)| (kind.as_str(), name.value.as_str())).collect();
        assert_eq!(attached, [("c-cpp", "devbox"), ("node", "web"), ("rust", "devbox")]);
        assert_eq!(config.toolchains.value.list.len(), 3);
    }

    #[test]
    fn what_cannot_be_attached() {
        let rows: [(&[&str], &[&str], &str); 5] = [
            (&["devbox"], &[], "--attach: 'devbox' names no kind\nhint: say NAME=KIND"),
            (&["devbox=rsut"], &[], "did you mean 'rust'?"),
            (&["-v=rust"], &[], "'-v' cannot be a container"),
            (&["a=rust", "b=rust"], &[], "rust is attached to 'a' already"),
            (&["a=rust"], &["rust=rust:1"], "rust has an image by --toolchain-image"),
        ];
        for (attach, images, expected) in rows {
            let error = config(attach, images).unwrap_err();
            assert!(error.contains(expected), "{attach:?}: {error}");
        }
    }
}
