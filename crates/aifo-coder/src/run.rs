//! `aifo-coder run`: a session around one command.

use std::io::ErrorKind;
use std::process::ExitCode;

use aifo_launch::{Agent, AgentEnd, Session};
use aifo_types::exit;
use anyhow::Context;

use crate::cli::Run;
use crate::console;
use crate::settings::session_config;

pub(crate) async fn run(flags: Run) -> anyhow::Result<ExitCode> {
    let config = session_config(&flags.session)?;
    let agent = Agent::new(flags.command).context("there is no command to run")?;
    let session = Session::start(config).await?;
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
