//! `aifo-coder agents`: lists the agents and whether each is ready to run.

use std::path::Path;
use std::process::ExitCode;

use aifo_agents::{AgentSpec, KeySettings, trusted_programs_here};
use aifo_config::{Config, Flags};
use aifo_engine::{Choice, Engine, within_timeout};
use aifo_terminal::{console, paint};
use serde::Serialize;

use crate::cli::Agents;

pub(crate) async fn list(flags: &Agents) -> anyhow::Result<ExitCode> {
    let config = aifo_config::load(flags.workspace.existing()?, &Flags::default())?;
    let engine = match config.backend.value.engine() {
        Some(choice) => find(choice).await,
        None => Err("the backend is local".to_owned()),
    };
    let keys = config.key_settings();
    let mut rows = Vec::new();
    for spec in config.agents.all() {
        rows.push(Row::of(spec, &config, keys.as_ref(), engine.as_ref().ok()).await);
    }
    if flags.json {
        paint::print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    paint::print(&table(&rows))?;
    if let Err(reason) = engine {
        console::say(format_args!("cannot check images: {reason}"));
    } else if rows.iter().any(|row| row.image_ready == Some(false)) {
        console::say("build a missing image with `aifo-coder images build AGENT`");
    }
    Ok(ExitCode::SUCCESS)
}

async fn find(choice: Choice) -> Result<Engine, String> {
    let programs = trusted_programs_here();
    match within_timeout(Engine::find(choice, &programs)).await {
        Some(found) => found.map_err(|error| error.to_string()),
        None => Err("the engine did not answer".to_owned()),
    }
}

/// One agent in the list.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    command: &'a [String],
    image: String,
    /// True if the engine has the image; `None` without an engine.
    image_ready: Option<bool>,
    /// The names of its variables that are set here, never their values.
    variables_set: Vec<&'a str>,
    variables: &'a [String],
    /// The providers whose keys a session reads from an entry of `[keys]`.
    keys: Vec<&'a str>,
    /// Existing state directories, relative to HOME.
    state: Vec<&'a Path>,
    smart_node: bool,
    smart_python: bool,
    /// The command that starts it with ACP, if it supports that.
    acp: Option<&'a [String]>,
}

impl<'a> Row<'a> {
    async fn of(
        spec: &'a AgentSpec,
        config: &Config,
        keys: Option<&KeySettings>,
        engine: Option<&Engine>,
    ) -> Self {
        let image = config.agent_image(spec);
        let image_ready = match engine {
            Some(engine) => within_timeout(engine.has_image(&image)).await,
            None => None,
        };
        let home = std::env::var_os("HOME").unwrap_or_default();
        let is_there = |state: &&Path| Path::new(&home).join(state).is_dir();
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Row {
            name: &spec.name,
            command: &spec.command,
            image,
            image_ready,
            variables_set: spec.variables.iter().map(String::as_str).filter(is_set).collect(),
            variables: &spec.variables,
            keys: keys_of(spec, keys),
            state: spec.state.iter().map(|state| state.as_path()).filter(is_there).collect(),
            smart_node: spec.smart.node,
            smart_python: spec.smart.python,
            acp: spec.acp.as_ref().map(|acp| acp.command.as_slice()),
        }
    }
}

/// Returns the providers of an agent's keys that have an entry with a key.
fn keys_of<'a>(spec: &'a AgentSpec, keys: Option<&KeySettings>) -> Vec<&'a str> {
    let Some(keys) = keys else { return Vec::new() };
    let mut found: Vec<_> = spec.keys.iter().map(|row| row.provider.as_str()).collect();
    found.retain(|name| keys.entries.get(*name).is_some_and(|entry| entry.source.is_some()));
    found.dedup();
    found
}

fn table(rows: &[Row<'_>]) -> String {
    let head = ["AGENT", "IMAGE", "READY", "ACP", "CREDENTIALS", "STATE"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let ready = match row.image_ready {
            Some(true) => "yes",
            Some(false) => "no image",
            None => "?",
        };
        let keys = row.keys.iter().map(|provider| format!("keys.{provider}"));
        let variables = row.variables_set.iter().map(|&name| name.to_owned());
        let credentials: Vec<_> = variables.chain(keys).collect();
        let dash = |words: String| if words.is_empty() { "-".to_owned() } else { words };
        let state: Vec<_> =
            row.state.iter().map(|state| format!("~/{}", state.display())).collect();
        [
            row.name.to_owned(),
            row.image.clone(),
            ready.to_owned(),
            if row.acp.is_some() { "yes" } else { "-" }.to_owned(),
            dash(credentials.join(" ")),
            dash(state.join(" ")),
        ]
    });
    paint::columns(&std::iter::once(head).chain(cells).collect::<Vec<_>>())
}
