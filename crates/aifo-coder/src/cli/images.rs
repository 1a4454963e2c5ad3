//! `aifo-coder images` (`spec/images.md`).

use std::path::PathBuf;

use aifo_engine::Flavor;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};

use crate::cli::session::Workspace;

/// Build images of toolchains and agents
#[derive(Debug, Args)]
pub(crate) struct Images {
    #[command(subcommand)]
    pub(crate) command: ImagesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImagesCommand {
    /// Build images and their bases
    Build {
        #[command(flatten)]
        images: BuildImages,
        /// Copy this machine's default Rust toolchain into the image of rust, instead of Debian's packages
        #[arg(long)]
        rust_from_host: bool,
    },
    /// List the images that the engine has
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Engine: docker or podman [default: the configured one, or the first that answers]
        #[arg(long, value_name = "ENGINE", value_parser = engines(), hide_possible_values = true)]
        engine: Option<Flavor>,
    },
    /// Renew the versions and hashes from which images are built
    Update(BuildImages),
    /// Push images to a registry, for the nodes of a cluster
    Push(PushImages),
}

#[derive(Debug, Args)]
pub(crate) struct PushImages {
    /// Registry and prefix, as in registry.example:5000/team
    #[arg(value_name = "REGISTRY/PREFIX", value_hint = ValueHint::Other)]
    pub(crate) destination: String,
    /// Toolchains, agents, `launcher`, or `toolchains` or `agents` for all [default: all that the engine has]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Engine: docker or podman [default: the configured one, or the first that answers]
    #[arg(long, value_name = "ENGINE", value_parser = engines(), hide_possible_values = true)]
    pub(crate) engine: Option<Flavor>,
}

#[derive(Debug, Args)]
pub(crate) struct BuildImages {
    /// Toolchains, agents with an optional @VERSION, `launcher` for sessions in a cluster, or `toolchains` or `agents`
    /// for all
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Base of all images: mmdebstrap, mmdebstrap:SUITE or an image [default: Debian's own image; mmdebstrap
    /// if no registry answers]
    #[arg(long, value_name = "BASE")]
    pub(crate) base: Option<String>,
    /// PEM file with the certificates of package indexes [env: SSL_CERT_FILE]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca: Option<PathBuf>,
    /// Download packages again, for security updates
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Engine: docker or podman [default: the configured one, or the first that answers]
    #[arg(long, value_name = "ENGINE", value_parser = engines(), hide_possible_values = true)]
    pub(crate) engine: Option<Flavor>,
}

#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// Agent whose image the project needs; repeatable [default: those with a login or a state in your
    /// home directory]
    #[arg(value_name = "AGENT")]
    pub(crate) agents: Vec<String>,
    #[command(flatten)]
    pub(crate) workspace: Workspace,
    /// Build and pull without a question
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Base of all images: mmdebstrap, mmdebstrap:SUITE or an image [default: Debian's own image; mmdebstrap
    /// if no registry answers]
    #[arg(long, value_name = "BASE")]
    pub(crate) base: Option<String>,
    /// PEM file with the certificates of package indexes [env: SSL_CERT_FILE]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca: Option<PathBuf>,
    /// Engine: docker or podman [default: the configured one, or the first that answers]
    #[arg(long, value_name = "ENGINE", value_parser = engines(), hide_possible_values = true)]
    pub(crate) engine: Option<Flavor>,
}

/// The parser of `--engine`, whose words are also completed.
fn engines() -> impl TypedValueParser<Value = Flavor> {
    let words = PossibleValuesParser::new(["docker", "podman"]);
    words.map(|word| if word == "podman" { Flavor::Podman } else { Flavor::Docker })
}
