//! `aifo-coder setup`: builds or pulls the images that a project needs (`spec/cli.md#setup`).

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use aifo_agents::AgentSpec;
use aifo_config::{Config, Flags};
use aifo_engine::{Choice, Engine, Flavor, within_timeout};
use aifo_host::CheckedWorkspace;
use aifo_launch::{ImageDecision, ImageReason, NoDialogue, ToolchainImages};
use aifo_terminal::{console, paint};
use aifo_types::Kind;
use anyhow::{Context, bail};

use crate::cli::{BuildImages, Setup};
use crate::images;

/// An image of the project and the way to get it.
#[derive(Debug)]
struct Step {
    /// A toolchain or an agent.
    name: String,
    image: String,
    action: Action,
    /// Why it is this image; empty for the usual one.
    because: String,
    /// The decision by a version.
    decision: Option<ImageDecision>,
}

/// How to get an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The engine has it.
    None,
    Build,
    Pull,
}

/// The images of a project.
struct Plan {
    engine: Engine,
    workspace: PathBuf,
    steps: Vec<Step>,
    /// The agents that will be ready, by name.
    agents: Vec<String>,
}

/// How long a registry may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

pub(crate) async fn setup(flags: &Setup) -> anyhow::Result<ExitCode> {
    let workspace = CheckedWorkspace::new(&flags.workspace.path)?;
    let config = aifo_config::load(workspace.path(), &Flags::default())?;
    let plan = Plan::of(flags, &config, workspace.path()).await?;
    plan.print()?;
    if plan.steps.iter().all(|step| step.action == Action::None) {
        console::say("all images are present");
    } else if !flags.yes && !is_terminal() {
        console::say("nothing was built or pulled; repeat the command with --yes");
        return Ok(ExitCode::FAILURE);
    } else if !flags.yes && !agrees() {
        console::say("nothing was built or pulled");
        return Ok(ExitCode::SUCCESS);
    } else if !plan.carry_out(flags, &config).await? {
        return Ok(ExitCode::FAILURE);
    }
    console::say(plan.next(flags.engine));
    Ok(ExitCode::SUCCESS)
}

impl Plan {
    async fn of(flags: &Setup, config: &Config, workspace: &Path) -> anyhow::Result<Self> {
        let specs = requested_agents(&flags.agents, config)?;
        let engine = find_engine(flags.engine, config, workspace).await?;
        let containers = config.containers(engine);
        let engine = containers.engine.clone();
        let toolchains: Vec<_> = config.toolchains.value.initial().collect();
        let is_named = |kind: &Kind| config.kinds.images.contains_key(kind);
        let is_attached = |kind: &Kind| config.kinds.attached.contains_key(kind);
        let free = toolchains.iter().filter(|it| !is_named(&it.kind) && !is_attached(&it.kind));
        let free: Vec<_> = free.copied().cloned().collect();
        let images = ToolchainImages::decide(&containers, &free, workspace, &mut NoDialogue).await;
        let mut steps = Vec::new();
        for kind in toolchains.iter().map(|toolchain| &toolchain.kind) {
            let decision = images.decisions.iter().find(|decision| decision.kind == *kind);
            let (image, because) = match (decision, &images.devcontainer) {
                _ if is_attached(kind) => continue,
                (Some(decision), _) => (decision.image.clone(), because(decision)),
                (None, Some((devcontainer, Some(true)))) if !is_named(kind) => {
                    (devcontainer.image.clone(), "the project's devcontainer".to_owned())
                }
                (None, _) => (containers.images.of(kind), "configured".to_owned()),
            };
            let has_recipe = decision.is_some_and(|it| is_usual(&it.reason))
                && containers.images.prefix.is_empty()
                && aifo_policy::kind_spec(kind).is_some();
            let action = action(&engine, &image, has_recipe).await;
            let decision = decision.cloned();
            steps.push(Step { name: kind.to_string(), image, action, because, decision });
        }
        for spec in &specs {
            let image = config.agent_image(spec);
            let has_recipe = spec.image.is_none() && containers.images.prefix.is_empty();
            let action = action(&engine, &image, has_recipe).await;
            let (name, because) = (spec.name.clone(), String::new());
            steps.push(Step { name, image, action, because, decision: None });
        }
        let agents = specs.iter().map(|spec| spec.name.clone()).collect();
        Ok(Plan { engine, workspace: workspace.to_owned(), steps, agents })
    }

    /// Prints a line for each image.
    fn print(&self) -> anyhow::Result<()> {
        let flavor = self.engine.flavor();
        console::say(format_args!("images for '{}', in {flavor}:", self.workspace.display()));
        if self.steps.is_empty() {
            console::say("no toolchain matches the project's files, and there is no agent");
        }
        let cells = self.steps.iter().map(|step| {
            let action = match step.action {
                Action::None => "present",
                Action::Build => "build",
                Action::Pull => "pull",
            };
            let because = match step.because.as_str() {
                "" => String::new(),
                because => format!("({because})"),
            };
            [format!("  {action}"), step.name.clone(), step.image.clone(), because]
        });
        console::say_lines(&paint::columns(&cells.collect::<Vec<_>>()));
        Ok(())
    }

