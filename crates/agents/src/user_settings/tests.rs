use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A home with files, and a workspace beside it.
struct Home {
    settings: UserSettings,
    path: PathBuf,
    _parent: TempDir,
}

impl Home {
    fn new(variables: &[(&str, &str)]) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().canonicalize().unwrap().join("home");
        fs::create_dir(&path).unwrap();
        let home = [("HOME", path.to_str().unwrap())];
        let variables = home.iter().chain(variables);
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = UserSettings {
            variables: variables.collect(),
            workspace: path.parent().unwrap().join("work"),
        };
        Home { settings, path, _parent: parent }
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn rules(&self, kinds: &[&str]) -> Vec<String> {
        let kinds: Vec<Kind> = kinds.iter().map(|kind| Kind::parse(kind).unwrap()).collect();
        let mut rules = NetworkRules::default_of(&kinds);
        let defaults = rules.iter().count();
        assert_eq!(self.settings.allow_settings(&mut rules, &kinds, &[]), []);
        rules.iter().skip(defaults).map(ToString::to_string).collect()
    }
}

#[test]
fn registries_of_every_kind_are_read_with_their_source() {
    let home = Home::new(&[
        ("NPM_CONFIG_REGISTRY", "https://variable.example/npm"),
        ("UV_INDEX", "own=https://uv.example/simple https://second.example:8443/"),
        ("CARGO_REGISTRIES_OWN_INDEX", "sparse+https://index.example/"),
        ("GOPROXY", "https://go.example,https://proxy.golang.org,direct"),
    ]);
    home.file(
        ".npmrc",
        "; npm\nregistry = \"https://npm.example/\"\n@own:registry=https://own.example:4873/x\n\
         //npm.example/:_authToken=secret\nregistry=https://registry.npmjs.org/\n",
    );
    home.file(".yarnrc.yml", "npmScopes:\n  own:\n    npmRegistryServer: 'https://yarn.example'\n");
    home.file(
        ".config/pip/pip.conf",
        "[global]\nindex-url = https://me:secret@pip.example/simple\nextra-index-url =\n    \
         https://one.example/\n    http://two.example:8080/\ntimeout = 60\n    https://no.example/\n",
    );
    home.file(
        ".config/uv/uv.toml",
        "extra-index-url = [\"https://extra.example/\"]\n[[index]]\nurl = \"https://list.example\"\n",
    );
    home.file(
        ".cargo/config.toml",
        "[registries.own]\nindex = \"ssh://git@git.example:2222/index.git\"\n\
         [source.crates-io]\nreplace-with = \"mirror\"\n\
         [source.mirror]\nregistry = \"sparse+https://mirror.example/\"\n",
    );
    home.file(
        ".config/go/env",
        "GOSUMDB=sum.example+key https://sums.example\nGOPRIVATE=*.corp.example,host.example/x,[\n",
    );
    home.file(
        ".gitconfig",
        "[user]\n\tname = x\n[url \"git@git.corp.example:\"]\n\tinsteadOf = corp:\n\
         [credential \"https://forge.example\"]\n[credential \"https://github.com\"]\n",
    );
    let git = [
        "git.corp.example:22 private (~/.gitconfig:3)",
        "forge.example:443 private (~/.gitconfig:5)",
    ];
    let rows: [(&str, &[&str]); 5] = [
        (
            "node",
            &[
                "npm.example:443 private (node, ~/.npmrc:2)",
                "own.example:4873 tls private (node, ~/.npmrc:3)",
                "yarn.example:443 private (node, ~/.yarnrc.yml:3)",
                "variable.example:443 private (node, NPM_CONFIG_REGISTRY)",
            ],
        ),
        (
            "python",
            &[
                "pip.example:443 private (python, ~/.config/pip/pip.conf:2)",
                "one.example:443 private (python, ~/.config/pip/pip.conf:4)",
                "two.example:8080 private (python, ~/.config/pip/pip.conf:5)",
                "extra.example:443 private (python, ~/.config/uv/uv.toml)",
                "list.example:443 private (python, ~/.config/uv/uv.toml)",
                "uv.example:443 private (python, UV_INDEX)",
                "second.example:8443 tls private (python, UV_INDEX)",
            ],
        ),
        (
            "rust",
            &[
                "git.example:2222 private (rust, ~/.cargo/config.toml)",
                "mirror.example:443 private (rust, ~/.cargo/config.toml)",
                "index.example:443 private (rust, CARGO_REGISTRIES_OWN_INDEX)",
            ],
        ),
        (
            "go",
            &[
                "sums.example:443 private (go, ~/.config/go/env:1)",
                "*.corp.example:22,443 private (go, ~/.config/go/env:2)",
                "host.example:22,443 private (go, ~/.config/go/env:2)",
                "go.example:443 private (go, GOPROXY)",
            ],
        ),
        ("c-cpp", &[]),
    ];
    for (kind, expected) in rows {
        assert_eq!(home.rules(&[kind]), [expected, &git].concat(), "{kind}");
    }
}

#[test]
fn files_that_others_could_write_are_not_read() {
    let home = Home::new(&[]);
    let text = "registry=https://npm.example/\n";
    home.file("dotfiles/npmrc", text);
    symlink(home.path.join("dotfiles/npmrc"), home.path.join(".npmrc")).unwrap();
    assert_eq!(home.rules(&["node"]), [""; 0], "a link");
    fs::remove_file(home.path.join(".npmrc")).unwrap();
    home.file(".npmrc", text);
    assert_eq!(home.rules(&["node"]).len(), 1);
    home.file(".npmrc", &format!("{text}#{}", "x".repeat(256 * 1024)));
    assert_eq!(home.rules(&["node"]), [""; 0], "too long");
    fs::remove_file(home.path.join(".npmrc")).unwrap();
    fs::create_dir(home.path.join(".npmrc")).unwrap();
    assert_eq!(home.rules(&["node"]), [""; 0], "no file");

    // The workspace's, which a variable names.
    let work = home.settings.workspace.clone();
    fs::create_dir(&work).unwrap();
    fs::write(work.join(".npmrc"), text).unwrap();
    let named = work.join(".npmrc");
    let home = Home {
        settings: UserSettings {
            variables: [("NPM_CONFIG_USERCONFIG".to_owned(), named.display().to_string())].into(),
            workspace: work,
        },
        ..home
    };
    assert_eq!(home.rules(&["node"]), [""; 0], "in the workspace");
    let elsewhere = UserSettings { workspace: "/else".into(), ..home.settings.clone() };
    assert_eq!(Home { settings: elsewhere, ..home }.rules(&["node"]).len(), 1);
}

#[test]
fn settings_that_no_rule_can_allow_are_reported() {
    let home = Home::new(&[
        ("PIP_INDEX_URL", "http://localhost:3141/simple"),
        ("PIP_EXTRA_INDEX_URL", "http://10.0.0.7/simple http://127.0.0.1:4000/"),
    ]);
    let kinds = [Kind::parse("python").unwrap()];
    let mut rules = NetworkRules::default();
    let unreachable = home.settings.allow_settings(&mut rules, &kinds, &[4000]);
    assert_eq!(rules.iter().count(), 0);
    let texts: Vec<_> = unreachable.iter().map(ToString::to_string).collect();
    let [address, local] = texts.as_slice() else { panic!("{texts:?}") };
    assert!(local.starts_with("'PIP_INDEX_URL' names port 3141 of this machine"), "{local}");
    assert!(address.contains("the address 10.0.0.7"), "{address}");
}
