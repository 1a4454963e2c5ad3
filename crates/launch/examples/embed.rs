//! A minimal launcher: one session, one tool call.
//!
//! `cargo run -p aifo-launch --example embed -- DIR KIND TOOL [ARGS]..`

use aifo_agents::trusted_programs;
use aifo_host::ShimBinary;
use aifo_launch::{Session, SessionConfig};
use aifo_types::{Kind, ToolName};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let workspace = args.next().ok_or("which directory?")?;
    let kind = args.next().ok_or("which kind of sidecar?")?;
    let tool = args.next().ok_or("which tool?")?;

    let mut config =
        SessionConfig::new(&workspace, ShimBinary::find(|| trusted_programs(workspace.as_ref()))?);
    config.toolchains = vec![Kind::parse(&kind.to_string_lossy())?.into()];
    let session = Session::start(config).await?;
    for (name, _secret) in session.variables() {
        println!("{name} leads to the session");
    }

    let tool = ToolName::parse(tool.as_encoded_bytes())?;
    let status = session.exec(&tool).args(args).status().await?;
    println!("the tool ended with {status}");
    session.close().await;
    Ok(())
}
