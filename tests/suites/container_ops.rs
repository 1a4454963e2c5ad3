//! Maintenance with containers: lists, leftovers of killed sessions, caches, and doctor.
//! `AIFO_TEST_ENGINE` is docker or podman.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aifo_tests::{
    Engine, Outcome, Running, Scratch, SessionSetup, Signal, binaries, eventually, write_executable,
};

const BASE: &str = "aifo-test-base:latest";

fn engine() -> String {
    env::var("AIFO_TEST_ENGINE").expect("AIFO_TEST_ENGINE names an engine")
}

/// The engine output as words.
#[track_caller]
fn printed(args: &[&str]) -> Vec<String> {
    let output = Command::new(engine()).args(args).output().expect("the engine is installed");
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
}

/// The containers and networks of a session.
#[track_caller]
fn held(id: &str) -> (Vec<String>, Vec<String>) {
    let filter = format!("label=dev.aifo.session={id}");
    let containers = printed(&["ps", "--all", "--quiet", "--filter", &filter]);
    (containers, printed(&["network", "ls", "--quiet", "--filter", &filter]))
}

/// A setup that finds only this engine: another engine's leftovers must not be removed.
fn setup() -> SessionSetup {
    setup_after("")
}

/// The same, with lines of a shell before the engine starts.
fn setup_after(lines: &str) -> SessionSetup {
    let path = env::var("PATH").expect("there is a PATH");
    let output = Command::new("which").arg(engine()).output().expect("the engine is installed");
    let program = String::from_utf8(output.stdout).expect("its path is text");
    // Podman's configuration instead of the machine's.
    let settings = env::var("CONTAINERS_CONF").map(|file| format!("CONTAINERS_CONF='{file}' "));
    let settings = settings.unwrap_or_default();
    let script = format!("{lines}{settings}PATH='{path}' exec {} \"$@\"", program.trim_end());
    SessionSetup::new().script(&engine(), &script)
}

/// Runs `aifo-coder` with these arguments in this setup.
#[track_caller]
fn coder(setup: &SessionSetup, args: &[&str]) -> Outcome {
    Outcome::of(setup.coder().args(args))
}

/// Starts a session without caches; returns its id.
#[track_caller]
fn serve(setup: &SessionSetup) -> (Running, String) {
    serve_with(setup, &["--no-toolchain-cache"])
}

#[track_caller]
fn serve_with(setup: &SessionSetup, options: &[&str]) -> (Running, String) {
    let known = ids(setup);
    let mut serve = setup.coder();
    serve.args(["serve", "--backend", &engine(), "--toolchain=c-cpp"]).args(options);
    let serving = Running::start(serve.arg(format!("--toolchain-image=c-cpp={BASE}")));
    let mut new = Vec::new();
    eventually("the session is up", || {
        new = ids(setup);
        new.retain(|id| !known.contains(id));
        !new.is_empty()
    });
    (serving, new.remove(0))
}

/// The ids of the running sessions.
fn ids(setup: &SessionSetup) -> Vec<String> {
    let dirs = fs::read_dir(setup.runtime()).expect("the runtime directory is readable").flatten();
    let up = dirs.filter(|entry| entry.path().join("session.json").exists());
    up.map(|entry| entry.file_name().to_string_lossy().trim_start_matches("aifo-").to_owned())
        .collect()
}

/// Every directory of a session.
fn dirs(setup: &SessionSetup, id: &str) -> Vec<PathBuf> {
    let run = setup.runtime().join(format!("aifo-{id}"));
    let tmp = PathBuf::from(format!("/var/tmp/aifo-{id}-tmp"));
    [run, tmp].into_iter().filter(|path| path.exists()).collect()
}

