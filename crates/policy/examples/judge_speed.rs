//! Measures a judgement with 1,000 rules; fails above 5 us: `cargo run --release -p aifo-policy --example judge_speed`.

use std::process::ExitCode;
use std::time::Instant;

use aifo_policy::{Judge, JudgedCall, RuleOrigin, RuleText, Run, Verdict};

/// The longest time of a judgement.
const MAX_NANOS: u128 = 5_000;
const ROUNDS: u32 = 20_000;

fn main() -> ExitCode {
    let of = |tool: &str, at: usize| {
        let run = Run::Text(format!("{tool} command-{at}"));
        let with = vec!["--force".to_owned(), format!("--option-{at}"), "+*".to_owned()];
        (
            RuleText { run, with, then: Some(Verdict::Ask), ..RuleText::default() },
            format!("file:{at}"),
        )
    };
    let mut rules: Vec<_> = (0..500).map(|at| of("git", at)).collect();
    rules.extend((500..900).map(|at| of(&format!("tool-{at}"), at)));
    rules.extend((900..1000).map(|at| {
        let with = vec![format!("--option-{at}"), format!("value-{at}*")];
        let run = Run::Text("git push".to_owned());
        (
            RuleText { run, with, then: Some(Verdict::Ask), ..RuleText::default() },
            format!("file:{at}"),
        )
    }));
    let mut judge = Judge::default();
    if let Err((at, error)) = judge.add(&rules, RuleOrigin::User) {
        eprintln!("rule {at}: {error}");
        return ExitCode::FAILURE;
    }
    judge.add_defaults();
    let workspace = [b"/home/me/project".to_vec()];
    let calls = [
        "cargo test -p x -- --nocapture",
        "git status --short",
        "git -C sub push -u origin main",
        "git -C sub push -f origin main",
        "tool-700 command-700 --force",
        "npm run build",
        "rm -rf target",
        "env A=1 timeout 5 git push",
        "eslint --fix src/a.ts src/b.ts src/c.ts src/d.ts",
        "my-wrapper --x git push -f origin main",
        "docker run --rm -v .:/app x make test",
    ];
    let mut is_fast = true;
    for call in calls {
        let argv: Vec<Vec<u8>> = call.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let call_of =
            JudgedCall { argv: &argv, directory: b"/home/me/project", workspace: &workspace };
        let mut best = u128::MAX;
        for _ in 0..5 {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                std::hint::black_box(judge.judge(std::hint::black_box(&call_of)));
            }
            best = best.min(start.elapsed().as_nanos() / u128::from(ROUNDS));
        }
        is_fast &= best <= MAX_NANOS;
        println!("{best:>6} ns  {call}");
    }
    if is_fast { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
