//! Searches all that a session's containers are made of.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use aifo_tests::{ContainerSetup, Engine, Outcome, files_below};

/// Returns the phantom key in the agent environment.
pub(crate) fn phantom(engine: &Engine, containers: &ContainerSetup) -> String {
    let variables = processes(engine, containers).into_iter().flat_map(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let text = String::from_utf8_lossy(&environment).into_owned();
        text.split('\0').map(str::to_owned).collect::<Vec<_>>()
    });
    let mut keys =
        variables.filter_map(|line| Some(line.strip_prefix("OPENAI_API_KEY=")?.to_owned()));
    keys.next().expect("the agent has a key")
}

/// Returns the places that have these bytes: environments, command lines and memory of all processes of the
/// session's containers, their descriptions and logs, and files of the session.
pub(crate) fn places(engine: &Engine, containers: &ContainerSetup, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |place: String, content: &[u8]| {
        if has(content, bytes) {
            found.push(place);
        }
    };
    for pid in processes(engine, containers) {
        for name in ["environ", "cmdline"] {
            let path = format!("/proc/{pid}/{name}");
            check(path.clone(), &fs::read(&path).unwrap_or_default());
        }
        if has_in_memory(pid, bytes) {
            check(format!("memory of {pid}"), bytes);
        }
    }
    for name in names(engine, containers) {
        for command in ["inspect", "logs"] {
            let outcome = Outcome::of(&mut engine.command([command, &name]));
            check(format!("{command} of {name}"), (outcome.text() + &outcome.stderr).as_bytes());
        }
    }
    // The workspace, the sessions' directories and the user's home.
    for path in files_below(containers.setup().scratch()) {
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
            check(path.display().to_string(), &fs::read(&path).unwrap_or_default());
        }
    }
    found
}

/// The names of the session containers.
fn names(engine: &Engine, containers: &ContainerSetup) -> Vec<String> {
    let all = engine.all_of(&containers.setup().runtime()).into_iter();
    all.filter(|name| !name.starts_with("aifo-net")).collect()
}

/// The processes in the PID namespaces of the containers.
fn processes(engine: &Engine, containers: &ContainerSetup) -> Vec<u32> {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let inits = names(engine, containers).into_iter().map(|name| engine.pid(&name).to_string());
    let namespaces: Vec<PathBuf> = inits.filter_map(|pid| namespace(&pid)).collect();
    assert!(!namespaces.is_empty(), "there are containers");
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().into_string().ok());
    let inside = pids.filter(|pid| namespace(pid).is_some_and(|own| namespaces.contains(&own)));
    inside.filter_map(|pid| pid.parse().ok()).collect()
}

fn has_in_memory(pid: u32, bytes: &[u8]) -> bool {
    let Ok(maps) = File::open(format!("/proc/{pid}/maps")) else { return false };
    let Ok(memory) = File::open(format!("/proc/{pid}/mem")) else { return false };
    BufReader::new(maps).lines().map_while(Result::ok).any(|line| {
        let (range, rest) = line.split_once(' ').unwrap();
        if !rest.starts_with('r') || line.contains("[v") {
            return false;
        }
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let mut content = vec![0; usize::try_from(number(end) - number(start)).unwrap()];
        let read = memory.read_at(&mut content, number(start)).unwrap_or(0);
        has(&content[..read], bytes)
    })
}

fn has(content: &[u8], bytes: &[u8]) -> bool {
    content.windows(bytes.len()).any(|window| window == bytes)
}
