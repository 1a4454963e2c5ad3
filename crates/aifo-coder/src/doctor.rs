//! `aifo-coder doctor`: checks this machine, or a cluster, and suggests fixes.

mod engine;
mod report;
mod trial;

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use aifo_config::{Config, ConfigError, SessionCheck};
use aifo_engine::{Engine, EngineStatus, Flavor, query_engines};
use aifo_host::{EndSignals, ShimBinary, ShimBinaryError, TrustedPrograms};
use aifo_kube::client::without_backend;
use aifo_launch::{BackendChoice, CheckedMachine};
use aifo_terminal::console::LogLevel;
use aifo_terminal::paint::{self, Paint};
use aifo_types::{Finding, FindingStatus};

use self::report::Row;
use crate::cli::Doctor;
use crate::start::signal_exit_code;
use crate::{history, logging};

pub(crate) async fn doctor(flags: &Doctor) -> anyhow::Result<ExitCode> {
    logging::start(LogLevel::Warnings);
    let mut signals = EndSignals::listen()?;
    tokio::select! {
        code = examine(flags) => code,
        // Dropping the checks ends the processes they started.
        signal = signals.recv() => Ok(signal_exit_code(signal)),
    }
}

async fn examine(flags: &Doctor) -> anyhow::Result<ExitCode> {
    let context = CheckContext::of(flags).await?;
    let paint = Paint::of_stdout();
    let mut all = Vec::new();
    for check in CHECKS {
        for finding in check.run(&context).await {
            if !flags.json {
                paint::print(&report::lines(&finding, paint))?;
            }
            all.push(finding);
        }
    }
    if flags.json {
        paint::print_json(&all.iter().map(Row::of).collect::<Vec<_>>())?;
    }
    let failed = all.iter().any(|finding| finding.status == FindingStatus::Fail);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The input of the checks.
struct CheckContext {
    /// The configuration of a session with these options.
    config: Config,
    /// The configuration's error; `config` then holds the built-in defaults.
    config_error: Option<ConfigError>,
    workspace: std::path::PathBuf,
    programs: TrustedPrograms,
    /// The engines that the configuration permits.
    engines: Vec<EngineStatus>,
    shim: Result<ShimBinary, ShimBinaryError>,
}

impl CheckContext {
    /// Errors: the options themselves are wrong.
    async fn of(flags: &Doctor) -> anyhow::Result<Self> {
        let given = flags.flags();
        let workspace = flags.project.workspace.path.clone();
        let (config, config_error) = match aifo_config::load(&workspace, &given) {
            Ok(config) => (config, None),
            Err(error) if error.is_usage() => return Err(error.into()),
            Err(error) => (Config::builtin(), Some(error)),
        };
        let programs = config.trusted_programs(&workspace);
        let backend = config.backend.value;
        if let Some(flag) = flags.given_for_cluster()
            && config_error.is_none()
            && backend != BackendChoice::Kubernetes
        {
            return Err(without_backend(flag).into());
        }
        let mut engines = match backend {
            BackendChoice::Local | BackendChoice::Pod | BackendChoice::Kubernetes => Vec::new(),
            BackendChoice::Auto | BackendChoice::Engine(_) => query_engines(&programs).await,
        };
        engines.retain(|status| {
            backend == BackendChoice::Auto || backend == BackendChoice::Engine(status.flavor)
        });
        Ok(CheckContext {
            config,
            config_error,
            workspace,
            engines,
            shim: ShimBinary::find(|| programs.clone()),
            programs,
        })
    }

    fn session(&self) -> SessionCheck<'_> {
        SessionCheck {
            config: &self.config,
            error: self.config_error.as_ref(),
            workspace: &self.workspace,
            programs: &self.programs,
        }
    }

    fn has_project(&self) -> bool {
        self.session().has_project()
    }

    /// The engine that is configured by name, if any.
    fn named_engine(&self) -> Option<Flavor> {
        match self.config.backend.value {
            BackendChoice::Engine(flavor) => Some(flavor),
            BackendChoice::Auto
            | BackendChoice::Local
            | BackendChoice::Pod
            | BackendChoice::Kubernetes => None,
        }
    }

    /// True if sessions are pods of a cluster.
    fn is_cluster(&self) -> bool {
        self.config.backend.value == BackendChoice::Kubernetes
    }

    /// The engine that sessions use: without a choice the first that answers.
    fn answering(&self) -> Option<&Engine> {
        self.engines.iter().find_map(|status| status.result.as_ref().ok())
    }

    /// True if sessions use an engine before this one. One that does not answer is still named: its images may be
    /// those that are missing.
    fn is_unused(&self, status: &EngineStatus) -> bool {
        let mut before = self.engines.iter().take_while(|other| other.flavor != status.flavor);
        before.any(|other| other.result.is_ok())
    }
}

