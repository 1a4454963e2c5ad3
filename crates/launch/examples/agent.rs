//! A minimal launcher: an agent in one container and its tools in another.
//!
//! `cargo run -p aifo-launch --example agent -- DIR KIND IMAGE COMMAND [ARGS]..`. For brevity, one
//! image holds the agent and the tools of that kind.

use aifo_agents::{AgentContainerConfig, AgentSpec, StateImport, StateMode, trusted_programs};
use aifo_engine::{Choice, Engine};
use aifo_host::ShimBinary;
use aifo_launch::{Agent, Containers, Session, SessionConfig, SidecarBackend};
use aifo_types::Kind;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [workspace, kind, image, command @ ..] = words.as_slice() else {
        return Err("DIR ..".into());
    };
    let agent = Agent::new(command.iter().map(Into::into).collect()).ok_or("which command?")?;

    let programs = trusted_programs(workspace.as_ref());
    let mut containers = Containers::of(Engine::find(Choice::Any, &programs).await?);
    let kind = Kind::parse(kind)?;
    containers.images.named.insert(kind.clone(), image.clone());
    let mut config = SessionConfig::new(workspace, ShimBinary::find(|| programs.clone())?);
    config.toolchains = vec![kind.into()];
    config.backend = SidecarBackend::Containers(Box::new(containers));
    let spec = AgentSpec::unknown("mine");
    config.contain_agent(AgentContainerConfig {
        spec,
        image: image.clone(),
        home: None,
        state: StateMode::default(),
        state_import: StateImport::default(),
        keys: None,
        forges: None,
    });

    let session = Session::start(config).await?;
    for finding in agent.check(&session).await? {
        eprintln!("{finding}");
    }
    let end = agent.run(&session).await;
    let stats = session.close().await;
    println!("{:?} after {} tool calls", end?, stats.calls);
    Ok(())
}
