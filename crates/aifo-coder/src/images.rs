//! `aifo-coder images`: builds and lists images, and renews their lock file (`spec/images.md`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use aifo_agents::trusted_programs_here;
use aifo_config::{Config, Flags};
use aifo_engine::{
    Choice, Engine, Flavor, Programs,
    images::{BaseChoice, BuildOptions, Destination, Host, ImageNames, Lock, Part, Recipe},
    within_timeout,
};
use aifo_host::{ShimBinary, state_directory};
use aifo_terminal::console::{self, EscapedStderr};
use aifo_terminal::paint;
use anyhow::Context;
use serde::Serialize;

use crate::cli::{BuildImages, ImagesCommand, PushImages};

/// The command in hints.
const COMMAND: &str = "aifo-coder images";

pub(crate) async fn run(command: &ImagesCommand) -> anyhow::Result<ExitCode> {
    let config = aifo_config::load(Path::new("."), &Flags::default())?;
    match command {
        ImagesCommand::Build { images, rust_from_host } => {
            let toolchain = if *rust_from_host { Some(toolchain()?) } else { None };
            build(images, toolchain, &config).await
        }
        ImagesCommand::Update(flags) => update(flags, &config).await,
        ImagesCommand::List { engine, json } => list(*engine, *json, &config).await,
        ImagesCommand::Push(flags) => push(flags, &config).await,
    }
}

async fn build(
    flags: &BuildImages,
    toolchain: Option<PathBuf>,
    config: &Config,
) -> anyhow::Result<ExitCode> {
    let Some(built) = build_named(flags, toolchain, config).await? else {
        return Ok(ExitCode::FAILURE);
    };
    console::say(next_step(&built));
    Ok(ExitCode::SUCCESS)
}

/// Builds images. Returns their recipes, or `None` if one failed, which is reported.
pub(crate) async fn build_named(
    flags: &BuildImages,
    toolchain: Option<PathBuf>,
    config: &Config,
) -> anyhow::Result<Option<Vec<&'static Recipe>>> {
    let mut options = BuildOptions { toolchain, ..options(flags, config) };
    for program in aifo_engine::images::programs(&flags.names)? {
        match program {
            "aifo-shim" => {
                let shim = ShimBinary::find(trusted_programs_here)?;
                options.shim = Some(shim.path().to_owned());
            }
            // The running program, also after the file was replaced.
            _ => options.coder = Some(PathBuf::from("/proc/self/exe")),
        }
    }
    let mut lock = Lock::embedded()?;
    if let Some(path) = lock_path() {
        lock = lock.with(Lock::read(&path)?);
    }
    let host = host(flags.engine, config).await?;
    let start = Instant::now();
    let (built, errors) = aifo_engine::images::build(&host, &lock, &options, &mut EscapedStderr)?;
    let seconds = start.elapsed().as_secs();
    if !built.is_empty() {
        let images = console::counted(built.len(), "image");
        console::say(format_args!("built {images} with {} in {seconds} s", host.flavor));
    }
    let failed = !errors.is_empty();
    for error in errors {
        console::fail(&anyhow::Error::from(error));
    }
    Ok((!failed).then_some(built))
}

/// The command to run after a build.
fn next_step(built: &[&Recipe]) -> String {
    let of = |part| built.iter().find(|recipe| recipe.part == part);
    match of(Part::Agent) {
        Some(agent) => {
            format!("next: start it in a project with `aifo-coder run {}`", agent.short_name())
        }
        None if of(Part::Launcher).is_some() => {
            format!("next: push it for a cluster with `{COMMAND} push REGISTRY/PREFIX`")
        }
        None => {
            "next: `aifo-coder agents` lists the agents, `aifo-coder images build AGENT` builds one"
                .to_owned()
        }
    }
}

async fn update(flags: &BuildImages, config: &Config) -> anyhow::Result<ExitCode> {
    let path = lock_path().context("cannot find the lock file: HOME is not set")?;
    let mut users = Lock::read(&path)?;
    let mut lock = Lock::embedded()?.with(users.clone());
    let host = host(flags.engine, config).await?;
    let options = options(flags, config);
    aifo_engine::images::update(&host, &mut lock, &options, &mut EscapedStderr, |lock| {
        users = lock.clone();
        users.write(&path)
    })?;
    console::say(format_args!("updated {}", path.display()));
    let names = if flags.names.is_empty() { "NAME".to_owned() } else { flags.names.join(" ") };
    console::say(format_args!("next: build the images with `{COMMAND} build {names}`"));
    Ok(ExitCode::SUCCESS)
}

