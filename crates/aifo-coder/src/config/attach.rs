//! `--attach`: kinds whose tools run in the user's own containers.

use crate::config::error::ConfigError;
use crate::config::source::{Source, Sourced};
use crate::config::values::Config;

pub(crate) const ATTACH: &str = "--attach";

impl Config {
    /// Applies `NAME=KIND`.
    pub(crate) fn apply_attach_flags(&mut self, words: &[String]) -> Result<(), ConfigError> {
        let source = Source::Flag(ATTACH);
        for word in words {
            let Some((container, kind)) = word.split_once('=') else {
                let what = format!("missing kind in '{word}'");
                return Err(
                    ConfigError::new(&source, what).hint("use NAME=KIND, for example devbox=rust")
                );
            };
            let kind = self.kind_named(kind, &source)?;
            // The engine would parse it as an option.
            if container.is_empty() || container.starts_with('-') {
                let what = format!("invalid container '{container}'");
                return Err(ConfigError::new(&source, what));
            }
            if let Some(other) = self.containers.attached.get(&kind) {
                let what = format!("{kind} is already attached to '{}'", other.value);
                return Err(ConfigError::new(&source, what));
            }
            let image = self.containers.images.get(&kind).map(|image| &image.source);
            if let Some(Source::Flag(flag)) = image {
                let what = format!("{kind} has both {ATTACH} and {flag}");
                return Err(ConfigError::new(&source, what).hint("remove one of the two flags"));
            }
            let container = Sourced::new(container.to_owned(), source.clone());
            self.containers.attached.insert(kind, container);
        }
        Ok(())
    }

    /// Adds attached kinds to the session's toolchains.
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
    fn attached_kinds_are_added_to_the_session() {
        let config = config(&["devbox=rust", "web=ts", "devbox=c++"], &["go=golang:1"]).unwrap();
        let attached = config.containers.attached.iter();
        let attached: Vec<_> =
            attached.map(|(kind, name)| (kind.as_str(), name.value.as_str())).collect();
        assert_eq!(attached, [("c-cpp", "devbox"), ("node", "web"), ("rust", "devbox")]);
        assert_eq!(config.toolchains.value.list.len(), 3);
    }

    #[test]
    fn invalid_attachments() {
        let rows: [(&[&str], &[&str], &str); 5] = [
            (&["devbox"], &[], "--attach: missing kind in 'devbox'\nhint: use NAME=KIND"),
            (&["devbox=rsut"], &[], "did you mean 'rust'?"),
            (&["-v=rust"], &[], "invalid container '-v'"),
            (&["a=rust", "b=rust"], &[], "rust is already attached to 'a'"),
            (&["a=rust"], &["rust=rust:1"], "rust has both --attach and --toolchain-image\nhint: "),
        ];
        for (attach, images, expected) in rows {
            let error = config(attach, images).unwrap_err();
            assert!(error.contains(expected), "{attach:?}: {error}");
        }
    }
}
