//! Local tools in a namespace (`spec/confinement.md#namespaces`).

use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use aifo_tests::{
    ORDINARY_PROGRAMS, Outcome, SessionSetup, Tool, binaries, can_run, files_below, program,
};

/// A user without privileges: root runs the sessions as this one.
const UID: u32 = 1000;
const AS_USER: [&str; 5] =
    ["/usr/bin/setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "--"];

/// Returns the words before a command that runs as a user without privileges. Without user namespaces,
/// reports the test as skipped.
fn user(test: &str) -> Option<&'static [&'static str]> {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let user = if is_root { &AS_USER[..] } else { &[] };
    let coder = binaries().coder.to_str().unwrap();
    let trial = ["unshare", "--user", "--map-root-user", "--mount", coder, "--version"];
    can_run(test, &[user, &trial].concat()).then_some(user)
}

/// Gives all that the test made to the user.
fn give(setup: &SessionSetup, user: &[&str]) {
    if !user.is_empty() {
        let all = files_below(setup.scratch());
        let parents = all.iter().flat_map(|file| file.ancestors());
        for path in all.iter().map(|file| file.as_path()).chain(parents) {
            if path.starts_with(setup.scratch()) {
                std::os::unix::fs::lchown(path, Some(UID), Some(UID)).unwrap();
            }
        }
        for name in ["", "workspace", "tools", "shims", "home", "run", "engine"] {
            chown(setup.scratch().join(name), Some(UID), Some(UID)).unwrap();
        }
    }
}

/// A setup in which `make` is a shell with the machine's commands.
fn shell(user: &[&str]) -> SessionSetup {
    SessionSetup::new().through(user).tool("make", Tool::Link("/bin/sh".into()))
}

/// Calls a tool in a session of its own.
fn exec(setup: &SessionSetup, words: &[&str]) -> Outcome {
    let mut exec = setup.coder();
    exec.args(["exec", "--backend", "local", "--confine", "namespace", "--toolchain"]);
    Outcome::of(exec.args(words))
}

/// Runs a script with the shell of [`shell`].
#[track_caller]
fn sh(setup: &SessionSetup, script: &str) -> Outcome {
    exec(setup, &["c-cpp", "--", "make", "-c", &format!("PATH=/usr/bin:/bin; {script}")])
}

#[test]
fn all_but_the_writable_directories_is_read_only() {
    let test = "namespace::all_but_the_writable_directories_is_read_only";
    let Some(user) = user(test) else { return };
    let setup = shell(user);
    let outside = setup.scratch().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("old"), "old").unwrap();
    symlink(&outside, setup.workspace().join("link")).unwrap();
    symlink("link/..", setup.workspace().join("nested")).unwrap();
    give(&setup, user);
    let out = outside.display();
    let before = fs::metadata(outside.join("old")).unwrap();
    let denied = [
        &*format!("echo x > {out}/new"),
        &format!("echo x >> {out}/old"),
        &format!("rm -f {out}/old"),
        &format!("mkdir {out}/directory"),
        "echo x > link/new",
        "echo x > nested/outside/new",
        "echo x > \"$HOME/new\"",
        "echo x > /tmp/aifo-new",
        // Landlock alone allows these.
        &format!("chmod 600 {out}/old"),
        &format!("chown $(id -u):$(id -g) {out}/old"),
        &format!("touch -d 2000-01-01 {out}/old"),
        &format!("python3 -c 'import os; os.setxattr(\"{out}/old\", \"user.x\", b\"x\")'"),
    ];
    let script: String = denied.iter().map(|one| format!("{one} || echo denied >&2\n")).collect();
    let outcome = sh(&setup, &script);
    let texts: Vec<_> = outcome.stderr.split_terminator("denied\n").collect();
    assert_eq!(texts.len(), denied.len(), "{outcome:?}");
    for (denied, text) in denied.iter().zip(texts) {
        assert!(text.contains("Read-only file system"), "{denied}: {text}");
    }
    let after = fs::metadata(outside.join("old")).unwrap();
    assert_eq!((after.ctime(), after.ctime_nsec()), (before.ctime(), before.ctime_nsec()));
    let allowed = "echo x > new && mkdir -p a/b && mv new a/b/moved && echo x > \"$TMPDIR/new\" && \
                   mkdir -p \"$CCACHE_DIR/x\" && f=$(mktemp -p /dev/shm) && rm \"$f\" && \
                   echo x > /dev/null && id -u && stat -c %u:%g a/b/moved && \
                   grep -c 'Seccomp:.2' /proc/self/status";
    let uid = fs::metadata(setup.workspace()).unwrap().uid();
    let printed = sh(&setup, allowed).exited(0).text();
    assert_eq!(printed, format!("{uid}\n{uid}:{uid}\n1\n"));
    assert_eq!(fs::metadata(setup.workspace().join("a/b/moved")).unwrap().uid(), uid);
}