/// Pushes images to a registry.
async fn push(flags: &PushImages, config: &Config) -> anyhow::Result<ExitCode> {
    let destination = Destination::parse(&flags.destination)?;
    let host = host(flags.engine, config).await?;
    let image_names = image_names(config);
    let pushed = aifo_engine::images::push(
        &host,
        &flags.names,
        &image_names,
        &destination,
        COMMAND,
        &mut EscapedStderr,
    )?;
    let images = if pushed.len() == 1 { "image" } else { "images" };
    console::say(format_args!("pushed {} {images} to {destination}", pushed.len()));
    if image_names.prefix != destination.prefix() {
        console::say(format_args!(
            "next: sessions use them with image_prefix = \"{}\" in [containers] of the configuration",
            destination.prefix()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// A row of `images list --json`.
#[derive(Serialize)]
struct Row<'a> {
    image: &'a str,
    tag: &'a str,
    size: &'a str,
    age: &'a str,
}

async fn list(engine: Option<Flavor>, json: bool, config: &Config) -> anyhow::Result<ExitCode> {
    let host = host(engine, config).await?;
    let rows = host.images()?;
    if json {
        let rows = rows.iter().map(|[image, tag, size, age]| Row { image, tag, size, age });
        paint::print_json(&rows.collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        console::say(format_args!(
            "{} has no image of aifo; build those of a project with `aifo-coder setup`, or any with \
             `{COMMAND} build`",
            host.flavor
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["IMAGE", "TAG", "SIZE", "AGE"].map(str::to_owned);
    paint::print(&paint::columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))?;
    Ok(ExitCode::SUCCESS)
}

/// The user's lock file; `None` without a home.
fn lock_path() -> Option<PathBuf> {
    state_directory().map(|state| state.join("images.lock"))
}

fn options(flags: &BuildImages, config: &Config) -> BuildOptions {
    let ca = || std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    BuildOptions {
        names: flags.names.clone(),
        base: flags.base.as_deref().map(BaseChoice::parse).unwrap_or_default(),
        image_names: image_names(config),
        ca: flags.ca.clone().or_else(ca),
        shim: None,
        coder: None,
        toolchain: None,
        packages: config.agents.packages(),
        fresh: flags.fresh,
        command: COMMAND,
    }
}

fn image_names(config: &Config) -> ImageNames {
    ImageNames { prefix: config.image_prefix.value.clone(), tag: config.image_tag.value.clone() }
}

/// This machine's default Rust toolchain.
fn toolchain() -> anyhow::Result<PathBuf> {
    let rustc = trusted_programs_here().find("rustc").map_err(|_| {
        anyhow::anyhow!(
            "no trusted 'rustc' is in PATH\nhint: install Rust, or build without --rust-from-host"
        )
    })?;
    // Outside of every project: a project's `rust-toolchain.toml` can name a toolchain of its own.
    Ok(aifo_engine::images::toolchain(&rustc, Path::new("/"))?)
}

/// Finds the trusted programs, and an engine that answers.
async fn host(engine: Option<Flavor>, config: &Config) -> anyhow::Result<Host> {
    let choice = match engine {
        None => config.backend.value.engine().unwrap_or(Choice::Any),
        Some(flavor) => Choice::Only(flavor),
    };
    let programs = trusted_programs_here();
    let found = within_timeout(Engine::find(choice, &programs)).await;
    let flavor = found.context("the engine did not answer")??.flavor();
    let engine = programs.find(flavor.program());
    let engine = engine.map_err(|_| anyhow::anyhow!("{flavor} is not a trusted program"))?;
    Ok(Host { flavor, engine, mmdebstrap: programs.find("mmdebstrap").ok() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_engine::images::recipes;

    fn recipes_of(part: Part) -> Vec<&'static str> {
        let of = recipes().iter().filter(|recipe| recipe.part == part);
        let mut names: Vec<_> = of.map(Recipe::short_name).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_row_has_a_recipe_and_every_recipe_a_row() {
        let mut kinds: Vec<_> = aifo_policy::kinds().iter().map(|spec| spec.name).collect();
        kinds.sort_unstable();
        assert_eq!(recipes_of(Part::Toolchain), kinds);
        let agents = aifo_agents::known_agents();
        let agents: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(recipes_of(Part::Agent), agents);
    }

    #[test]
    fn the_next_step_starts_the_agent() {
        let named = |name: &str| recipes().iter().find(|recipe| recipe.name == name).unwrap();
        let (rust, codex) = (named("rust"), named("agent-codex"));
        assert!(next_step(&[rust, codex]).ends_with("`aifo-coder run codex`"));
        assert!(next_step(&[rust]).contains("`aifo-coder agents`"));
        assert!(next_step(&[named("launcher")]).contains("`aifo-coder images push "));
    }
}
