//! The agent or command of a pod.

use std::ffi::OsString;

use aifo_agents::AgentSpec;
use aifo_config::{Config, UsageError};
use anyhow::{Context, bail};

/// The agent or command of a pod.
pub struct PodTarget {
    pub(crate) spec: AgentSpec,
    pub(crate) image: String,
    /// The words of `run` that name it.
    pub words: Vec<String>,
}

impl PodTarget {
    /// An agent of the table of agents.
    pub fn agent(name: &str, image: Option<String>, config: &Config) -> anyhow::Result<Self> {
        let spec = config.agent_named(name)?.clone();
        let image = image.unwrap_or_else(|| config.agent_image(&spec));
        Ok(PodTarget { words: vec![spec.name.clone()], spec, image })
    }

    /// A command that speaks ACP, in an image.
    pub fn acp_command(line: &str, image: Option<String>, config: &Config) -> anyhow::Result<Self> {
        let Some(image) = image else {
            bail!(UsageError(
                "--agent-command needs an image in a pod\nhint: name it with --image".to_owned()
            ));
        };
        let name = shlex::split(line).unwrap_or_default().into_iter().next().unwrap_or_default();
        let words =
            vec!["--agent-command".to_owned(), line.to_owned(), "--image".into(), image.clone()];
        Ok(PodTarget { spec: spec_of(&name, config), image, words })
    }

    /// Adds arguments of the agent. Errors: one is not UTF-8, as manifests are.
    pub fn with(mut self, args: &[OsString]) -> anyhow::Result<Self> {
        self.words.extend(text(args)?);
        Ok(self)
    }

    /// A command in an image.
    pub fn command(
        command: &[OsString],
        image: Option<String>,
        config: &Config,
    ) -> anyhow::Result<Self> {
        let Some(image) = image else {
            bail!("a command needs an image\nhint: name it with --image");
        };
        let command = text(command)?;
        let mut words = vec!["--image".to_owned(), image.clone(), "--".to_owned()];
        let name = command.first().cloned().unwrap_or_default();
        words.extend(command);
        Ok(PodTarget { spec: spec_of(&name, config), image, words })
    }
}

/// Returns the row of a program in the table of agents, or an empty one.
fn spec_of(program: &str, config: &Config) -> AgentSpec {
    let name = program.rsplit('/').next().unwrap_or_default();
    let known = config.agent_named(name).ok().cloned();
    known.unwrap_or_else(|| AgentSpec::unknown(name))
}

fn text(words: &[OsString]) -> anyhow::Result<Vec<String>> {
    let text = |word: &OsString| word.clone().into_string().ok();
    words.iter().map(text).collect::<Option<_>>().context("an argument is not valid UTF-8")
}
