//! The table of places that agent and tools could share (`spec/trust.md#who-writes-and-who-executes`), row by
//! row with a running session.

use std::fs;
use std::os::unix::fs::MetadataExt;

use aifo_tests::{EVERY_TOOL, Engine, Outcome};

use super::{containers, user_file};

const PAGE: &str = include_str!("../../../spec/trust.md");

/// Writes a mark at each place, lets the tool look, then looks for the tool's marks.
const AGENT: &str = r#"
mark() { if [ -d "$1" ]; then echo > "$1/of-$2" || :; fi 2>/dev/null; }
for place in "$@"; do mark "$place" agent; done
python3 probe.py "$@"
for place in "$@"; do
    if [ -e "$place/of-tool" ] || grep -qs of-tool "$place"; then echo "agent sees $place"; fi
done
for kind in ipc net; do echo "agent $kind $(readlink /proc/self/ns/$kind)"; done
"#;

const TOOL: &str = r"
import os, sys
for place in sys.argv[1:]:
    if os.path.exists(place + '/of-agent'):
        print('tool sees', place)
    try:
        target = place if os.path.isfile(place) else place + '/of-tool'
        with open(target, 'a') as file:
            file.write('# of-tool\n')
        print('tool writes', place)
    except OSError:
        pass
for kind in ('ipc', 'net'):
    print('tool', kind, os.readlink('/proc/self/ns/' + kind))
";

/// The rows of the page: a path, and how tools have it.
fn rows() -> Vec<(&'static str, &'static str)> {
    let section = PAGE.split("\n## Who writes, and who executes\n").nth(1).expect("the section");
    let lines = section.split("\n## ").next().unwrap_or_default().lines();
    let cells = lines.filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        Some((cells.next()?.split('`').next()?, cells.next()?))
    });
    cells.collect()
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn tools_have_each_place_as_the_page_says() {
    let Some(engine) = Engine::of_run("tools_have_each_place_as_the_page_says") else { return };
    let containers = containers(&engine);
    let workspace = containers.setup().workspace();
    let git = Outcome::of(std::process::Command::new("git").args(["init", "-q"]).arg(&workspace));
    git.exited(0);
    fs::write(workspace.join("agent.sh"), AGENT).unwrap();
    fs::write(workspace.join("probe.py"), TOOL).unwrap();
    let row =
        "[agents.it]\ncommand = ['sh', 'agent.sh']\nstate = ['.it']\nprivate = ['/tmp/it-UID']\n";
    user_file(&containers, row);
    let uid = fs::metadata("/proc/self").unwrap().uid();
    let inside = |place: &str| {
        let place = place.replace("STATE", ".it").replace("NAME", "it-UID");
        place.replace("UID", &uid.to_string())
    };
    let rows: Vec<_> = rows().into_iter().map(|(place, of)| (inside(place), of)).collect();
    assert!(rows.len() >= 10, "{rows:?}");

    let mut run = containers.command("run");
    run.args(["--image", EVERY_TOOL, "it"]).args(rows.iter().map(|(place, _)| place));
    let outcome = Outcome::of(&mut run);
    let printed = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let has = |line: String| printed.lines().any(|it| it == line);
    for (place, of_tools) in &rows {
        let seen = [has(format!("tool sees {place}")), has(format!("agent sees {place}"))];
        let writes = has(format!("tool writes {place}"));
        let expected = match *of_tools {
            "shared" => writes && seen == [true, true],
            "own" | "none" => seen == [false, false],
            "read-only" => !writes,
            other => panic!("{other}"),
        };
        assert!(expected, "{place} is not {of_tools}: {printed}\n{}", outcome.stderr);
    }
    for kind in ["ipc", "net"] {
        let of = |side: &str| {
            let start = format!("{side} {kind} ");
            printed.lines().find_map(|line| line.strip_prefix(&start)).expect("a namespace")
        };
        assert_ne!(of("agent"), of("tool"));
    }
}

/// A tool that puts another workspace in place of the agent's, by each of the names of the shared `/tmp`.
const REPLACE: &str = r"
import os, sys
workspace, tmp = sys.argv[1:]
for path in (workspace, tmp + workspace.removeprefix('/tmp')):
    while (path := os.path.dirname(path)) not in ('/', '/tmp', tmp):
        try:
            os.rename(path, path + '.old')
            print('renamed', path)
        except OSError:
            pass
";

#[test]
#[ignore = "container: cargo xtask test docker"]
fn no_tool_replaces_a_workspace_in_tmp() {
    let Some(engine) = Engine::of_run("no_tool_replaces_a_workspace_in_tmp") else { return };
    let containers = containers(&engine);
    let workspace = containers.setup().workspace();
    assert!(workspace.starts_with("/tmp/") && workspace.components().count() > 3, "{workspace:?}");
    fs::write(workspace.join("replace.py"), REPLACE).unwrap();
    let script = format!(
        "tmp=$(awk '$5 ~ /^.(var|dev).*-tmp$/ {{ print $5 }}' /proc/self/mountinfo); \
         python3 replace.py {0} \"$tmp\"; ls {0}/replace.py; touch $(dirname {0})/shared; python3 -c \
         'import os, sys; print(os.path.exists(sys.argv[1]))' $(dirname {0})/shared",
        workspace.display()
    );
    let mut run = containers.command("run");
    run.args(["--image", EVERY_TOOL, "--", "sh", "-c", &script]);
    let expected = format!("{}/replace.py\nTrue\n", workspace.display());
    assert_eq!(Outcome::of(&mut run).exited(0).text(), expected);
}
