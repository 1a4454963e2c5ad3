//! The workspace's own file. Whoever works in the workspace can edit it, an agent too, so it can
//! make things tighter and nothing else.

use std::ops::Range;

use crate::config::agents;
use crate::config::containers::{CachesEntry, caches};
use crate::config::error::ConfigError;
use crate::config::file::{Entries, File};
use crate::config::permissions;
use crate::config::source::Sourced;
use crate::config::user::{at_least_one, confine};
use crate::config::values::{Config, user_file_name};

impl Config {
    /// Narrows what held before. Errors: what would not narrow, and mistakes.
    pub(crate) fn tighten(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries;
        if let Some((span, what)) = not_narrowing(entries).next() {
            let what = format!("{what}, which a workspace's file may not do");
            let hint = format!("this belongs in your own file, '{}'", user_file_name());
            return Err(ConfigError::new(&file.source(span), what).hint(hint));
        }
        if let Some(told) = file.told(&entries.toolchains) {
            let Sourced { value: kept, source } = self.toolchains_named(told)?;
            let list = &mut self.toolchains.value.list;
            let all = list.len();
            list.retain(|toolchain| kept.find(&toolchain.kind).is_some());
            if list.len() < all {
                self.toolchains.source = source;
            }
        }
        if let Some(Sourced { value, source }) = file.told(&entries.max_secs)
            && self.max_secs.value.is_none_or(|limit| value < limit)
        {
            self.max_secs = Sourced::new(Some(value), source);
        }
        if let Some(told) = file.told(&entries.max_executions)
            && told.value < self.max_executions.value
        {
            self.max_executions = at_least_one(told)?;
        }
        if let Some(told) = file.told(&entries.confine) {
            self.confine = confine(told)?;
        }
        for (name, kind) in &entries.kind {
            let source = file.source(kind.span());
            let known = self.kind_named(name, &source)?;
            self.deny(&known, file.told(&kind.get_ref().deny))?;
        }
        if let Some(names) = file.told(&entries.env.deny) {
            self.deny_variables(names)?;
        }
        if let Some(told) = file.told(&entries.containers.caches) {
            let told = caches(told)?;
            if told.value > self.containers.caches.value {
                self.containers.caches = told;
            }
        }
        self.notify.enabled.set(file.told(&entries.notify.enabled));
        self.narrow_permissions(file)
    }
}

/// What of a file does something else than narrow, with the words for it.
fn not_narrowing(entries: &Entries) -> impl Iterator<Item = (Range<usize>, String)> {
    let Entries { env, notify, agent, .. } = entries;
    let kinds = entries.kind.iter().flat_map(|(name, kind)| {
        let kind = kind.get_ref();
        let tools = kind.tools.as_ref().map(|tools| (tools.span(), "lists tools"));
        let allow = kind.allow.as_ref().map(|tools| (tools.span(), "allows tools"));
        let image = kind.image.as_ref().map(|image| (image.span(), "chooses an image"));
        let told = tools.into_iter().chain(allow).chain(image);
        told.map(move |(span, does)| (span, format!("[kind.{name}] {does}")))
    });
    let version = entries.toolchains.as_ref();
    let version = version.filter(|words| words.get_ref().iter().any(|word| word.contains('@')));
    let no_limit = entries.max_secs.as_ref().filter(|seconds| *seconds.get_ref() == 0);
    let switched_on = notify.enabled.as_ref().filter(|enabled| *enabled.get_ref());
    let confine =
        entries.confine.as_ref().filter(|word| ["auto", "off"].contains(&word.get_ref().as_str()));
    let shared = entries
        .containers
        .caches
        .as_ref()
        .filter(|entry| matches!(entry.get_ref(), CachesEntry::Word(word) if word == "user"));
    let others = [
        (version.map(toml::Spanned::span), "toolchains with an @ chooses a version"),
        (span(&entries.idle_stop_secs), "idle_stop_secs says how long sidecars stay"),
        (no_limit.map(toml::Spanned::span), "max_secs = 0 takes the limit away"),
        (switched_on.map(toml::Spanned::span), "[notify] enabled = true switches notifications on"),
        (confine.map(toml::Spanned::span), "confine other than \"required\" lets tools go"),
        (span(&entries.verbose), "verbose changes what is told"),
        (span(&entries.listen), "listen chooses where the proxy is reached"),
        (span(&entries.backend), "backend chooses where tools run"),
        (entries.containers.any_but_caches(), "[containers] chooses what containers are made of"),
        (shared.map(toml::Spanned::span), "[containers] caches = \"user\" shares caches"),
        (span(&entries.local_python), "local_python chooses a program to run"),
        (span(&env.allow), "[env] allow passes variables on"),
        (span(&env.set), "[env] set chooses variables of tools"),
        (span(&notify.command), "[notify] command chooses a program to run"),
        (span(&notify.allow), "[notify] allow allows commands"),
        (span(&notify.options), "[notify] options allows a caller's options"),
        (span(&notify.safe_dirs), "[notify] safe_dirs allows commands"),
        (span(&notify.trim_env), "[notify] trim_env changes an environment"),
        (span(&notify.env_allow), "[notify] env_allow changes an environment"),
        (span(&notify.timeout_secs), "[notify] timeout_secs changes a limit"),
        (span(&agent.smart), "[agent] smart changes where programs run"),
        (span(&agent.node), "[agent] node changes where programs run"),
        (span(&agent.python), "[agent] python changes where programs run"),
        (agents::any(&entries.agents), "[agents] chooses what agents are and get"),
    ];
    let others = others.into_iter().filter_map(|(span, what)| Some((span?, what.to_owned())));
    kinds.chain(others).chain(permissions::not_narrowing(&entries.permissions))
}

