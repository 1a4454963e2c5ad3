//! The flags that speak about a session.

use std::path::PathBuf;

use aifo_launch::{ConfinementMode, RunnerTransport};
use aifo_types::Endpoint;
use clap::{Args, ValueHint};

use crate::config::{self, ContainerFlags, Flags};

/// What every session can be told.
#[derive(Debug, Args)]
pub(crate) struct Session {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Where the proxy listens: unix:///path/to.sock or tcp://host:port (port 0: any). By default a
    /// unix socket in a folder of the session
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Option<Endpoint>,
    /// Stop a sidecar that was started on demand once nothing has run in it for N seconds; 0 is never.
    /// By default 900
    #[arg(long, value_name = "N")]
    pub(crate) idle_stop: Option<u64>,
    /// End a tool that runs longer: INT, TERM 5 s later, KILL 10 s later [env:
    /// AIFO_TOOLEEXEC_MAX_SECS]
    #[arg(long, value_name = "N")]
    pub(crate) max_secs: Option<u64>,
    /// Whether tools are held to their place: auto (as far as the kernel can), required (or nothing
    /// starts) or off. By default auto
    #[arg(long, value_name = "HOW", value_parser = parse_confine)]
    pub(crate) confine: Option<ConfinementMode>,
    /// How runners are reached: auto, socket (with the caller's own descriptors), or stdio (everything
    /// is relayed, as where the engine's kernel is another). By default auto
    #[arg(long, value_name = "HOW", value_parser = parse_transport, default_value = "auto")]
    pub(crate) runner_transport: RunnerTransport,
    /// Tell nothing on stderr but what goes wrong
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Tell decisions on stderr, one line each [env: AIFO_TOOLCHAIN_VERBOSE=1, RUST_LOG]
    #[arg(short, long)]
    pub(crate) verbose: bool,
    // The last: its heading holds for all that follows.
    #[command(flatten)]
    pub(crate) containers: Containers,
}

/// Which project, and what it needs.
#[derive(Debug, Args)]
pub(crate) struct Project {
    /// The project; tools run in it and below
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: PathBuf,
    /// A sidecar to start: rust, node, python, c-cpp, go, or one of your own; with a version as in
    /// rust@1.95; may be repeated. With auto, the first call of a tool starts its sidecar, whatever it
    /// is. Without any, the project's files decide
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

/// How sidecars run.
#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub(crate) struct Containers {
    /// How sidecars run: docker, podman, local (child processes, no container), or auto: in
    /// containers if an engine answers and has the images, else local. By default auto [env:
    /// AIFO_BACKEND]
    #[arg(long, value_name = "HOW")]
    pub(crate) backend: Option<String>,
    /// The image of a kind's containers; may be repeated [env:
    /// AIFO_RUST_TOOLCHAIN_IMAGE, and so for every kind]
    #[arg(long = "toolchain-image", value_name = "KIND=IMAGE")]
    pub(crate) images: Vec<String>,
    /// A container that you run already, and the kind whose tools run in it: a compose service, a
    /// devcontainer; may be repeated
    #[arg(long, value_name = "NAME=KIND")]
    pub(crate) attach: Vec<String>,
    /// Downloads and builds go with the session instead of into caches of the project
    #[arg(long)]
    pub(crate) no_toolchain_cache: bool,
    /// What containers are connected to: shared (one network, as if on one machine), separate (a
    /// stack for each), none, or host (this machine's own). By default shared
    #[arg(long, value_name = "HOW")]
    pub(crate) net: Option<String>,
    /// A port of the containers that this machine can be reached at, as the engine has it:
    /// PORT:PORT or IP:PORT:PORT; may be repeated
    #[arg(long, value_name = "PORTS")]
    pub(crate) publish: Vec<String>,
    /// The memory of each container: 512m, 4g; 0 is no limit. By default three quarters of the
    /// machine's
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// The processes and threads of each container; 0 is no limit. By default 4096
    #[arg(long, value_name = "N")]
    pub(crate) pids: Option<u32>,
    /// The processors of each container, in part: 1.5. By default all
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<f64>,
    /// Print the engine's commands that would be run, and run none
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Session {
    /// What was given.
    pub(crate) fn flags(&self) -> Flags {
        Flags {
            containers: self.containers.flags(),
            idle_stop: self.idle_stop,
            max_secs: self.max_secs,
            verbose: self.verbose.then_some(true),
            listen: self.listen.clone(),
            confine: self.confine,
            ..self.project.flags()
        }
    }
}

impl Containers {
    fn flags(&self) -> ContainerFlags {
        ContainerFlags {
            backend: self.backend.clone(),
            net: self.net.clone(),
            publish: self.publish.clone(),
            memory: self.memory.clone(),
            pids: self.pids,
            cpus: self.cpus,
            no_caches: self.no_toolchain_cache,
            images: self.images.clone(),
            attach: self.attach.clone(),
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

fn parse_transport(word: &str) -> Result<RunnerTransport, &'static str> {
    match word {
        "auto" => Ok(RunnerTransport::Auto),
        "socket" => Ok(RunnerTransport::Socket),
        "stdio" => Ok(RunnerTransport::Stdio),
        _ => Err("say auto, socket or stdio"),
    }
}

fn parse_confine(word: &str) -> Result<ConfinementMode, &'static str> {
    config::parse_confine(word).ok_or("say auto, required or off")
}
