//! Calls of tools in a pod, and the confinement of its containers, in podman and in a cluster
//! (`spec/kubernetes.md#in-other-clusters`).

use std::fs;
use std::io::{PipeWriter, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use aifo_tests::{Collector, Outcome, PodCluster, Terminal, eventually_within};

/// A session whose agent is a shell that reads its commands from the test.
struct PodShell {
    run: Child,
    stdin: Option<PipeWriter>,
    stdout: Collector,
    stderr: Collector,
    count: usize,
}

/// The time for a start, or for a slow command.
const SLOW: Duration = Duration::from_secs(180);

impl PodShell {
    fn start(cluster: &PodCluster) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut run = cluster.run_words(&[], &["sh"]);
        run.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = run.spawn().unwrap();
        let stdout = Collector::of(run.stdout.take().unwrap());
        let stderr = Collector::of(run.stderr.take().unwrap());
        PodShell { run, stdin: Some(writer), stdout, stderr, count: 0 }
    }

    /// Runs a script in the agent container, and returns its output.
    #[track_caller]
    fn output(&mut self, script: &str) -> String {
        self.count += 1;
        let (begin, end) = (format!("<{}>\n", self.count), format!("</{}>\n", self.count));
        let text =
            format!("echo '{}'\n(\n{script}\n) </dev/null\necho '{}'\n", begin.trim(), end.trim());
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        let output = || String::from_utf8_lossy(&self.stdout.bytes()).into_owned();
        eventually_within(SLOW, &format!("the agent has run: {script}"), || {
            output().contains(&end) || self.stdout.has_ended()
        });
        let output = output();
        let part = output.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end));
        let stderr = String::from_utf8_lossy(&self.stderr.bytes()).into_owned();
        part.unwrap_or_else(|| panic!("{output}\n{stderr}")).0.to_owned()
    }

    /// Ends the agent. Returns its exit code.
    #[track_caller]
    fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        let mut code = None;
        eventually_within(SLOW, "the session has ended", || {
            code = self.run.try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|status| status.code())
    }
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_call_in_a_pod_is_like_a_native_one() {
    let Some(cluster) = PodCluster::of_run("a_call_in_a_pod_is_like_a_native_one") else { return };
    let mut shell = PodShell::start(&cluster);
    for (script, expected) in [
        // The home of the tools' container is another one.
        (
            "touch ~/of-agent; python3 -c 'import os; print(\"of-agent\" in os.listdir(\"/home/coder\"))'",
            "False\n",
        ),
        (
            "for code in 0 1 42 255; do python3 -c \"import sys; sys.exit($code)\"; echo $?; done",
            "0\n1\n42\n255\n",
        ),
        ("python3 -c 'import os; os.kill(os.getpid(), 9)'; echo $?", "137\n"),
        (
            "python3 -c 'import sys; print(ascii(sys.argv[1:]))' '' 'a b' \"$(printf 'x\\ny')\" \
             \"$(printf '\\377')\" '*' '$HOME' '$$(HOME)'",
            "['', 'a b', 'x\\ny', '\\udcff', '*', '$HOME', '$$(HOME)']\n",
        ),
        (
            "mkdir -p sub/dir && cd sub/dir && python3 -c 'import os; print(os.getcwd())'",
            "/workspace/sub/dir\n",
        ),
        (
            "python3 -c 'import sys; print(\"out\"); print(\"err\", file=sys.stderr)' 2>err; echo; cat err",
            "out\n\nerr\n",
        ),
        (
            "printf 4 | python3 -c 'import sys; print(int(sys.stdin.read()) + 1)' | python3 -c 'print(input())'",
            "5\n",
        ),
        ("python3 -c 'import sys; print(len(sys.stdin.read()))'", "0\n"),
        (
            "printf 'all:\\n\\t@echo made; id -u >made; exit 3\\n' >Makefile; make 2>/dev/null; echo $?; test $(cat made) = $(id -u) && echo same",
            "made\n2\nsame\n",
        ),
        (
            "for i in 1 2 3 4 5 6 7 8; do python3 -c \"print($i)\" >of-$i & done; wait; cat of-*",
            "1\n2\n3\n4\n5\n6\n7\n8\n",
        ),
        ("rm -r sub err of-* made Makefile; ls", ""),
    ] {
        assert_eq!(shell.output(script), expected, "{script}");
    }
    let id = cluster.latest();
    let exec = ["exec", "--session", &id, "--backend", "kubernetes", "--", "python3", "-c"];
    let call = "import sys; print('by exec'); sys.exit(9)";
    let mut exec = cluster.coder(&[&exec, &[call][..]].concat());
    assert_eq!(Outcome::of(&mut exec).exited(9).text(), "by exec\n");
    assert_eq!(shell.end(), Some(0));
    cluster.expect_nothing_left(&id);
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_stream_of_64_mib_passes_a_pod_unchanged() {
    let Some(cluster) = PodCluster::of_run("a_stream_of_64_mib_passes_a_pod_unchanged") else {
        return;
    };
    let mut shell = PodShell::start(&cluster);
    let copy =
        "python3 -c 'import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)'";
    let script = format!(
        "head -c 67108864 /dev/urandom >/tmp/big; sha256sum </tmp/big; {copy} </tmp/big | sha256sum; \
         cat /tmp/big | {copy} >/tmp/copy; sha256sum </tmp/copy; rm /tmp/big /tmp/copy"
    );
    let output = shell.output(&script);
    let sums: Vec<&str> = output.lines().collect();
    assert_eq!((sums.len(), sums[0].len()), (3, 67), "{output}");
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{output}");
    assert_eq!(shell.end(), Some(0));
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn signals_and_the_interrupt_key_reach_a_tool_in_a_pod() {
    let name = "signals_and_the_interrupt_key_reach_a_tool_in_a_pod";
    let Some(cluster) = PodCluster::of_run(name) else { return };
    let tool = "python3 -u -c 'import signal, sys, time\n\
                signal.signal(signal.SIGTERM, lambda *_: (print(\"caught\"), sys.exit(5)))\n\
                print(\"ready\"); time.sleep(600)'";
    let mut shell = PodShell::start(&cluster);
    let script = format!(
        "{tool} >out & pid=$!; until grep -q ready out; do sleep 0.1; done; kill -TERM $pid; wait $pid; \
         echo $?; cat out; rm out"
    );
    assert_eq!(shell.output(&script), "5\nready\ncaught\n");
    assert_eq!(shell.end(), Some(0));

    let terminal = Terminal::sized(80, 24);
    let script = "trap : INT; python3 -uc 'import time; print(\"begun\"); time.sleep(600)' 2>&1; \
                  echo ended $?; exit 4";
    let run = terminal.start(&cluster.run(&[], script));
    terminal.expect("begun").press("\x03");
    terminal.expect("KeyboardInterrupt").expect("ended 130");
    assert_eq!(run.finish(), Ok(4), "{}", terminal.shown());
}

/// Prints each way out of a container with its result.
const WAYS_OUT: &str = r#"
import ctypes, errno, os, stat
libc = ctypes.CDLL(None, use_errno=True)
def failed(result):
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
def status(name):
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith(name + ":"))
print("token", os.path.exists("/var/run/secrets"), os.path.exists("/run/secrets/kubernetes.io"))
print("variables", [name for name in os.environ if "API_KEY" in name or "AIFO_POD" in name])
print("capabilities", {int(status(name), 16) for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]})
print("privileges", status("NoNewPrivs"), "seccomp", status("Seccomp"), "root", 0 in os.getresuid() + os.getresgid())
for path in ["/", "/usr/bin", "/etc", "/opt/aifo/bin", "/run/aifo", "/var", "/proc/sys/kernel"]:
    try:
        open(path + "/aifo-test", "w").close()
        print("written", path)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.ENOENT):
            print("written?", path, error)
