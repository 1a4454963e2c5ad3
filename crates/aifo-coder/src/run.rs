//! `aifo-coder run`: a session around one command.

use std::io::ErrorKind;
use std::process::ExitCode;

use aifo_launch::{Agent, AgentEnd, Session};
use aifo_types::{Ending, exit};
use anyhow::Context;

use crate::backend;
use crate::cli::Run;
use crate::console::{self, Chatter};
use crate::settings;
use crate::start::{EndSignals, Started, start};

pub(crate) async fn run(flags: Run) -> anyhow::Result<ExitCode> {
    // An agent's user interface has the terminal to itself unless somebody asks.
    let given = flags.smart.add_to(flags.session.flags());
    let config = settings::load(&flags.session, &given, Chatter::Warnings)?;
    let mut agent = Agent::new(flags.command.clone()).context("there is no command to run")?;
    let smart = config.smart_for(agent.name().to_str());
    for (name, value) in smart.variables() {
        agent.set(name, value);
    }
    let session = settings::session_config(&flags.session, &config).await?;
    if flags.session.containers.dry_run {
        return backend::show_plan(&session);
    }
    let summary = session.backend.summary(session.confinement);
    let session = match start(session, &mut EndSignals::listen()?).await? {
        Started::Up(session) => session,
        Started::CalledOff(signal) => return Ok(called_off(signal)),
    };
    tracing::info!("{summary}");
    in_session(*session, &agent).await
}

/// What a command would have ended with that was started and got this signal.
pub(crate) fn called_off(signal: u8) -> ExitCode {
    ExitCode::from(Ending::Signaled(signal).exit_code())
}

/// Runs a command to its end, and ends the session then.
pub(crate) async fn in_session(session: Session, agent: &Agent) -> anyhow::Result<ExitCode> {
    let end = agent.run(&session).await;
    session.close().await;
    match end? {
        AgentEnd::Ended(ending) => Ok(ExitCode::from(ending.exit_code())),
        AgentEnd::NotStarted(error) => {
            let code = match error.kind() {
                ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::NOT_EXECUTABLE,
            };
            let program = agent.program();
            console::fail(
                &anyhow::Error::from(error).context(format!("cannot run '{}'", program.display())),
            );
            Ok(ExitCode::from(code))
        }
    }
}
