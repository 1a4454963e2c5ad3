//! States of agents in directories of a test.
//!
//! Proves `spec/agents.md#import`, `spec/agents.md#logins`, `spec/trust.md#state-of-agents`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::SystemTime;

use tempfile::TempDir;

use super::*;
use crate::agents::{AgentSpec, FileFormat, StateFile};

const LOGIN: &str = ".it/auth.json";

/// A user's home and the states of agents beside it.
struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("home/.it")).unwrap();
        Fixture(base)
    }

    fn home(&self, path: &str) -> PathBuf {
        self.0.path().join("home").join(path)
    }

    fn own(&self, project: &str, path: &str) -> PathBuf {
        self.0.path().join("states/it").join(project).join("home").join(path)
    }

    fn agent(&self) -> AgentContainerConfig {
        let mut spec = AgentSpec::unknown("it");
        let file = |path: &str, format, keys: &[&str]| StateFile {
            from: path.into(),
            to: path.into(),
            format,
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        };
        spec.state = vec![".it".into()];
        spec.credentials = Some(file(LOGIN, FileFormat::Json, &["token", "*.type=api"]));
        spec.import = vec![
            file(".it/config.toml", FileFormat::Toml, &["model"]),
            file(".it/notes.md", FileFormat::Text, &[]),
        ];
        spec.conversations = vec![".it/sessions".into()];
        AgentContainerConfig {
            spec,
            image: String::new(),
            home: Some(self.0.path().join("home")),
            state: StateMode::Own,
            state_import: StateImport::Settings,
            keys: None,
            forges: None,
        }
    }

    fn open(&self, project: &str) -> OpenState {
        self.open_as(project, &self.agent())
    }

    fn open_as(&self, project: &str, agent: &AgentContainerConfig) -> OpenState {
        let directory = self.0.path().join("states/it").join(project);
        StatePlace { directory }.open(agent).unwrap()
    }

    fn poll(open: &OpenState) {
        open.credential.as_ref().unwrap().poll();
    }
}

/// Replaces a file as agents do, by a rename, with a time in seconds from now.
fn replace(path: &Path, text: &str, seconds: i64) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    let age = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    let time = if seconds < 0 { now - age } else { now + age };
    File::options().write(true).open(&draft).unwrap().set_modified(time).unwrap();
    fs::rename(draft, path).unwrap();
}

