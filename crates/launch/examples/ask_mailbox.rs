//! A mailbox with its own judge: a call whose last argument is `ask-ANSWER` waits and gets that answer,
//! and one with `ask` waits.
//!
//! `cargo run -p aifo-launch --example ask_mailbox -- DIR COMMAND PROGRAM`

use std::sync::Arc;
use std::time::Duration;

use aifo_host::{EndSignals, ShimBinary};
use aifo_policy::{JudgedCall, Judgement, Verdict};
use aifo_proxy::{
    CallApprovals, CallJudge,
    mailbox::{
        CommandName, Directory, HostRunner, Mailbox, MailboxConfig, ServedCommand, Stop, host_fleet,
    },
};
use aifo_wire::Limits;
use tokio::sync::watch;

fn judge(call: &JudgedCall<'_>) -> Judgement {
    let asks = call.argv.last().is_some_and(|last| last.starts_with(b"ask"));
    let verdict = if asks { Verdict::Ask } else { Verdict::Allow };
    Judgement { verdict, rule: "mailbox".to_owned(), reason: String::new(), ..Judgement::default() }
}

async fn answer(approvals: CallApprovals) {
    let mut changes = approvals.subscribe();
    loop {
        changes.borrow_and_update();
        for id in approvals.open().into_iter().map(|open| open.id) {
            let words = approvals.call(&id).map(|call| call.words()).unwrap_or_default();
            if let Some(option) = words.last().and_then(|last| last.strip_prefix("ask-")) {
                let _ = approvals.answer(&id, option, "example");
            }
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or("which directory?")?;
    let name = CommandName::parse(args.next().ok_or("which command?")?.as_bytes())?;
    let program = args.next().ok_or("which program?")?.into();

    let mut signals = EndSignals::listen()?;
    let workspace = std::env::current_dir()?;
    let names = vec![vec![workspace.clone()]];
    let limits = Limits::default();
    let judge = Some(CallJudge::new(judge));
    let (timeout, command) = (Duration::from_secs(300), "aifo-coder approve".to_owned());
    let approvals = CallApprovals::new(judge, names, timeout, &limits, command);
    tokio::spawn(answer(approvals.clone()));
    let shim = ShimBinary::find(aifo_agents::trusted_programs_here)?;
    let host = HostRunner {
        runner_program: shim.program(),
        workspace: workspace.clone(),
        path: std::env::var_os("PATH").unwrap_or_default(),
        open_files: aifo_process::raise_open_files()?,
    };
    let fleet = Arc::new(host_fleet(host).await?);
    let config = MailboxConfig {
        directory: Directory::open_or_create(directory.as_ref())?,
        workspace,
        commands: vec![ServedCommand { name, program }],
        variables: Vec::new(),
        approvals,
        max_runtime: None,
        grace: Duration::from_secs(1),
    };
    let mailbox = Mailbox::open(config, Arc::clone(&fleet)).await?;
    let (stop, stopped) = watch::channel(Stop::No);
    println!("[proxy] Container script: {directory}");
    tokio::select! {
        () = mailbox.serve(stopped) => {}
        () = async {
            signals.recv().await;
            stop.send_replace(Stop::AtOnce);
            std::future::pending::<()>().await;
        } => {}
    }
    fleet.stop().await;
    Ok(())
}
