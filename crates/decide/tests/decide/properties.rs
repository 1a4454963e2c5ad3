//! Properties of all calls: no panic, workspace programs never run locally, all others do.

use std::path::{Component, Path, PathBuf};

use aifo_decide::{Decision, FileFacts, Program, ToolCall, decide};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fake_files::smart;
use crate::spec::{node_options, page_files};

/// Arguments, biased towards those with a meaning to the runtimes.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let known = ["-", "--", "-m", "-c", "-e", "-W", "-X", "-um", "inspect", "--run", "--test", ""];
    prop_oneof![
        2 => vec(any::<u8>(), 0..8),
        2 => one_of(&known).prop_map(|word| word.as_bytes().to_vec()),
        1 => node_option().prop_map(|word| word.as_bytes().to_vec()),
        3 => path().prop_map(String::into_bytes),
    ]
}

/// Absolute and relative paths to the spec's files, through links and `..`.
fn path() -> impl Strategy<Value = String> {
    let whole = "workspace/app.js opt/agent/cli.js opt/agent/in.js opt/in/app.js opt/in/out.js x";
    let parts = "workspace opt/agent opt/in opt/far out app.js in.js cli.js lost.js x .. .. .";
    let whole = one_of(&whole.split(' ').collect::<Vec<_>>()).prop_map(str::to_owned);
    let parts = one_of(&parts.split(' ').chain([""]).collect::<Vec<_>>());
    let parts = vec(parts, 1..5).prop_map(|parts| parts.join("/"));
    (one_of(&["/", "/", "//", ""]), prop_oneof![whole, parts])
        .prop_map(|(root, path)| root.to_owned() + &path)
}

fn tool() -> impl Strategy<Value = Vec<u8>> {
    let known = ["node", "python", "python3", "python3.11", "pip", "say"];
    prop_oneof![
        8 => one_of(&known).prop_map(|tool| tool.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..12),
    ]
}

fn node_option() -> impl Strategy<Value = &'static str> {
    select(node_options().collect::<Vec<_>>())
}

fn one_of(words: &[&'static str]) -> impl Strategy<Value = &'static str> + use<> {
    select(words.to_vec())
}

/// Node's arguments before a program.
fn node_arguments() -> impl Strategy<Value = Vec<String>> {
    let flags = ["--no-warnings", "--inspect", "--expose-gc", "--stack-size=900", "--test-only"];
    let option = prop_oneof![
        one_of(&flags).prop_map(|flag| vec![flag.to_owned()]),
        (node_option(), path()).prop_map(|(option, value)| vec![option.to_owned(), value]),
        (node_option(), path()).prop_map(|(option, value)| vec![format!("{option}={value}")]),
    ];
    (vec(option, 0..4), select(vec![vec![], vec!["--"], vec!["inspect"]])).prop_map(
        |(options, end)| {
            let end = end.into_iter().map(str::to_owned);
            options.into_iter().flatten().chain(end).collect()
        },
    )
}

/// Python's arguments before a program.
fn python_arguments() -> impl Strategy<Value = Vec<String>> {
    let flags = ["-u", "-I", "-bb", "-OO", "-Wignore", "-Xdev", "-uWignore", "--version"];
    let with_value = ["-W", "-X", "-uW", "-IX", "--check-hash-based-pycs"];
    let option = prop_oneof![
        one_of(&flags).prop_map(|flag| vec![flag.to_owned()]),
        (one_of(&with_value), path()).prop_map(|(option, value)| vec![option.to_owned(), value]),
    ];
    (vec(option, 0..4), select(vec![vec![], vec!["--"]])).prop_map(|(options, end)| {
        let end = end.into_iter().map(str::to_owned);
        options.into_iter().flatten().chain(end).collect()
    })
}

/// Normalises a path without resolving links.
fn lexical(path: &Path) -> PathBuf {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => drop(names.pop()),
            _ => {}
        }
    }
    Path::new("/").join(names.iter().collect::<PathBuf>())
}

/// Returns whether a path is in the workspace: lexically, to the kernel or to node.
fn is_inside(path: &Path) -> bool {
    let files = page_files();
    let readings = [Some(lexical(path)), files.real_path(path), files.real_path(&lexical(path))];
    readings.into_iter().flatten().any(|path| path.starts_with("/workspace"))
}

proptest! {
    #[test]
    fn every_call_has_a_decision_and_one_log_line(
        tool in tool(),
        args in vec(word(), 0..8),
        cwd in path(),
    ) {
        let call = ToolCall { tool: &tool, program: None, args: &args, cwd: Path::new(&cwd) };
        let decision = decide(&call, &smart(), &page_files());
        let text = match &decision {
            Ok(decision) => decision.log_line(&tool),
            Err(error) => error.to_string().replacen('\n', "", 1),
        };
        prop_assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)), "{text:?}");
        if let Ok(Decision::Local(local)) = decision {
            prop_assert!(local.runtime.is_absolute() && !is_inside(&local.runtime));
            if let Program::Path(program) = local.program {
                prop_assert!(!is_inside(&program), "{}", program.display());
            }
        }
    }

    #[test]
    fn the_program_path_decides(
        (tool, options) in prop_oneof![
            node_arguments().prop_map(|options| ("node", options)),
            python_arguments().prop_map(|options| ("python3", options)),
        ],
        program in path().prop_filter("a program", |path| !path.is_empty()),
        after in vec(word(), 0..3),
        cwd in path().prop_map(|path| format!("/{path}")),
    ) {
        let words = options.into_iter().chain([program.clone()]).map(String::into_bytes);
        let args: Vec<_> = words.chain(after).collect();
        let call = ToolCall { tool: tool.as_bytes(), program: None, args: &args, cwd: Path::new(&cwd) };
        let decision = decide(&call, &smart(), &page_files()).expect("a runtime");
        let path = Path::new(&cwd).join(&program);
        let files = page_files();
        let exists = [&path, &lexical(&path)].iter().all(|path| files.real_path(path).is_some());
        if is_inside(&path) {
            prop_assert!(matches!(decision, Decision::Proxy(_)), "{}", decision.log_line(b"inside"));
        } else if exists {
            prop_assert!(matches!(decision, Decision::Local(_)), "{}", decision.log_line(b"outside"));
        }
    }
}