fn token(path: &Path) -> String {
    let text = fs::read(path).unwrap();
    let object: serde_json::Value = serde_json::from_slice(&text).unwrap();
    object["token"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_new_state_gets_settings_without_commands_once() {
    let fixture = Fixture::new();
    let config = "model = 'm'\nnotify = ['evil']\n[mcp_servers.x]\ncommand = 'evil'\n";
    fs::write(fixture.home(".it/config.toml"), config).unwrap();
    fs::write(fixture.home(".it/unknown"), "x").unwrap();
    fs::create_dir(fixture.home("elsewhere")).unwrap();
    fs::write(fixture.home("elsewhere/notes"), "secret").unwrap();
    symlink(fixture.home("elsewhere/notes"), fixture.home(".it/notes.md")).unwrap();

    let open = fixture.open("p");
    let notice = open.notice().unwrap().to_owned();
    let imported = "imported: ~/.it/config.toml (without mcp_servers.x, notify); what can start";
    assert!(notice.contains(imported), "{notice}");
    assert!(notice.contains("--state host"), "{notice}");
    let own = |path: &str| fixture.own("p", path);
    assert_eq!(fs::read_to_string(own(".it/config.toml")).unwrap(), "\"model\" = \"m\"\n");
    assert!(!own(".it/unknown").exists() && !own(".it/notes.md").exists());
    for path in [own(""), own(".it")] {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700, "{}", path.display());
    }
    drop(open);

    // The agent's own settings stay in its state, and out of the user's.
    fs::write(own(".it/config.toml"), "[mcp_servers.y]\ncommand = 'evil'\n").unwrap();
    let open = fixture.open("p");
    assert_eq!(open.notice(), None);
    assert!(fs::read_to_string(own(".it/config.toml")).unwrap().contains("mcp_servers.y"));
    assert_eq!(fs::read_to_string(fixture.home(".it/config.toml")).unwrap(), config);

    // A refresh takes the user's later changes, and leaves the rest.
    fs::write(own(".it/config.toml"), "model = 'a'\n[mcp_servers.y]\ncommand = 'evil'\n").unwrap();
    fs::write(fixture.home(".it/config.toml"), "model = 'n'\nother = 1\n").unwrap();
    let (agent, path) = (fixture.agent(), fixture.0.path().join("states/it/p"));
    let key = Project::of(&path).key();
    let stored = StoredState { agent: "it".to_owned(), key, path };
    let refresh = || stored.refresh(&agent.spec, &fixture.home(""));
    assert!(matches!(refresh(), Err(StateError::InUse)), "the session uses it");
    drop(open);
    let link = "'~/.it/notes.md' is not imported: it is a link, or lies behind one";
    assert_eq!(refresh().unwrap(), ["~/.it/config.toml (without other)", link]);
    let refreshed = fs::read_to_string(own(".it/config.toml")).unwrap();
    assert!(refreshed.contains("\"model\" = \"n\"") && refreshed.contains("evil"), "{refreshed}");
}

#[test]
fn conversations_are_imported_once_if_the_user_wants_it() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.home(".it/sessions/2026")).unwrap();
    fs::write(fixture.home(".it/sessions/2026/one"), "1").unwrap();
    fs::write(fixture.home("secret"), "s").unwrap();
    symlink(fixture.home("secret"), fixture.home(".it/sessions/link")).unwrap();
    let own = |path: &str| fixture.own("p", path);
    drop(fixture.open("p"));
    assert!(!own(".it/sessions").exists());

    let agent =
        AgentContainerConfig { state_import: StateImport::Conversations, ..fixture.agent() };
    let open = fixture.open_as("p", &agent);
    assert!(open.notice().unwrap().contains("imported: ~/.it/sessions;"));
    drop(open);
    assert_eq!(fs::read_to_string(own(".it/sessions/2026/one")).unwrap(), "1");
    assert!(own(".it/sessions/link").symlink_metadata().is_err());
    fs::remove_file(own(".it/sessions/2026/one")).unwrap();
    assert_eq!(fixture.open_as("p", &agent).notice(), None);
    assert!(!own(".it/sessions/2026/one").exists());
}