#[track_caller]
fn check_nothing_left(setup: &SessionSetup, id: &str) {
    assert_eq!(held(id), (Vec::new(), Vec::new()));
    assert_eq!(dirs(setup, id), Vec::<PathBuf>::new());
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn clean_removes_images_that_newer_ones_have_replaced() {
    // The containers and networks of other tests are not to be removed.
    let hidden = "case \"$*\" in *ancestor=*) ;; ps*|network*) exit 0 ;; esac\n";
    let setup = setup_after(hidden);
    let engine = Engine::of_run("clean_removes_images_that_newer_ones_have_replaced").unwrap();
    let build = |text: &str, name: &str| {
        let dir = Scratch::new();
        let text = format!("FROM {BASE}\nLABEL dev.aifo.image=agent-none\nENV A={text}\n");
        fs::write(dir.path().join("Dockerfile"), text).unwrap();
        let mut build = engine.command(["build", "--quiet", "--tag", name]);
        Outcome::of(build.arg(dir.path()).env("DOCKER_BUILDKIT", "0")).exited(0);
        let id = printed(&["image", "inspect", "--format", "{{.Id}}", name]).remove(0);
        id.trim_start_matches("sha256:").to_owned()
    };
    let name = engine.new_image();
    let name = name.name();
    let text = |number: u32| format!("{number}{}", std::process::id());
    let used = build(&text(1), name);
    let user = printed(&["create", &used, "true"]).remove(0);
    let [unused, current] = [2, 3].map(|number| build(&text(number), name));
    let listed = coder(&setup, &["clean", "--dry-run"]).exited(0).text();
    assert!(listed.contains(&unused), "{listed}");
    assert!(!listed.contains(&used) && !listed.contains(&current), "{listed}");
    let removed = coder(&setup, &["clean"]).exited(0).text();
    assert!(removed.contains(&unused) && !removed.contains(&used), "{removed}");
    let listed = coder(&setup, &["clean", "--dry-run"]).exited(0).text();
    assert!(!listed.contains(&unused), "{listed}");
    printed(&["rm", &user]);
    printed(&["rmi", &used]);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_killed_session_leaves_what_cleanup_removes_and_another_goes_on() {
    let setup = setup();
    // With a network of the engine's to remove.
    let (killed, dead) = serve_with(&setup, &["--no-toolchain-cache", "--net=open"]);
    let (beside, live) = serve(&setup);

    let listed = coder(&setup, &["ps", "-v"]).exited(0).text();
    // Podman also prints the registry.
    for part in [&format!("  container aifo-tc-c-cpp-{dead}: Up "), ", of ", BASE] {
        assert!(listed.contains(part), "{part}: {listed}");
    }

    killed.signal(Signal::SIGKILL);
    killed.finish();
    assert_eq!(dirs(&setup, &dead).len(), 2);
    let all = coder(&setup, &["cleanup", "--dry-run"]).exited(0).text();
    assert!(all.contains(&dead) && !all.contains(&live), "{all}");

    let removed = coder(&setup, &["cleanup", &dead]).exited(0).text();
    let network = format!("removed network aifo-net-{dead} ({})\n", engine());
    assert!(removed.contains(&network), "{removed}");
    check_nothing_left(&setup, &dead);

    coder(&setup, &["cleanup", &live]).exited(0);
    let call = coder(&setup, &["exec", "--session", &live, "--", "make", "--version"]);
    assert!(call.exited(0).text().starts_with("GNU Make"), "{call:?}");
    beside.signal(Signal::SIGTERM);
    beside.finish().exited(0);
    check_nothing_left(&setup, &live);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_session_that_is_starting_is_not_touched_and_a_stuck_container_goes() {
    let setup = setup();
    let shim = setup.scratch().join("slow-shim");
    let real = binaries().shim.display();
    // A runner that never connects and survives its launcher.
    let script =
        format!("#!/bin/sh\n[ \"$1\" = --version ] && exec {real} --version\nexec sleep 600\n");
    write_executable(&shim, script, 0o755);
    let setup = setup.env_path("AIFO_SHIM_BIN", &shim);
    let mut serve = setup.coder();
    let backend = ["--no-toolchain-cache", "--backend", &engine()];
    serve.args(["serve", "--net=separate", "--toolchain=c-cpp"]).args(backend);
    let starting = Running::start(serve.arg(format!("--toolchain-image=c-cpp={BASE}")));
    let mut id = String::new();
    eventually("it has its directory", || {
        let names = fs::read_dir(setup.runtime()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names = names.map(|name| name.into_string().unwrap());
        id = names.next().unwrap_or_default().trim_start_matches("aifo-").to_owned();
        !id.is_empty()
    });
    eventually("its container is there", || held(&id).0.len() == 1);

    let outcome = coder(&setup, &["cleanup", &id]);
    assert!(outcome.exited(0).only_line().starts_with("aifo-coder: no remains of killed sessions"));
    let (containers, networks) = held(&id);
    assert_eq!((containers.len(), networks.len(), dirs(&setup, &id).len()), (1, 1, 2));

    starting.signal(Signal::SIGKILL);
    starting.finish();
    let removed = coder(&setup, &["cleanup", &id]).exited(0).text();
    let container = format!("removed container aifo-tc-c-cpp-{id} ({})\n", engine());
    assert!(removed.contains(&container), "{removed}");
    check_nothing_left(&setup, &id);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_cache_in_use_stays_and_it_is_said_by_whom() {
    let setup = setup();
    let (session, id) = serve_with(&setup, &[]);
    let listed = || {
        let text = coder(&setup, &["cache", "list", "--json", "c-cpp"]).exited(0).text();
        let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let workspace = setup.workspace().display().to_string();
        let mut own = rows.into_iter().filter(|row| row["project"] == *workspace);
        (own.next(), own.count())
    };
    let (Some(row), 0) = listed() else { panic!("one of this project") };
    assert!(row["name"].as_str().unwrap().starts_with("aifo-ccache-"), "{row}");
    assert_eq!((&row["owner"], &row["backend"]), (&"project".into(), &engine().into()));
    let clear = ["cache", "clear", "--project", "c-cpp"];
    let outcome = coder(&setup, &clear);
    assert!(outcome.exited(1).stderr.contains(&format!("aifo-tc-c-cpp-{id}")), "{outcome:?}");
    assert_eq!(listed(), (Some(row.clone()), 0));
    session.signal(Signal::SIGTERM);
    session.finish().exited(0);
    let removed = coder(&setup, &clear).exited(0).text();
    assert_eq!(removed, format!("removed {} ({})\n", row["name"].as_str().unwrap(), engine()));
    assert_eq!(listed(), (None, 0));
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn the_doctor_measures_in_a_container_and_leaves_nothing() {
    let setup = setup();
    let mut doctor = setup.coder();
    doctor.args(["doctor", "--toolchain=c-cpp", "--backend", &engine()]);
    let outcome = Outcome::of(doctor.arg(format!("--toolchain-image=c-cpp={BASE}")));
    let text = outcome.exited(0).text();
    let name = format!("ok    {} ({BASE})", engine());
    for what in [
        "descriptors: tools write to the caller's pipe directly",
        "files: files that tools create in the workspace are yours",
        "limits: the limit on processes is enforced",
    ] {
        assert!(text.contains(&format!("{name} {what}\n")), "{what}: {text}");
    }
    assert!(!text.contains("local call"), "only what was asked for: {text}");
    let filter = "name=aifo-tc-doctor-";
    let left = printed(&["ps", "--all", "--filter", filter, "--format", "{{.Mounts}}"]);
    let ours = setup.runtime().display().to_string();
    assert!(!left.iter().any(|mounts| mounts.contains(&ours)), "{left:?}");
    assert_eq!(fs::read_dir(setup.runtime()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(setup.workspace()).unwrap().count(), 0);
}
