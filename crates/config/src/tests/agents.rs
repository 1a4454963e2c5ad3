//! `[agents.NAME]` and its ACP profile.

use std::path::PathBuf;
use std::time::Duration;

use aifo_agents::{AcpProfile, ChunkMode, FileFormat, MissingFileReply};

use super::of_user as config;

fn profile(text: &str, name: &str) -> AcpProfile {
    config(text).unwrap().agent_named(name).unwrap().acp.clone().unwrap()
}

#[test]
fn rows_are_changed_and_added() {
    let config = config(
        "[agents.codex]\nimage = 'mine/codex:1'\nset = { A = '1' }\n\
         packages = ['g++', 'libpq5']\n\
         [agents.mine]\ncommand = ['mine', '--now']\nstate = ['.mine']\nnode = true\n\
         variables = ['MINE_KEY']\n",
    )
    .unwrap();
    let codex = config.agent_named("codex").unwrap();
    assert_eq!(codex.image.as_deref(), Some("mine/codex:1"));
    assert_eq!(codex.state, [PathBuf::from(".codex")], "other values are kept");
    assert_eq!(config.agents.packages().get("codex").unwrap(), &["g++", "libpq5"]);
    assert!(codex.set.contains(&("A".to_owned(), "1".to_owned())));
    let mine = config.agent_named("mine").unwrap();
    assert_eq!(mine.command, ["mine", "--now"]);
    assert!(mine.smart.node && !mine.smart.python);
    assert!(config.smart_for(Some("mine")).node);
    let error = config.agent_named("codx").unwrap_err().to_string();
    assert!(error.ends_with("hint: did you mean 'codex'?"), "{error}");
}

#[test]
fn files_of_a_users_row_are_copied_whole() {
    let config = config(
        "[agents.mine]\nstate = ['.mine']\ncredentials = '.mine/auth.json'\n\
         import = ['.mine/config.toml', '.mine/notes']\nconversations = ['.mine/sessions']\n",
    )
    .unwrap();
    let mine = config.agent_named("mine").unwrap();
    let files = mine.credentials.iter().chain(&mine.import);
    let files: Vec<_> = files.map(|file| (file.from.to_str().unwrap(), file.format)).collect();
    let expected = [
        (".mine/auth.json", FileFormat::Json),
        (".mine/config.toml", FileFormat::Toml),
        (".mine/notes", FileFormat::Text),
    ];
    assert_eq!(files, expected);
    assert_eq!(mine.conversations, [PathBuf::from(".mine/sessions")]);
}

#[test]
fn invalid_rows() {
    let rows = [
        ("[agents.codex]\npackages = ['a b']", "/u.toml:2: 'a b' is no name of a Debian package"),
        ("[agents.codex]\npackages = ['-y']", "/u.toml:2: '-y' is no name of a Debian package"),
        ("[agents.codex]\ncommand = []", "/u.toml:2: command must start with a program"),
        ("[agents.codex]\nstate = ['/etc']", "/u.toml:2: '/etc' is not below HOME"),
        ("[agents.codex]\nstate = ['.a/../..']", "/u.toml:2: '.a/../..' is not below HOME"),
        (
            "[agents.codex]\ncredentials = '.codex/key'",
            "/u.toml:2: '.codex/key' is no JSON or TOML file below HOME",
        ),
        ("[agents.codex]\nimport = ['../x']", "/u.toml:2: '../x' is not below HOME"),
        ("[agents.codex]\nvariables = ['X_*']", "/u.toml:2: invalid variable 'X_*'"),
        ("[agents.codex]\nset = { PATH = '/x' }", "/u.toml:2: variable 'PATH' is reserved"),
        (
            "[agents.codex]\nlocal_python = 'python3'",
            "/u.toml:2: local_python 'python3' is not an absolute path",
        ),
        ("[agents.Codex]\nimage = 'x'", "/u.toml:1: invalid agent name 'Codex'"),
        ("[agents.codex]\nimages = 'x'", "/u.toml:2: there is no key 'images'"),
    ];
    for (text, expected) in rows {
        let error = config(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn profiles_are_changed_and_added() {
    let built_in = profile("", "qwen");
    let changed = profile(
        "[agents.qwen]\nimage = 'q'\n[agents.qwen.acp]\nfs = true\nallow_option = ''\nset = { A = '1' }",
        "qwen",
    );
    let set = vec![("A".to_owned(), "1".to_owned())];
    assert_eq!(changed, AcpProfile { fs: true, allow_option: None, set, ..built_in });
    let new = profile(
        "[agents.mine.acp]\ncommand = ['mine', '--acp']\nterminal = true\nmissing_file = 'empty'\n\
         stream = 'auto'\nallow_option = 'yes'\ninitialize_secs = 5\nkill_on_eof = true",
        "mine",
    );
    let expected = AcpProfile {
        terminal: true,
        missing_file: MissingFileReply::Empty,
        stream: ChunkMode::Auto,
        allow_option: Some("yes".to_owned()),
        initialize: Duration::from_secs(5),
        kill_on_eof: true,
        ..AcpProfile::plain(vec!["mine".to_owned(), "--acp".to_owned()])
    };
    assert_eq!(new, expected);
    assert_eq!(config("").unwrap().agent_named("aider").unwrap().acp, None);
}

#[test]
fn invalid_profiles() {
    let rows = [
        (
            "[agents.aider.acp]\nfs = true",
            "/u.toml:1: agent 'aider' has no ACP command\nhint: add: command = ",
        ),
        ("[agents.qwen.acp]\ncommand = []", "/u.toml:2: command must start with a program"),
        (
            "[agents.qwen.acp]\nmissing_file = 'x'",
            "/u.toml:2: invalid value 'x' for missing_file: expected error or empty",
        ),
        (
            "[agents.qwen.acp]\nstream = 'x'",
            "invalid value 'x' for stream: expected delta, snapshot or auto",
        ),
        ("[agents.qwen.acp]\ninitialize_secs = 0", "/u.toml:2: initialize_secs must be at least 1"),
        ("[agents.qwen.acp]\nset = { PATH = '/x' }", "/u.toml:2: variable 'PATH' is reserved"),
        ("[agents.qwen.acp]\nterminals = true", "hint: did you mean 'terminal'?"),
    ];
    for (text, expected) in rows {
        let error = config(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
