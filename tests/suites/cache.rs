//! `aifo-coder cache`: what local sidecars keep. (That of containers is `container_ops`'s.)

use std::fs;
use std::os::unix::fs::PermissionsExt;

use aifo_tests::{Outcome, Setup};

#[test]
fn caches_are_listed_and_cleared_by_kind() {
    let setup = Setup::new();
    let own = setup.scratch().join("home/.cache/aifo");
    let cache = |args: &[&str]| Outcome::of(setup.coder().arg("cache").args(args));
    assert_eq!(cache(&["list"]).exited(0).only_line(), "aifo-coder: there is no cache");

    for folder in ["npm", "pip", "go/pkg/mod/example.org"] {
        fs::create_dir_all(own.join(folder)).unwrap();
    }
    // As go leaves what it has downloaded.
    let closed = own.join("go/pkg/mod/example.org");
    fs::write(closed.join("go.mod"), "module x").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();

    let listed = cache(&["list"]).exited(0).text();
    let rows: Vec<Vec<&str>> = listed.lines().map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["KIND", "BACKEND", "NAME"]);
    let names: Vec<_> = rows[1..].iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(names, [("go", "local"), ("node", "local"), ("python", "local")], "{listed}");

    let told = cache(&["clear", "--dry-run", "go"]).exited(0).text();
    assert_eq!(told, format!("would remove {} (local)\n", own.join("go").display()));
    assert!(closed.is_dir());
    let told = cache(&["clear", "golang,py"]).exited(0).text();
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(!own.join("go").exists() && !own.join("pip").exists() && own.join("npm").exists());

    let json = cache(&["list", "--json"]).exited(0).text();
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows[0]["kind"], "node");
    assert_eq!(rows[0]["size"], serde_json::Value::Null);
    assert_eq!(rows.as_array().unwrap().len(), 1);
}

#[test]
fn an_unknown_kind_is_a_mistake_of_the_command_line() {
    let outcome = Outcome::of(Setup::new().coder().args(["cache", "clear", "rsut"]));
    assert!(outcome.exited(2).stderr.contains("did you mean 'rust'?"), "{outcome:?}");
}
