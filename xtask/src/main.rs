//! `cargo xtask COMMAND`: the project's maintenance commands.
//!
//! Each command has a file; this one holds their table. External commands are printed to stderr
//! before they run.

mod agents;
mod another_user;
mod bench;
mod callgrind;
mod ci;
mod container_gate;
mod container_suites;
mod demo;
mod dist;
mod elf;
mod fixture;
mod host;
mod images;
mod kubernetes;
mod serve;
mod shell;
mod shipped;
mod suites;
mod table;
mod test_program;
mod tidy;
mod walk;
mod weights;
mod workspace;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

/// A command: its name, its help line, and its function.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(&[OsString]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "ci",
        help: "every required check: format, lints, tests, docs, tidy",
        run: ci::run,
    },
    Command {
        name: "test",
        help: "[SUITE] [-- ARGS]: the black-box suites; `pending`: no pending test passes; \
               `shipped`: all, on the binaries of `dist`; \
               `docker`, `podman`: those in containers; `agents`: those with real agents; \
               `kubernetes`: those in the cluster of kubectl",
        run: suites::run,
    },
    Command {
        name: "images",
        help: "build | list | update | test: images of toolchains, agents and suites",
        run: images::run,
    },
    Command {
        name: "tidy",
        help: "[--lower]: crate dependencies, pure crates, links, unsafe, leftovers, manifests, \
               proofs, sizes; `--lower` lowers the numbers in xtask/budget.toml",
        run: tidy::run,
    },
    Command {
        name: "dist",
        help: "--prefix DIR: an installation of static binaries, manual pages, completions; \
               --archive [DIR]: the archive of a release",
        run: dist::run,
    },
    Command {
        name: "weights",
        help: "sizes, memory at rest and instructions of starts, with bounds",
        run: weights::run,
    },
    Command {
        name: "demo",
        help: "tool calls on examples/polyglot, with each call's overhead",
        run: demo::run,
    },
    Command {
        name: "walk",
        help: "[--bless] [--archive FILE] [STORY..]: a new user's way, compared with snapshots",
        run: walk::run,
    },
    Command {
        name: "bench",
        help: "[--quick] [--check] [--only NAME].. [--json FILE]: native against proxied, bounds",
        run: bench::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (name, rest) = match args.split_first() {
        Some((name, rest)) => (name.to_string_lossy().into_owned(), rest),
        None => (String::from("help"), &[][..]),
    };
    // The benchmark runs this binary as its test tools; they are not commands.
    if let Some(status) = fixture::run(&name, rest) {
        return status;
    }
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprint!("xtask: unknown command '{name}'\n\n{}", help());
        return ExitCode::from(2);
    };
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let lines = COMMANDS.iter().map(|command| format!("  {:<6} {}\n", command.name, command.help));
    format!("usage: cargo xtask COMMAND [ARGS]\n\n{}", lines.collect::<String>())
}