others, sockets = set(), set()
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{pid}/cmdline").read().split("\0")
    except OSError:
        continue
    others |= {word for word in words if word.endswith("aifo-coder")}
for directory, _, names in os.walk("/", topdown=True):
    if directory.startswith(("/proc", "/sys")):
        continue
    for name in names:
        path = os.path.join(directory, name)
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                sockets.add(path)
        except OSError:
            pass
print("processes of aifo", sorted(others))
print("sockets", sorted(sockets))
print("listeners", [line.split()[1] for line in open("/proc/net/tcp") if line.split()[3] == "0A"])
print("devices", [name for name in os.listdir("/dev") if name in ("kmsg", "mem", "kvm", "sda", "vda", "fuse")])
print("mount", failed(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)))
print("setuid", failed(libc.setuid(0)))
print("chroot", failed(libc.chroot(b"/tmp")))
print("mknod", failed(libc.mknod(b"/tmp/aifo-node", 0o60600, 0x800)))
print("bpf", failed(libc.syscall(321, 0, 0, 0)))
"#;

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn containers_of_a_pod_have_no_way_out() {
    let Some(cluster) = PodCluster::of_run("containers_of_a_pod_have_no_way_out") else { return };
    let mut shell = PodShell::start(&cluster);
    shell.output(&format!("cat >ways.py <<'END'\n{WAYS_OUT}END"));
    let of_agent = shell.output("/usr/bin/python3 ways.py");
    let of_tool = shell.output("python3 ways.py");
    let of_recipe = shell.output(
        "printf 'all:\\n\\t@/usr/bin/python3 ways.py\\n' >Makefile; make; rm Makefile ways.py",
    );
    let expected = |sockets: &str| {
        format!(
            "token False False\nvariables []\ncapabilities {{0}}\nprivileges 1 seccomp 2 root False\n\
             processes of aifo []\nsockets {sockets}\nlisteners []\ndevices []\nmount EPERM\nsetuid EPERM\n\
             chroot EPERM\nmknod EPERM\nbpf EPERM\n"
        )
    };
    assert_eq!(of_agent, expected("['/run/aifo/exec.sock']"), "agent");
    assert_eq!(of_tool, expected("[]"), "python");
    assert_eq!(of_recipe, expected("[]"), "rust");
    assert_eq!(shell.end(), Some(0));
}

#[test]
#[ignore = "container: cargo xtask test podman, or kubernetes"]
fn a_denied_call_in_a_pod_has_its_reason_and_is_logged() {
    let name = "a_denied_call_in_a_pod_has_its_reason_and_is_logged";
    let Some(cluster) = PodCluster::of_run(name) else { return };
    let rule = "[[rule]]\nrun = \"make\"\nwith = [\"publish\"]\nthen = \"deny\"\nbecause = \"no releases from here\"\n";
    for directory in ["home/.config/aifo", "home/XDG_CONFIG_HOME/aifo"] {
        let directory = cluster.setup().scratch().join(directory);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.toml"), rule).unwrap();
    }
    let mut shell = PodShell::start(&cluster);
    let denied = shell.output("make publish 2>&1; echo $?");
    assert!(denied.contains("no releases from here") && denied.ends_with("\n86\n"), "{denied}");
    let script = "printf 'all:\\n\\t@echo made\\n' >Makefile; make; rm Makefile";
    assert_eq!(shell.output(script), "made\n");
    let id = cluster.latest();
    let log = Outcome::of(&mut cluster.on_pods(&["log", &id])).exited(0).text();
    let denied = log.lines().find(|line| line.contains("make publish")).expect(&log);
    assert!(denied.contains("refused"), "{denied}");
    assert_eq!(shell.end(), Some(0));
}