#[test]
fn a_login_that_changes_on_one_side_is_copied_to_the_other() {
    let fixture = Fixture::new();
    let (users, own) = (fixture.home(LOGIN), fixture.own("p", LOGIN));
    fs::write(&users, r#"{"token": "1", "other": "kept"}"#).unwrap();
    let open = fixture.open("p");
    assert_eq!(fs::read_to_string(&own).unwrap(), "{\n  \"token\": \"1\"\n}\n");

    // Refreshed in the sandbox, with an older time than the user's file.
    replace(&own, r#"{"token": "2", "hook": "evil"}"#, -60);
    Fixture::poll(&open);
    let text = fs::read_to_string(&users).unwrap();
    assert_eq!(token(&users), "2");
    assert!(text.contains("kept") && !text.contains("evil"), "{text}");
    assert_eq!(fs::metadata(&users).unwrap().permissions().mode() & 0o777, 0o600);
    // Refreshed by the user.
    replace(&users, r#"{"token": "3", "other": "kept"}"#, -60);
    Fixture::poll(&open);
    assert_eq!(token(&own), "3");
    // At the end of the session.
    replace(&own, r#"{"token": "4"}"#, 0);
    drop(open);
    assert_eq!(token(&users), "4");
    // Between sessions, and after a killed one.
    replace(&own, r#"{"token": "5"}"#, -60);
    drop(fixture.open("p"));
    assert_eq!(token(&users), "5");
    replace(&users, r#"{"token": "6"}"#, -60);
    drop(fixture.open("p"));
    assert_eq!(token(&own), "6");
    // Both changed: the newer file.
    replace(&own, r#"{"token": "7"}"#, -30);
    replace(&users, r#"{"token": "8"}"#, -60);
    drop(fixture.open("p"));
    assert_eq!([token(&users), token(&own)], ["7", "7"]);
    replace(&own, r#"{"token": "9"}"#, -60);
    replace(&users, r#"{"token": "10"}"#, -30);
    drop(fixture.open("p"));
    assert_eq!([token(&users), token(&own)], ["10", "10"]);
    // A login that the user removed stays removed; a new one in the sandbox is the user's, too.
    fs::remove_file(&users).unwrap();
    drop(fixture.open("p"));
    assert!(!users.exists());
    replace(&own, r#"{"token": "11"}"#, 0);
    drop(fixture.open("p"));
    assert_eq!(token(&users), "11");
    // A login that the agent removed is there again in the next session.
    let open = fixture.open("p");
    fs::remove_file(&own).unwrap();
    Fixture::poll(&open);
    drop(open);
    assert!(!own.exists() && users.exists());
    drop(fixture.open("p"));
    assert_eq!(token(&own), "11");
}

#[test]
fn sessions_of_two_projects_have_the_newest_login() {
    let fixture = Fixture::new();
    let users = fixture.home(LOGIN);
    fs::write(&users, r#"{"token": "1"}"#).unwrap();
    let sessions = [fixture.open("p"), fixture.open("q")];
    let own = ["p", "q"].map(|project| fixture.own(project, LOGIN));
    for (turn, changed) in [0, 1, 1, 0].into_iter().enumerate() {
        let new = format!("new-{turn}");
        replace(&own[changed], &format!(r#"{{"token": "{new}"}}"#), 0);
        sessions.iter().chain(&sessions).for_each(Fixture::poll);
        assert_eq!([token(&users), token(&own[0]), token(&own[1])], [&*new; 3]);
    }
    // Two sessions of one project.
    let third = fixture.open("p");
    replace(&own[0], r#"{"token": "last"}"#, 0);
    drop(third);
    assert_eq!(token(&users), "last");
    drop(sessions);
    assert_eq!(own.map(|path| token(&path)), ["last", "last"]);
}

#[test]
fn a_login_of_another_shape_is_not_copied() {
    let fixture = Fixture::new();
    let (users, own) = (fixture.home(LOGIN), fixture.own("p", LOGIN));
    let good = r#"{"token": "1"}"#;
    fs::write(&users, good).unwrap();
    fs::write(fixture.home("secret"), r#"{"token": "secret"}"#).unwrap();
    let open = fixture.open("p");
    let large = format!(r#"{{"token": "{}"}}"#, "x".repeat(70_000));
    for damaged in
        ["", "{\"token\": ", "[]", &large, r#"{"token": "2", "x": {"type": "wellknown"}}"#]
    {
        replace(&own, damaged, 60);
        Fixture::poll(&open);
        assert_eq!(fs::read_to_string(&users).unwrap(), good, "{damaged}");
    }
    fs::remove_file(&own).unwrap();
    symlink(fixture.home("secret"), &own).unwrap();
    Fixture::poll(&open);
    assert_eq!(fs::read_to_string(&users).unwrap(), good);
    fs::remove_file(&own).unwrap();
    nix::unistd::mkfifo(&own, nix::sys::stat::Mode::S_IRWXU).unwrap();
    drop(open);
    assert_eq!(fs::read_to_string(&users).unwrap(), good);
    // The agent's next session has the user's login again.
    drop(fixture.open("p"));
    assert_eq!(token(&own), "1");

    // The user's own file is damaged, or a link.
    fs::write(&users, "{").unwrap();
    drop(fixture.open("p"));
    assert_eq!((fs::read_to_string(&users).unwrap().as_str(), token(&own).as_str()), ("{", "1"));
    fs::remove_file(&users).unwrap();
    symlink(fixture.home("secret"), &users).unwrap();
    replace(&own, r#"{"token": "3"}"#, 60);
    drop(fixture.open("p"));
    assert_eq!((token(&fixture.home("secret")), token(&own)), ("secret".into(), "3".into()));
}

#[test]
fn nothing_is_written_outside_of_the_home() {
    let fixture = Fixture::new();
    fs::remove_dir(fixture.home(".it")).unwrap();
    fs::create_dir(fixture.0.path().join("outside")).unwrap();
    symlink(fixture.0.path().join("outside"), fixture.home(".it")).unwrap();
    let open = fixture.open("p");
    replace(&fixture.own("p", LOGIN), r#"{"token": "1"}"#, 0);
    Fixture::poll(&open);
    drop(open);
    assert_eq!(fs::read_dir(fixture.0.path().join("outside")).unwrap().count(), 0);

    // A private directory that the agent has replaced by a link.
    let mut agent = fixture.agent();
    agent.spec.private = vec![".it/run".into()];
    symlink(fixture.0.path().join("outside"), fixture.own("p", ".it/run")).unwrap();
    drop(fixture.open_as("p", &agent));
    assert!(fixture.own("p", ".it/run").symlink_metadata().unwrap().is_dir());
}

#[test]
fn a_state_in_use_is_not_removed() {
    let fixture = Fixture::new();
    let open = fixture.open("0123456789abcdef");
    let stored = StoredState {
        agent: "it".into(),
        key: aifo_sidecar::ProjectKey::parse("0123456789abcdef").unwrap(),
        path: fixture.0.path().join("states/it/0123456789abcdef"),
    };
    assert!(matches!(stored.remove(), Err(StateError::InUse)));
    drop(open);
    stored.remove().unwrap();
    assert!(!stored.path.exists());
}

/// A session of codex, with the user's key behind the proxy.
fn codex(fixture: &Fixture) -> AgentContainerConfig {
    let agents = crate::agents::known_agents();
    let spec = agents.iter().find(|agent| agent.name == "codex").unwrap().clone();
    let home = fixture.0.path().join("home");
    let programs = crate::agent_programs::trusted_programs_here();
    let settings = crate::keys::KeySettings::default();
    let none = |_: &str| None;
    let keys = crate::keys::ModelKeys::collect(&spec, &settings, &programs, &[], Some(&home), none);
    AgentContainerConfig { spec, keys: keys.unwrap(), ..fixture.agent() }
}

#[test]
fn the_copy_of_a_login_has_a_phantom_key_which_is_never_copied_back() {
    const AUTH: &str = ".codex/auth.json";
    let real = r#"{"OPENAI_API_KEY": "sk-real", "auth_mode": "apikey"}"#;
    let fixture = Fixture::new();
    fs::create_dir(fixture.home(".codex")).unwrap();
    replace(&fixture.home(AUTH), real, -100);
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let key = |path: &Path| read(path)["OPENAI_API_KEY"].as_str().unwrap_or_default().to_owned();
    let (users, own) = (fixture.home(AUTH), fixture.own("p", AUTH));

    let agent = codex(&fixture);
    let (pointer, phantom) = agent.keys.as_ref().unwrap().of_login()[0].clone();
    assert_eq!(pointer, "/OPENAI_API_KEY");
    let first = fixture.open_as("p", &agent);
    assert_eq!((key(&own), key(&users)), (phantom.clone(), "sk-real".to_owned()));
    // The agent writes its file anew; a second session has another phantom key.
    replace(&own, &format!(r#"{{"OPENAI_API_KEY": "{phantom}", "auth_mode": "other"}}"#), 50);
    Fixture::poll(&first);
    assert_eq!(
        read(&users),
        serde_json::json!({"OPENAI_API_KEY": "sk-real", "auth_mode": "other"})
    );
    let second = fixture.open_as("p", &codex(&fixture));
    assert!(key(&own).len() > 40 && key(&own) != phantom);
    Fixture::poll(&first);
    drop(second);
    assert_eq!(key(&users), "sk-real");
    // A new key of the user's does not arrive either.
    replace(&users, r#"{"OPENAI_API_KEY": "sk-newer"}"#, 100);
    Fixture::poll(&first);
    assert_eq!((key(&own), key(&users)), (phantom.clone(), "sk-newer".to_owned()));
    // A login that the user has removed, or replaced by one of another kind, stays.
    fs::remove_file(&users).unwrap();
    replace(&own, &format!(r#"{{"OPENAI_API_KEY": "{phantom}", "auth_mode": "x"}}"#), 150);
    Fixture::poll(&first);
    assert!(!users.exists());
    replace(&users, r#"{"tokens": {"access_token": "t"}}"#, 120);
    drop(first);
    assert_eq!(read(&users), serde_json::json!({"tokens": {"access_token": "t"}}));
    assert!(codex(&fixture).keys.is_none(), "OAuth is the agent's");

    // With --keys pass, the agent gets the key.
    replace(&users, real, 200);
    let agent = AgentContainerConfig { keys: None, ..codex(&fixture) };
    drop(fixture.open_as("p", &agent));
    assert_eq!((key(&own), key(&users)), ("sk-real".to_owned(), "sk-real".to_owned()));
    // The next session takes it out of the copy again.
    drop(fixture.open_as("p", &codex(&fixture)));
    assert!(key(&own) != "sk-real" && key(&users) == "sk-real");
}