fn machine(context: &CheckContext) -> Vec<Finding> {
    let CheckContext { config, shim, workspace, .. } = context;
    CheckedMachine { shim, workspace, confinement: config.confine.value }.findings()
}

fn history(context: &CheckContext) -> Vec<Finding> {
    let CheckContext { config, workspace, programs, .. } = context;
    if !context.has_project() || context.is_cluster() || !config.history_enabled.value {
        return Vec::new();
    }
    let finding = match aifo_host::history_store(workspace, programs) {
        Ok(store) => {
            Finding::ok("history", store.map_or_else(String::new, |it| history::state(&it)))
        }
        Err(error) => Finding::warn(
            "history",
            format!("git: {error}"),
            "install git; without it, 'aifo-coder undo' cannot put back what a call changed",
        ),
    };
    vec![finding]
}

async fn cluster(context: &CheckContext) -> Vec<Finding> {
    match context.is_cluster() {
        true => aifo_kube::client::check(&context.config, &context.programs).await,
        false => Vec::new(),
    }
}

/// A check and the function that runs it.
struct Check {
    name: &'static str,
    method: Method,
}

enum Method {
    Sync(fn(&CheckContext) -> Vec<Finding>),
    /// Runs commands of an engine; has [`QUERY_TIMEOUT`].
    Query(for<'a> fn(&'a CheckContext) -> FindingsFuture<'a>),
    /// Runs commands of kubectl; limits their times itself.
    Cluster(for<'a> fn(&'a CheckContext) -> FindingsFuture<'a>),
    /// Starts, uses and ends a session; has [`TRIAL_TIMEOUT`].
    Trial(for<'a> fn(&'a CheckContext) -> FindingsFuture<'a>),
}

type FindingsFuture<'a> = Pin<Box<dyn Future<Output = Vec<Finding>> + 'a>>;

const CHECKS: &[Check] = &[
    Check { name: "machine", method: Method::Sync(machine) },
    Check { name: "session", method: Method::Sync(|context| context.session().findings()) },
    Check { name: "history", method: Method::Sync(history) },
    Check { name: "engines", method: Method::Sync(engine::engines) },
    Check { name: "images", method: Method::Query(|context| Box::pin(engine::images(context))) },
    Check { name: "cluster", method: Method::Cluster(|context| Box::pin(cluster(context))) },
    Check { name: "local", method: Method::Trial(|context| Box::pin(trial::local(context))) },
    Check { name: "docker", method: Method::Trial(|context| Box::pin(trial::docker(context))) },
    Check { name: "podman", method: Method::Trial(|context| Box::pin(trial::podman(context))) },
];

/// The time limit of a check by commands of an engine.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit of a trial session. Generous, because one that is cut off leaves its network or
/// container to the next cleanup.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(60);

impl Check {
    async fn run(&self, context: &CheckContext) -> Vec<Finding> {
        let (check, timeout) = match self.method {
            Method::Sync(check) => return check(context),
            Method::Cluster(check) => return check(context).await,
            Method::Query(check) => (check, QUERY_TIMEOUT),
            Method::Trial(check) => (check, TRIAL_TIMEOUT),
        };
        tokio::time::timeout(timeout, check(context)).await.unwrap_or_else(|_| {
            let late = format!("no answer within {} s", timeout.as_secs());
            let fix = "check the machine's load and the engine's state";
            vec![Finding::fail(self.name, late, fix)]
        })
    }
}
