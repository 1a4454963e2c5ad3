//! Says where a command line would run, and whether: `cargo run -p aifo-policy --example may_it_run -- git push --force`.

use aifo_policy::{Judge, JudgedCall, Policy, RuleOrigin, default_rules};
use aifo_types::{Kind, ToolName};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let line: Vec<Vec<u8>> = std::env::args().skip(1).map(String::into_bytes).collect();
    let tool = line.first().ok_or("name a tool and its arguments")?;
    let tool = ToolName::parse(tool)?;

    // Which sidecars are tried, in this order.
    let running = ["rust", "node", "python", "go", "c-cpp"].map(Kind::parse);
    let running: Vec<Kind> = running.into_iter().collect::<Result<_, _>>()?;
    match Policy::builtin().route(&tool, &running) {
        Ok(routes) => {
            let kinds: Vec<_> = routes.iter().map(|route| route.kind.as_str()).collect();
            println!("{tool} runs in a sidecar: {}", kinds.join(", then "));
        }
        Err(refusal) => print!("{}", refusal.body()),
    }

    // What the default rules say about these arguments.
    let mut judge = Judge::default();
    judge.add(&default_rules(), RuleOrigin::Default).map_err(|(_, invalid)| invalid)?;
    let call = JudgedCall { argv: &line, directory: b"/work", workspace: &[b"/work".to_vec()] };
    let judgement = judge.judge(&call);
    println!("{}: {} {}", judgement.verdict.as_str(), judgement.rule, judgement.reason);
    Ok(())
}
