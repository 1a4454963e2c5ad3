//! The options of `cargo xtask test kubernetes`.

use anyhow::{Context, Result, bail};

use super::CLUSTER;

/// The usage, for errors.
pub(super) const USAGE: &str = "usage: cargo xtask test kubernetes [--context NAME] [--namespace NAME] \
[--images REGISTRY/] [--load COMMAND] [--image-pull-secret NAME] [SUITE..] [-- ARGS]";

/// The prefix of images that a command loads.
const LOADED: &str = "aifo.test/";

/// Parsed options.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// A context of the kubeconfig; `None` for the current one.
    pub(super) context: Option<String>,
    /// An existing namespace; `None` for one that is created for the run.
    pub(super) namespace: Option<String>,
    /// The prefix of the suites' images.
    pub(super) images: Option<String>,
    /// The command that loads an image into the cluster, in place of a push.
    pub(super) load: Option<String>,
    /// The secret of the registry, of the context's namespace.
    pub(super) pull_secret: Option<String>,
    /// The suites to run; empty for all.
    pub(super) suites: Vec<String>,
}

impl Options {
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let target = match word.as_str() {
                "--context" => &mut options.context,
                "--namespace" => &mut options.namespace,
                "--images" => &mut options.images,
                "--load" => &mut options.load,
                "--image-pull-secret" => &mut options.pull_secret,
                option if option.starts_with('-') => bail!("unknown option '{option}'\n{USAGE}"),
                _ => {
                    options.suites.push(word.clone());
                    continue;
                }
            };
            let value = words.next().filter(|value| !value.is_empty());
            *target =
                Some(value.with_context(|| format!("{word} takes a value\n{USAGE}"))?.clone());
        }
        Ok(options)
    }

    /// Returns the prefix of images, of an option or the environment.
    pub(super) fn image_prefix(&self) -> Option<String> {
        let of_environment = || std::env::var(CLUSTER).ok().filter(|prefix| !prefix.is_empty());
        let loaded = || self.load.as_ref().map(|_| LOADED.to_owned());
        self.images.clone().or_else(of_environment).or_else(loaded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_suites_are_parsed() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            Options::parse(&words)
        };
        let line = "--context c --namespace n --images r/ --image-pull-secret s container_pods";
        let parsed = parse(line).unwrap();
        let text = |value: &str| Some(value.to_owned());
        let expected = Options {
            context: text("c"),
            namespace: text("n"),
            images: text("r/"),
            load: None,
            pull_secret: text("s"),
            suites: vec!["container_pods".to_owned()],
        };
        assert_eq!(parsed, expected);
        assert_eq!(parsed.image_prefix(), text("r/"));
        let loaded = Options { load: text("kind load docker-image"), ..Options::default() };
        assert!(loaded.image_prefix().is_some());
        assert!(parse("--bad").unwrap_err().to_string().contains("unknown option '--bad'\nusage:"));
        assert!(parse("--images").unwrap_err().to_string().starts_with("--images takes a value"));
    }
}