#[test]
fn keys_and_sockets_of_engines_are_hidden() {
    let test = "namespace::keys_and_sockets_of_engines_are_hidden";
    let Some(user) = user(test) else { return };
    let setup = shell(user);
    let home = setup.scratch().join("home");
    for name in [".ssh", ".aws", ".gnupg", ".config/gcloud", "dotfiles/kube"] {
        fs::create_dir_all(home.join(name)).unwrap();
        fs::write(home.join(name).join("key"), "the key").unwrap();
    }
    symlink("dotfiles/kube", home.join(".kube")).unwrap();
    fs::write(home.join(".netrc"), "other").unwrap();
    let socket = setup.scratch().join("docker.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    give(&setup, user);
    let setup = setup.env("DOCKER_HOST", &format!("unix://{}", socket.display()));
    let script = "cd; ls -A .ssh .aws .gnupg .config/gcloud .kube dotfiles/kube; cat .netrc";
    let printed = sh(&setup, script).exited(0).text();
    let empty = ".aws:\n\n.config/gcloud:\n\n.gnupg:\n\n.kube:\n\n.ssh:\n\ndotfiles/kube:\n";
    assert_eq!(printed, format!("{empty}other"));
    let outcome = sh(&setup, "cat ~/.ssh/key ~/.kube/key ~/dotfiles/kube/key; ls / > ~/.ssh/new");
    assert_eq!((outcome.code(), outcome.text()), (Some(2), String::new()), "{outcome:?}");
    let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let connect = format!("python3 -c '{connect}' {}", socket.display());
    let outcome = sh(&setup, &connect);
    assert!(outcome.stderr.contains("Connection refused"), "{outcome:?}");
    // Without the namespace, both are there.
    let mut exec = setup.coder();
    exec.args(["exec", "--backend", "local", "--toolchain", "c-cpp", "--", "make", "-c"]);
    let open = Outcome::of(exec.arg(format!("PATH=/usr/bin:/bin; cat ~/.kube/key && {connect}")));
    assert_eq!(open.exited(0).text(), "the key");
}

/// The files of the process's own tree are reached neither by new namespaces nor through processes
/// outside.
#[test]
fn a_tool_does_not_leave_the_namespace() {
    let Some(user) = user("namespace::a_tool_does_not_leave_the_namespace") else { return };
    let setup = shell(user);
    let ssh = setup.scratch().join("home/.ssh");
    fs::create_dir(&ssh).unwrap();
    fs::write(ssh.join("key"), "the key").unwrap();
    give(&setup, user);
    let script = "umount ~/.ssh; unshare --user --mount sh -c 'umount ~/.ssh'; \
                  unshare --user --map-root-user --mount sh -c 'umount ~/.ssh; \
                  mount -o remount,bind,rw /; mount --bind / /mnt'; cat ~/.ssh/key; echo x > ~/new";
    let outcome = sh(&setup, script);
    assert_eq!((outcome.code(), outcome.text()), (Some(2), String::new()), "{outcome:?}");
    let mut sleep = Command::new("/bin/sleep");
    if let [program, args @ ..] = user {
        sleep = Command::new(program);
        sleep.args(args).arg("/bin/sleep");
    }
    let mut outside = sleep.arg("1000").spawn().unwrap();
    let root = format!("/proc/{}/root{}", outside.id(), ssh.display());
    let seen = format!("/proc/{}", outside.id());
    let script = format!(
        "test -d {seen} && cat {root}/key {seen}/environ || \
         nsenter --target {} --user --mount cat {}/key || \
         test $(readlink /proc/self/ns/pid) = {} && test -d /proc/$$ && echo same processes",
        outside.id(),
        ssh.display(),
        fs::read_link("/proc/self/ns/pid").unwrap().display().to_string().replace('[', "\\[")
    );
    let outcome = sh(&setup, &script);
    assert_eq!(outcome.exited(0).text(), "same processes\n", "{outcome:?}");
    assert!(outcome.stderr.contains("ermission denied"), "{outcome:?}");
    outside.kill().unwrap();
    outside.wait().unwrap();
}

/// gdb, strace and 32-bit programs among them, where this machine has them.
#[test]
fn programs_and_builds_work() {
    let Some(user) = user("namespace::programs_and_builds_work") else { return };
    let setup = shell(user);
    fs::write(setup.workspace().join("programs.py"), ORDINARY_PROGRAMS).unwrap();
    give(&setup, user);
    let seen = sh(&setup, "python3 programs.py").exited(0).text();
    assert!(seen.starts_with("cp works\ntar works\n"), "{seen}");
    assert!(!seen.contains("failed"), "{seen}");
    eprintln!("{seen}");
}

/// As the user of this test, whose cargo may be unreadable for others.
#[test]
fn cargo_builds_with_a_path_dependency() {
    let test = "namespace::cargo_builds_with_a_path_dependency";
    if user(test).is_none() {
        return;
    }
    let cargo = std::env::var("CARGO").expect("cargo runs this test");
    let bin = Path::new(&cargo).parent().unwrap();
    let setup = SessionSetup::new().tool("cargo", Tool::Link(cargo.clone().into()));
    let workspace = setup.workspace();
    let package = |name: &str, dependencies: &str, file: &str, text: &str| {
        let dir = workspace.join(name);
        fs::create_dir_all(dir.join("src")).unwrap();
        let manifest = format!("[package]\nname = '{name}'\nedition = '2021'\n{dependencies}");
        fs::write(dir.join("Cargo.toml"), manifest).unwrap();
        fs::write(dir.join("src").join(file), text).unwrap();
    };
    package("needed", "", "lib.rs", "pub fn text() -> &'static str { \"built\" }");
    let dependencies = "[dependencies]\nneeded = { path = '../needed' }\n[workspace]\n";
    package("it", dependencies, "main.rs", "fn main() { println!(\"{}\", needed::text()) }");
    let path = format!("{}:{}:/usr/bin:/bin", setup.tools().display(), bin.display());
    let setup = setup.env("PATH", &path);
    let words =
        ["rust", "--", "cargo", "run", "--quiet", "--offline", "--manifest-path", "it/Cargo.toml"];
    let outcome = exec(&setup, &words);
    assert_eq!(outcome.exited(0).text(), "built\n", "{outcome:?}");
}

/// The session does not start, and the reason names a remedy.
#[test]
fn without_namespaces_nothing_runs() {
    let Some(user) = user("namespace::without_namespaces_nothing_runs") else { return };
    let unshare = program("unshare").unwrap();
    let limit = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let inside = [unshare.to_str().unwrap(), "--user", "--map-root-user", "/bin/sh", "-c", limit];
    let setup = shell(&[user, &inside, &["sh"]].concat());
    let config = setup.scratch().join("home/.config/aifo");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "confine = 'namespace'\n").unwrap();
    give(&setup, user);
    let outcome = sh(&setup, "echo ran");
    assert_eq!((outcome.code(), outcome.text()), (Some(86), String::new()), "{outcome:?}");
    let lines = "tools cannot be confined in a namespace: cannot create a user namespace: ";
    assert!(outcome.stderr.contains(lines), "{outcome:?}");
    let hint = "hint: run as root: sysctl -w user.max_user_namespaces=10000\n";
    assert!(outcome.stderr.ends_with(hint), "{outcome:?}");
    let mut doctor = setup.coder();
    let doctor = Outcome::of(doctor.args(["doctor", "--backend", "local"]));
    assert!(
        doctor.text().contains("fail  namespace: cannot create a user namespace"),
        "{doctor:?}"
    );
}

/// Hiding the directory would hide the workspace.
#[test]
fn a_workspace_in_a_hidden_directory_is_refused() {
    let Some(user) = user("namespace::a_workspace_in_a_hidden_directory_is_refused") else {
        return;
    };
    let setup = shell(user);
    let workspace = setup.scratch().join("home/.kube/project");
    fs::create_dir_all(&workspace).unwrap();
    give(&setup, user);
    let path = workspace.to_str().unwrap();
    let outcome = exec(&setup, &["c-cpp", "--workspace", path, "--", "make", "-c", "echo ran"]);
    assert_eq!((outcome.code(), outcome.text()), (Some(86), String::new()), "{outcome:?}");
    let hidden = workspace.parent().unwrap().display();
    let line =
        format!("'{path}' must be writable, but is in '{hidden}', which is hidden from tools");
    assert!(outcome.stderr.contains(&line), "{outcome:?}");
}
