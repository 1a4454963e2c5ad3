//! `aifo-coder mailbox`: runs commands of this machine for containers that share a directory with it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use aifo_agents::{path_without_shims, trusted_programs};
use aifo_config::{Config, Flags};
use aifo_engine::MissingProgram;
use aifo_host::{EndSignals, ShimBinary, TrustedPrograms, short};
use aifo_launch::{ProxyQuestions, report_waiting_calls, run_ask_command};
use aifo_process::raise_open_files;
use aifo_proxy::{
    CallApprovals,
    mailbox::{
        CommandName, Directory, HostRunner, Mailbox, MailboxConfig, ServedCommand, Stop, host_fleet,
    },
};
use aifo_terminal::console::LogLevel;
use aifo_terminal::paint;
use aifo_types::escape_line;
use aifo_wire::Limits;
use anyhow::{Context, bail};
use tokio::sync::watch;

use crate::cli;
use crate::logging;

pub(crate) async fn mailbox(flags: cli::Mailbox) -> anyhow::Result<ExitCode> {
    logging::start(flags.log_level());
    let workspace = std::env::current_dir().context("cannot determine the current directory")?;
    let workspace = workspace.canonicalize().context("the current directory does not exist")?;
    // In the user's home the workspace rules are the user's own.
    let has_user_file =
        aifo_config::user_file_path().is_some_and(|file| file.starts_with(&workspace));
    let mut config = match has_user_file {
        true => aifo_config::load_user()?,
        false => aifo_config::load(&workspace, &Flags::default())?,
    };
    config.default_rules.value &= !flags.no_rules;
    let asked = &config.ask_command.value;
    let ask_command = config.user_program(&workspace, "ask.command", asked)?;
    let approvals = approvals(&workspace, &config);
    let programs = trusted_programs(&workspace);
    let shim = ShimBinary::find(|| programs.clone())?;
    let (directory, shown) = open_directory(&flags)?;
    let path = path_without(&path_without_shims(std::env::var_os("PATH")), &shown);
    let programs = programs.with_path(path.clone());
    let mut commands: Vec<ServedCommand> = Vec::new();
    for name in flags.commands {
        if commands.iter().all(|known| known.name != name) {
            commands.push(find(name, &programs)?);
        }
    }
    let mut signals = EndSignals::listen()?;
    let host = HostRunner {
        runner_program: shim.program(),
        workspace: workspace.clone(),
        path,
        open_files: raise_open_files()?,
    };
    let fleet = Arc::new(host_fleet(host).await?);
    let config = MailboxConfig {
        directory,
        workspace: workspace.clone(),
        commands: commands.clone(),
        variables: flags.env,
        approvals: approvals.clone(),
        max_runtime: Some(flags.max_secs).filter(|secs| *secs > 0).map(Duration::from_secs),
        grace: Duration::from_secs(flags.grace),
    };
    let served = match Mailbox::open(config, Arc::clone(&fleet)).await {
        Ok(mailbox) => {
            let (sender, receiver) = watch::channel(Stop::No);
            let announced = announce(&commands, &shown);
            if announced.is_err() {
                sender.send_replace(Stop::AtOnce);
            }
            let questions = serve_questions(&workspace, &approvals);
            let reports = async {
                let Some(served) = &questions else { return std::future::pending().await };
                let command = format!("aifo-coder approve {}", short(served.id()));
                report_waiting_calls(approvals.clone(), command, |_| ()).await
            };
            let asks = async {
                match ask_command {
                    Some(command) => {
                        run_ask_command(approvals.clone(), ASKED_AS.to_owned(), command).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = mailbox.serve(receiver) => {}
                () = asks => {}
                never = reports => match never {},
                () = forward_signals(&mut signals, &sender) => {}
            }
            announced.context("cannot print the served commands")
        }
        Err(error) => Err(error.into()),
    };
    fleet.stop().await;
    served.map(|()| ExitCode::SUCCESS)
}

/// The name in place of a session for the program that answers questions.
const ASKED_AS: &str = "proxy";
/// The time for an answer; a request waits at most this long.
const ASK_TIMEOUT: u64 = 240;

/// Returns the approvals by the rules of the configuration.
fn approvals(workspace: &Path, config: &Config) -> CallApprovals {
    let judge = config.argument_rules.judge(config.default_rules.value);
    if judge.is_empty() {
        return CallApprovals::allow_all();
    }
    let names = vec![vec![workspace.to_owned()]];
    let timeout = Duration::from_secs(config.ask_timeout_secs.value.unwrap_or(ASK_TIMEOUT));
    let command = "aifo-coder approve".to_owned();
    CallApprovals::new(Some(judge.into()), names, timeout, &Limits::default(), command)
}

/// Serves `aifo-coder approve` and web pages. Without it only the user's program answers.
fn serve_questions(workspace: &Path, approvals: &CallApprovals) -> Option<ProxyQuestions> {
    if !approvals.has_judge() {
        return None;
    }
    let served = ProxyQuestions::serve(workspace, approvals.clone());
    served.inspect_err(|error| tracing::warn!(%error, "'aifo-coder approve' cannot answer")).ok()
}

/// Stops the mailbox: the first signal within its grace period, the next at once. Never returns.
async fn forward_signals(signals: &mut EndSignals, sender: &watch::Sender<Stop>) {
    for stop in [Stop::Gracefully, Stop::AtOnce] {
        signals.recv().await;
        sender.send_replace(stop);
    }
    std::future::pending::<()>().await;
}

/// Returns the first program in PATH that the mailbox's clients cannot write to. If PATH has only one
/// in the workspace, that is served with a warning, since the user named it.
fn find(name: CommandName, programs: &TrustedPrograms) -> anyhow::Result<ServedCommand> {
    match programs.program(name.as_str()) {
        Ok(program) => Ok(ServedCommand { name, program }),
        Err(MissingProgram::Untrusted { file: program, why }) => {
            tracing::warn!("command '{name}' is '{}': {why}", program.display());
            Ok(ServedCommand { name, program })
        }
        Err(MissingProgram::Absent) => bail!("command '{name}' not found in PATH"),
    }
}

/// PATH without the mailbox, whose clients would call themselves.
fn path_without(path: &OsStr, mailbox: &Path) -> OsString {
    let mailbox = mailbox.canonicalize().ok();
    let leads_back = |entry: &PathBuf| mailbox.is_some() && entry.canonicalize().ok() == mailbox;
    let kept = std::env::split_paths(path).filter(|entry| !leads_back(entry));
    // Entries of a PATH contain no ':'.
    std::env::join_paths(kept).unwrap_or_default()
}

/// Opens the mailbox. Returns it with its path for messages.
fn open_directory(flags: &cli::Mailbox) -> anyhow::Result<(Directory, PathBuf)> {
    let (base, shown) = match (&flags.dir, flags.global) {
        (Some(dir), _) => {
            let directory = Directory::open_or_create(dir);
            let directory = directory.with_context(|| format!("'{}'", dir.display()))?;
            return Ok((directory, dir.clone()));
        }
        (None, true) => {
            let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else {
                bail!("HOME is not set\nhint: name a directory with --dir");
            };
            (home.clone(), home.join(DIRECTORIES.concat()))
        }
        (None, false) => (PathBuf::from("."), PathBuf::from(DIRECTORIES.concat())),
    };
    let failed = || format!("cannot open '{}'", shown.display());
    let mut directory = Directory::open(&base).with_context(failed)?;
    for name in DIRECTORIES {
        // One by one: a container that owns the workspace may have put a link there.
        directory = directory.open_subdirectory(name.trim_end_matches('/')).with_context(failed)?;
    }
    if !flags.global
        && let Err(error) = aifo_host::exclude(&base, DIRECTORIES[0])
    {
        tracing::info!(%error, "cannot add {} to .git/info/exclude", DIRECTORIES[0]);
    }
    Ok((directory, shown))
}

/// The mailbox directories, below the workspace or HOME.
const DIRECTORIES: [&str; 2] = [".swe-swe/", "proxy"];

/// Prints the served commands and their clients.
fn announce(commands: &[ServedCommand], shown: &Path) -> std::io::Result<()> {
    let lines = commands.iter().map(|ServedCommand { name, .. }| {
        let client = escape_line(&shown.join(name.as_str()).to_string_lossy());
        format!("[proxy] Listening for '{name}' commands...\n[proxy] Container script: {client}\n")
    });
    paint::write(&lines.collect::<String>())
}

impl cli::Mailbox {
    fn log_level(&self) -> LogLevel {
        match (self.quiet, self.verbose) {
            (true, _) => LogLevel::Quiet,
            (false, true) => LogLevel::Decisions,
            (false, false) => LogLevel::Notices,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_command_leads_back() {
        let base = tempfile::tempdir().unwrap();
        let folder = |name: &str| base.path().join(name);
        for name in ["bin", "mailbox"] {
            std::fs::create_dir(folder(name)).unwrap();
        }
        symlink(folder("mailbox"), folder("link")).unwrap();
        let path = std::env::join_paths(["bin", "mailbox", "link", "none"].map(folder)).unwrap();
        let kept = path_without(&path, &folder("mailbox"));
        assert_eq!(kept, std::env::join_paths([folder("bin"), folder("none")]).unwrap());
    }
}