fn span<T>(entry: &Option<toml::Spanned<T>>) -> Option<Range<usize>> {
    entry.as_ref().map(toml::Spanned::span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_policy::{Forwarded, Staying};
    use std::path::Path;

    fn config(user: &str, workspace: &str) -> Result<Config, String> {
        let parse = |path: &str, text: &str| File::parse(Path::new(path), text);
        let mut config = Config::builtin();
        let user = parse("/u.toml", user).and_then(|file| config.apply_user(&file));
        user.map_err(|error| error.to_string())?;
        let tightened = parse("/w/.aifo.toml", workspace).and_then(|file| config.tighten(&file));
        tightened.map(|()| config).map_err(|error| error.to_string())
    }

    #[test]
    fn it_narrows() {
        let user = "confine = 'off'\ntoolchains = ['rust', 'node']\nmax_secs = 100\n[kind.rust]\nallow = ['just']";
        let narrow = "toolchains = ['node', 'go']\nmax_secs = 60\nmax_executions = 3\n\
                      confine = 'required'\n\
                      [kind.rust]\ndeny = ['just', 'cargo']\n[env]\ndeny = ['CI']\n[notify]\nenabled = false";
        let config = config(user, narrow).unwrap();
        let kinds = config.toolchains.value.words();
        assert_eq!(kinds, ["node"], "go is not added");
        assert_eq!(config.max_secs.value, Some(60));
        assert_eq!(config.max_secs.source.to_string(), "/w/.aifo.toml:2");
        assert_eq!(config.max_executions.value, 3);
        let rust = config.policy.kind_named("rust").unwrap();
        assert_eq!((rust.allowance("just"), rust.allowance("cargo")), (None, None));
        let judged = config.forwarding.judge(b"CI", b"1", Path::new("/w"));
        assert_eq!(judged, Forwarded::Stays(Staying::Denied));
        assert_eq!(config.confine.value, aifo_launch::ConfinementMode::Required);
        assert!(config.notify.rules().allowlist.is_empty());
    }

    #[test]
    fn it_narrows_what_starts_on_demand() {
        let words = |user, workspace| config(user, workspace).unwrap().toolchains.value.words();
        let user = "toolchains = ['auto', 'rust@1.95']";
        assert_eq!(words(user, "toolchains = ['go', 'rust']"), ["auto", "rust@1.95", "go"]);
        assert_eq!(words(user, "toolchains = ['auto']").len(), 6, "all five, on demand");
        assert_eq!(words("toolchains = ['rust']", "toolchains = ['auto']"), ["rust"]);
    }

    #[test]
    fn what_is_tighter_already_stays() {
        let config = config("max_secs = 100\nmax_executions = 2", "max_secs = 600").unwrap();
        assert_eq!(config.max_secs.value, Some(100));
        assert_eq!(config.max_secs.source.to_string(), "/u.toml:1");
        assert_eq!(config.max_executions.value, 2);
    }

    #[test]
    fn caches_can_only_be_shared_less() {
        use aifo_launch::CacheScope::{None, Project, User};
        let rows = [
            ("", "", Project),
            ("'user'", "", User),
            ("'none'", "", None),
            // As files said it before there were words.
            ("true", "", Project),
            ("false", "", None),
            ("'user'", "'project'", Project),
            ("'user'", "true", Project),
            ("'user'", "'none'", None),
            ("", "'project'", Project),
            ("", "false", None),
            ("'none'", "'project'", None),
        ];
        let file = |word: &str| match word {
            "" => String::new(),
            word => format!("[containers]\ncaches = {word}"),
        };
        for (user, workspace, expected) in rows {
            let config = config(&file(user), &file(workspace)).unwrap();
            assert_eq!(config.containers.caches.value, expected, "{user} {workspace}");
        }
    }

    #[test]
    fn what_would_loosen_is_refused() {
        let rows = [
            "toolchains = ['rust@1.95']",
            "idle_stop_secs = 0",
            "max_secs = 0",
            "confine = 'off'",
            "confine = 'auto'",
            "verbose = true",
            "listen = 'tcp://0.0.0.0:1'",
            "local_python = '/w/python'",
            "[kind.rust]\nallow = ['sh']",
            "[kind.x]\ntools = ['sh']",
            "[env]\nallow = ['FOO']",
            "[env]\nset = { FOO = '1' }",
            "[notify]\nenabled = true",
            "[notify]\ncommand = ['/w/x']",
            "[notify]\nallow = ['sh']",
            "[notify]\noptions = true",
            "[notify]\nsafe_dirs = ['/w']",
            "[notify]\ntrim_env = false",
            "[notify]\nenv_allow = ['TOKEN']",
            "[notify]\ntimeout_secs = 9",
            "[containers]\nadmit = ['npmrc']",
            "[containers]\npools = []",
            "[containers]\ncaches = 'user'",
            "[containers]\nca_bundle = '/w/ca.pem'",
            "[agent]\nsmart = 'on'",
            "[agent]\nnode = true",
            "[agent]\npython = true",
        ];
        for text in rows {
            let error = config("", text).unwrap_err();
            let line = text.lines().count();
            assert!(error.starts_with(&format!("/w/.aifo.toml:{line}: ")), "{text}: {error}");
            assert!(error.contains("a workspace's file may not do"), "{text}: {error}");
            assert!(error.contains("hint: this belongs in your own file"), "{text}: {error}");
        }
    }

    #[test]
    fn a_user_may_say_anything_but_nonsense() {
        let rows = [
            ("[kind.rsut]\nallow = []", "/u.toml:1: there is no toolchain 'rsut'\nhint: did you"),
            ("[kind.java]\nallow = []", "hint: a new one lists its tools: tools = [..]"),
            ("[kind.Java]\ntools = []", "'Java' cannot name a toolchain"),
            ("[containers]\npools = ['10.89.0.1/16']", "invalid subnet '10.89.0.1/16'"),
            (
                "[containers]\ncaches = 'all'",
                "/u.toml:2: 'all' is not a scope of caches\nhint: say project, user, none",
            ),
            ("[containers]\ncaches = 3", "/u.toml:2: caches is \"project\", \"user\" or \"none\""),
            ("[kind.host]\ntools = []", "/u.toml:1: 'host' cannot name a toolchain"),
            ("[kind.auto]\ntools = []", "'auto' cannot name a toolchain: it stands for all"),
            ("[kind.rust]\ntools = []", "/u.toml:2: toolchain 'rust' has its tools already"),
            ("[kind.rust]\nallow = ['a/b']", "/u.toml:2: 'a/b' cannot be a tool"),
            ("[kind.rust]\ndeny = ['aifo-runner']", "names in aifo- are ours"),
            ("toolchains = ['rust', 'x']", "/u.toml:1: there is no toolchain 'x'; known are: c"),
            ("max_executions = 0", "/u.toml:1: at least one"),
            ("confine = 'yes'", "hint: say \"auto\", \"required\" or \"off\""),
            ("listen = 'x'", "/u.toml:1: "),
            ("local_python = 'python3'", "/u.toml:1: local_python 'python3' is not absolute"),
            ("[env]\nallow = ['A', 'B C']", "/u.toml:2: 'B C' cannot be a variable"),
            ("[env]\ndeny = ['=']", "/u.toml:2: '=' cannot be a variable"),
            ("[env]\nset = { 'A*' = '' }", "/u.toml:2: 'A*' cannot be a variable"),
            ("[env]\nset = { PATH = '/x' }", "/u.toml:2: a tool's PATH is the sidecar's own"),
            ("[env]\nset = { A = 1 }", "/u.toml:2: invalid type: integer `1`"),
            ("[notify]\ncommand = ['say']", "/u.toml:2: the command 'say' is not an absolute"),
            ("[notify]\ncommand = []", "/u.toml:2: the command '' is not an absolute"),
            ("[agent]\nsmart = 'yes'", "hint: say \"auto\", \"on\" or \"off\""),
        ];
        for (text, expected) in rows {
            let error = config(text, "").unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let java = config("toolchains = ['java']\n[kind.java]\ntools = ['javac']", "").unwrap();
        assert_eq!(java.toolchains.value.words(), ["java"]);
        assert!(java.policy.all_tools().contains("javac"));
    }
}