    /// Pulls, then builds. Replaces images that cannot be pulled as a session does. Returns whether all
    /// images are present; failures are reported.
    async fn carry_out(&self, flags: &Setup, config: &Config) -> anyhow::Result<bool> {
        let mut is_complete = true;
        let mut names = Vec::new();
        for step in &self.steps {
            match step.action {
                Action::None => {}
                Action::Build => names.push(step.name.clone()),
                Action::Pull => match self.pull(step).await {
                    Ok(None) => {}
                    Ok(Some(name)) => names.push(name),
                    Err(error) => {
                        console::fail(&error);
                        is_complete = false;
                    }
                },
            }
        }
        if names.is_empty() {
            return Ok(is_complete);
        }
        let build = BuildImages {
            names,
            base: flags.base.clone(),
            ca: flags.ca.clone(),
            fresh: false,
            engine: Some(self.engine.flavor()),
        };
        Ok(images::build_named(&build, None, config).await?.is_some() && is_complete)
    }

    /// Pulls an image. Returns the name of the toolchain to build in its place.
    async fn pull(&self, step: &Step) -> anyhow::Result<Option<String>> {
        let image = &step.image;
        console::say(format_args!("{}: pulling {image} ..", step.name));
        let start = Instant::now();
        if let Some(decision) = &step.decision
            && matches!(decision.reason, ImageReason::Pullable { .. })
        {
            let decision = decision.clone().pulled(&self.engine, |_| {}).await;
            if let Some(line) = decision.unavailable() {
                if decision.lacks_version_of_user() {
                    bail!(line);
                }
                console::say(line);
                let has_image = self.engine.has_image(&decision.image).await;
                return Ok((!has_image).then(|| step.name.clone()));
            }
        } else if let Err(why) = self.engine.pull(image, ANSWER, |_| {}).await {
            bail!("'{image}' cannot be pulled: {why}\nhint: load it into {}", self.engine.flavor());
        }
        let seconds = start.elapsed().as_secs_f64();
        console::say(format_args!("{}: pulled {image} in {seconds:.1} s", step.name));
        Ok(None)
    }

    /// The command to run next, with the engine of `--engine`.
    fn next(&self, engine: Option<Flavor>) -> String {
        let backend = engine.map(|engine| format!("--backend {engine} ")).unwrap_or_default();
        match self.agents.as_slice() {
            [] => format!(
                "next: run a command with its tools in sidecars with `aifo-coder run {backend}-- \
                 COMMAND`, or add an agent with `aifo-coder setup AGENT`"
            ),
            [agent, ..] => format!("next: start the agent with `aifo-coder run {backend}{agent}`"),
        }
    }
}

/// Returns the agents of the command line, else those with a state or a login in the home directory.
fn requested_agents<'a>(
    names: &[String],
    config: &'a Config,
) -> anyhow::Result<Vec<&'a AgentSpec>> {
    if !names.is_empty() {
        let named = names.iter().map(|name| config.agent_named(name));
        return Ok(named.collect::<Result<_, _>>()?);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let Some(home) = home else { return Ok(Vec::new()) };
    let is_used = |spec: &&AgentSpec| {
        let login = spec.credentials.as_ref().map(|login| &login.from);
        spec.state.iter().chain(login).any(|path| home.join(path).exists())
    };
    Ok(config.agents.all().into_iter().filter(is_used).collect())
}

async fn find_engine(
    name: Option<Flavor>,
    config: &Config,
    workspace: &Path,
) -> anyhow::Result<Engine> {
    let choice = match name {
        None => config.backend.value.engine().with_context(|| {
            format!(
                "the backend is local ({}): tools run as processes of this machine\n\
                 hint: for containers, name an engine with --engine",
                config.backend.source
            )
        })?,
        Some(flavor) => Choice::Only(flavor),
    };
    let programs = config.trusted_programs(workspace);
    let found = within_timeout(Engine::find(choice, &programs)).await;
    let found = found.context("the engine did not answer")?;
    found.map_err(|error| {
        anyhow::anyhow!(
            "{error}\nhint: start docker or podman; without one, `aifo-coder run -- COMMAND` runs \
             tools as processes of this machine"
        )
    })
}

async fn action(engine: &Engine, image: &str, has_recipe: bool) -> Action {
    match (engine.has_image(image).await, has_recipe) {
        (true, _) => Action::None,
        (false, true) => Action::Build,
        (false, false) => Action::Pull,
    }
}

/// Returns whether a decision is for the usual image, which has a recipe.
fn is_usual(reason: &ImageReason) -> bool {
    matches!(
        reason,
        ImageReason::Usual | ImageReason::Contains(_) | ImageReason::Unavailable { .. }
    )
}

fn because(decision: &ImageDecision) -> String {
    decision.request().unwrap_or_default()
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks on a terminal.
fn agrees() -> bool {
    console::say_lines("aifo-coder: continue? [Y/n] ");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).unwrap_or_default();
    read > 0 && matches!(line.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes")
}
