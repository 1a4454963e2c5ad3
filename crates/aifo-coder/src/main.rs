//! `aifo-coder`: coding agents beside their tools, not among them.
//!
//! Thin: flags and environment become a session's configuration, the session is `aifo-launch`'s.

mod cli;
mod console;
mod run;
mod serve;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (session, chatter) = match &cli.command {
        Command::Serve(serve) => (&serve.session, console::Chatter::Notices),
        // An agent's user interface has the terminal to itself unless somebody asks.
        Command::Run(run) => (&run.session, console::Chatter::Warnings),
    };
    console::start(if session.is_verbose() { console::Chatter::Decisions } else { chatter });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        runtime.block_on(async {
            match cli.command {
                Command::Serve(serve) => serve::serve(serve).await,
                Command::Run(run) => run::run(run).await,
            }
        })
    });
    ended.unwrap_or_else(|error| {
        console::fail(&error);
        ExitCode::from(aifo_types::exit::NOTHING_RAN)
    })
}
