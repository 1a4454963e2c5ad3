//! Flags of a session.

use std::path::PathBuf;

use aifo_launch::{ConfinementMode, RunnerTransport};
use aifo_types::Endpoint;
use clap::{Args, ValueHint};

use crate::config::{self, ContainerFlags, Flags};

#[derive(Debug, Args)]
pub(crate) struct Session {
    #[command(flatten)]
    pub(crate) project: Project,
    /// Address of the proxy: unix:///path/to.sock or tcp://host:port, port 0 for any [default: a
    /// unix socket in the session directory]
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Option<Endpoint>,
    /// Stop sidecars that were started on demand after N idle seconds; 0 for never [default: 900]
    #[arg(long, value_name = "N")]
    pub(crate) idle_stop: Option<u64>,
    /// Time limit of a tool in seconds, 0 for none; sends INT, TERM 5 s and KILL 10 s after it
    /// [env: AIFO_TOOLEEXEC_MAX_SECS]
    #[arg(long, value_name = "N")]
    pub(crate) max_secs: Option<u64>,
    /// Confinement of tools: auto (as far as the kernel supports it), required (fail without it) or
    /// off [default: auto]
    #[arg(long, value_name = "HOW", value_parser = parse_confine)]
    pub(crate) confine: Option<ConfinementMode>,
    /// Transport to runners: socket (passes the caller's descriptors), stdio (relays all streams,
    /// for engines with another kernel) or auto
    #[arg(long, value_name = "HOW", value_parser = parse_transport, default_value = "auto")]
    pub(crate) runner_transport: RunnerTransport,
    /// Only print warnings and errors on stderr
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log decisions on stderr [env: AIFO_TOOLCHAIN_VERBOSE=1, RUST_LOG]
    #[arg(short, long)]
    pub(crate) verbose: bool,
    // Last, because its heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) containers: ContainerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Project {
    /// Workspace directory; tools run in it and below
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) workspace: PathBuf,
    /// Toolchain to start: rust, node, python, c-cpp, go or one of your own, with a version as in
    /// rust@1.95; auto starts each on demand; repeatable [default: detected from the project's
    /// files]
    #[arg(long = "toolchain", value_name = "KIND", value_delimiter = ',')]
    pub(crate) toolchains: Vec<String>,
    /// Forward the caller's variable NAME, or those of 'PREFIX*', to tools; NAME=VALUE sets it for
    /// every tool; repeatable
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,
}

/// Flags for smart decisions.
#[derive(Debug, Args)]
pub(crate) struct SmartFlags {
    /// Run node programs from outside the workspace next to the agent
    #[arg(long)]
    pub(crate) smart_node: bool,
    /// Run python modules, and programs from outside the workspace, next to the agent
    #[arg(long)]
    pub(crate) smart_python: bool,
}

/// Flags for the backend and containers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub(crate) struct ContainerArgs {
    /// Backend of sidecars: docker, podman, local (child processes) or auto (containers if an
    /// engine answers and has the images, else local) [default: auto] [env: AIFO_BACKEND]
    #[arg(long, value_name = "HOW")]
    pub(crate) backend: Option<String>,
    /// Image of a toolchain's containers; repeatable [env: AIFO_KIND_TOOLCHAIN_IMAGE]
    #[arg(long = "toolchain-image", value_name = "KIND=IMAGE")]
    pub(crate) images: Vec<String>,
    /// Run a toolchain's tools in a running container of yours, such as a devcontainer; repeatable
    #[arg(long, value_name = "NAME=KIND")]
    pub(crate) attach: Vec<String>,
    /// Discard downloads and builds with the session instead of caching them
    #[arg(long)]
    pub(crate) no_toolchain_cache: bool,
    /// Network of containers: shared (one stack for all), separate (one for each), none or host
    /// [default: shared]
    #[arg(long, value_name = "HOW")]
    pub(crate) net: Option<String>,
    /// Publish a port of the containers: PORT:PORT or IP:PORT:PORT; repeatable
    #[arg(long, value_name = "PORTS")]
    pub(crate) publish: Vec<String>,
    /// Memory limit of each container, for example 512m or 4g; 0 for none [default: three quarters
    /// of the machine's]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Limit of processes and threads in each container; 0 for none [default: 4096]
    #[arg(long, value_name = "N")]
    pub(crate) pids: Option<u32>,
    /// Processors of each container, for example 1.5 [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<f64>,
    /// Print the engine's commands without running them
    #[arg(long)]
    pub(crate) dry_run: bool,
}

impl Session {
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

impl ContainerArgs {
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
    pub(crate) fn flags(&self) -> Flags {
        Flags { toolchains: self.toolchains.clone(), env: self.env.clone(), ..Flags::default() }
    }
}

impl SmartFlags {
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
        _ => Err("expected auto, socket or stdio"),
    }
}

fn parse_confine(word: &str) -> Result<ConfinementMode, &'static str> {
    config::parse_confine(word).ok_or("expected auto, required or off")
}
