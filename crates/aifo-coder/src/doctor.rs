//! `aifo-coder doctor`: whether sessions can work here, measured.

mod engine;
mod machine;
mod report;
mod session;
mod trial;

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use aifo_launch::{Engine, Flavor, ShimBinary, ShimBinaryError, TrustedPrograms};

use self::report::{Finding, Status};
use crate::cli::Doctor;
use crate::config::{self, Backend, Config, ConfigError};
use crate::console::{self, Chatter};
use crate::engines::{self, Asked};
use crate::paint::{self, Paint};
use crate::run::called_off;
use crate::settings;
use crate::start::EndSignals;

pub(crate) async fn doctor(flags: &Doctor) -> anyhow::Result<ExitCode> {
    console::start(Chatter::Warnings);
    let mut signals = EndSignals::listen()?;
    tokio::select! {
        code = examine(flags) => code,
        // Whatever a check has started goes with it.
        signal = signals.told() => Ok(called_off(signal)),
    }
}

async fn examine(flags: &Doctor) -> anyhow::Result<ExitCode> {
    let scene = Scene::of(flags).await?;
    let paint = Paint::of_stdout();
    let mut all = Vec::new();
    for check in CHECKS {
        for finding in check.run(&scene).await {
            if !flags.json {
                paint::print(&finding.lines(paint))?;
            }
            all.push(finding);
        }
    }
    if flags.json {
        paint::print_json(&all)?;
    }
    let failed = all.iter().any(|finding| finding.status == Status::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What the checks look at.
struct Scene {
    /// What a session with these options would be told.
    config: Config,
    /// Why it would not start, and `config` is only what is built in.
    mistake: Option<ConfigError>,
    workspace: std::path::PathBuf,
    programs: TrustedPrograms,
    /// Of those that may be used here.
    engines: Vec<Asked>,
    shim: Result<ShimBinary, ShimBinaryError>,
}

impl Scene {
    /// Errors: the options themselves are wrong.
    async fn of(flags: &Doctor) -> anyhow::Result<Self> {
        let given = flags.flags();
        let workspace = flags.project.workspace.clone();
        let (config, mistake) = match config::load(&workspace, &given) {
            Ok(config) => (config, None),
            Err(error) if error.is_usage() => return Err(error.into()),
            Err(error) => (Config::builtin(), Some(error)),
        };
        let programs = settings::programs(&workspace, &config);
        let wanted = config.containers.backend.value;
        let mut engines = match wanted {
            Backend::Local => Vec::new(),
            Backend::Auto | Backend::Engine(_) => engines::ask_all(&programs).await,
        };
        engines.retain(|asked| wanted == Backend::Auto || wanted == Backend::Engine(asked.flavor));
        Ok(Scene { config, mistake, workspace, engines, programs, shim: ShimBinary::find() })
    }

    /// The engine that was asked for by name, if one was.
    fn wanted_engine(&self) -> Option<Flavor> {
        match self.config.containers.backend.value {
            Backend::Engine(flavor) => Some(flavor),
            Backend::Auto | Backend::Local => None,
        }
    }

    fn answering(&self) -> impl Iterator<Item = &Engine> {
        self.engines.iter().filter_map(|asked| asked.answer.as_ref().ok())
    }
}

/// A question, and how it is answered.
struct Check {
    what: &'static str,
    answer: Answer,
}

enum Answer {
    /// By looking.
    Look(fn(&Scene) -> Vec<Finding>),
    /// By asking others, who may take their time.
    Ask(for<'a> fn(&'a Scene) -> Asking<'a>),
}

type Asking<'a> = Pin<Box<dyn Future<Output = Vec<Finding>> + 'a>>;

const CHECKS: &[Check] = &[
    Check { what: "versions", answer: Answer::Look(machine::versions) },
    Check { what: "kernel", answer: Answer::Look(machine::kernel) },
    Check { what: "landlock", answer: Answer::Look(machine::landlock) },
    Check { what: "security", answer: Answer::Look(machine::security_modules) },
    Check { what: "tiocsti", answer: Answer::Look(machine::tiocsti) },
    Check { what: "open files", answer: Answer::Look(machine::open_files) },
    Check { what: "terminal", answer: Answer::Look(machine::terminal) },
    Check { what: "workspace", answer: Answer::Look(session::workspace) },
    Check { what: "programs", answer: Answer::Look(session::programs) },
    Check { what: "config", answer: Answer::Look(session::config) },
    Check { what: "runtime folder", answer: Answer::Look(session::runtime_folder) },
    Check { what: "killed sessions", answer: Answer::Look(session::killed) },
    Check { what: "engines", answer: Answer::Look(engine::engines) },
    Check { what: "images", answer: Answer::Ask(|scene| Box::pin(engine::images(scene))) },
    Check { what: "local", answer: Answer::Ask(|scene| Box::pin(trial::local(scene))) },
    Check { what: "docker", answer: Answer::Ask(|scene| Box::pin(trial::docker(scene))) },
    Check { what: "podman", answer: Answer::Ask(|scene| Box::pin(trial::podman(scene))) },
];

/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(10);

impl Check {
    async fn run(&self, scene: &Scene) -> Vec<Finding> {
        match self.answer {
            Answer::Look(look) => look(scene),
            Answer::Ask(ask) => match tokio::time::timeout(PATIENCE, ask(scene)).await {
                Ok(findings) => findings,
                Err(_) => {
                    let late = format!("no answer within {} s", PATIENCE.as_secs());
                    let fix = "see whether the machine is busy, and whether the engine is well";
                    vec![Finding::fail(self.what, late, fix)]
                }
            },
        }
    }
}
