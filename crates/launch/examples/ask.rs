//! A launcher with its own judge: a call whose last argument begins with `ask` needs a user's approval,
//! one with `deny` is denied.
//!
//! `cargo run -p aifo-launch --example ask -- DIR SECS KIND [MAX_SECS]`
//!
//! Prints the session variables and id, then serves until INT, TERM or HUP.

use std::time::Duration;

use aifo_agents::trusted_programs;
use aifo_host::{EndSignals, ShimBinary};
use aifo_launch::{Session, SessionConfig};
use aifo_policy::{JudgedCall, Judgement, Verdict};
use aifo_proxy::CallJudge;
use aifo_types::Kind;

fn judge(call: &JudgedCall<'_>) -> Judgement {
    let last = call.argv.last().map(Vec::as_slice).unwrap_or_default();
    let verdict = if last.starts_with(b"ask") {
        Verdict::Ask
    } else if last.starts_with(b"deny") {
        Verdict::Deny
    } else {
        Verdict::Allow
    };
    Judgement {
        verdict,
        rule: "make".to_owned(),
        reason: "it is shared".to_owned(),
        ..Judgement::default()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let workspace = args.next().ok_or("which directory?")?;
    let secs = args.next().ok_or("how many seconds for an answer?")?.parse()?;
    let kind = args.next().ok_or("which kind of sidecar?")?;

    let mut signals = EndSignals::listen()?;
    let mut config =
        SessionConfig::new(&workspace, ShimBinary::find(|| trusted_programs(workspace.as_ref()))?);
    config.toolchains = vec![Kind::parse(&kind)?.into()];
    config.judge = Some(CallJudge::new(judge));
    config.max_runtime = args.next().map(|secs| secs.parse()).transpose()?.map(Duration::from_secs);
    config.ask_timeout = Duration::from_secs(secs);
    let session = Session::start(config).await?;
    for (name, value) in session.variables() {
        println!("{name}={}", value.display());
    }
    println!("id={}", session.id());
    signals.recv().await;
    session.close().await;
    Ok(())
}
