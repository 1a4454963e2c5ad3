//! The flags that speak about a session.

use std::path::PathBuf;

use aifo_launch::Confine;
use aifo_types::Endpoint;
use clap::{Args, ValueEnum};

use crate::config::{self, Flags};

/// What every session can be told.
#[derive(Debug, Args)]
pub(crate) struct Session {
    /// How sidecars run
    #[arg(long, value_enum, default_value_t = Backend::Local)]
    pub(crate) backend: Backend,
    #[command(flatten)]
    pub(crate) project: Project,
    /// Where the proxy listens: unix:///path/to.sock or tcp://host:port (port 0: any). By default a
    /// unix socket in a folder of the session
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Option<Endpoint>,
    /// End a tool that runs longer: INT, TERM 5 s later, KILL 10 s later [env:
    /// AIFO_TOOLEEXEC_MAX_SECS]
    #[arg(long, value_name = "N")]
    pub(crate) max_secs: Option<u64>,
    /// Whether tools are held to their place: auto (as far as the kernel can), required (or nothing
    /// starts) or off. By default auto
    #[arg(long, value_name = "HOW", value_parser = parse_confine)]
    pub(crate) confine: Option<Confine>,
    /// Tell decisions on stderr, one line each [env: AIFO_TOOLCHAIN_VERBOSE=1, RUST_LOG]
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Which project, and what it needs.
#[derive(Debug, Args)]
pub(crate) struct Project {
    /// The project; tools run in it and below
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// A sidecar to start: rust, node, python, c-cpp, go, or one of your own; may be repeated.
    /// Without it, the project's files decide
    #[arg(long = "toolchain", value_name = "KIND", value_delimiter = ',')]
    pub(crate) toolchains: Vec<String>,
    /// A variable of the caller's that passes to tools: NAME, or a beginning of names as 'PREFIX*';
    /// or with NAME=VALUE one that every tool gets; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
}

/// Whose programs a runtime of the agent's own takes.
#[derive(Debug, Args)]
pub(crate) struct Smart {
    /// node runs programs from outside the workspace where the agent is
    #[arg(long)]
    pub(crate) smart_node: bool,
    /// python runs modules, and programs from outside the workspace, where the agent is
    #[arg(long)]
    pub(crate) smart_python: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Backend {
    /// Child processes of this machine, no container
    Local,
}

impl Session {
    /// What was given.
    pub(crate) fn flags(&self) -> Flags {
        // So far there is nothing to choose between.
        let Backend::Local = self.backend;
        Flags {
            max_secs: self.max_secs,
            verbose: self.verbose.then_some(true),
            listen: self.listen.clone(),
            confine: self.confine,
            ..self.project.flags()
        }
    }
}

impl Project {
    /// What was given.
    pub(crate) fn flags(&self) -> Flags {
        Flags { toolchains: self.toolchains.clone(), env: self.env.clone(), ..Flags::default() }
    }
}

impl Smart {
    /// Adds what was given.
    pub(crate) fn add_to(&self, flags: Flags) -> Flags {
        Flags {
            smart_node: self.smart_node.then_some(true),
            smart_python: self.smart_python.then_some(true),
            ..flags
        }
    }
}

fn parse_confine(word: &str) -> Result<Confine, &'static str> {
    config::parse_confine(word).ok_or("say auto, required or off")
}
