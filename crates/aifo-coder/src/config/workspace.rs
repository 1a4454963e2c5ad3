//! The workspace's file. An agent can edit it, so it can only restrict.

use std::ops::Range;

use crate::config::agents;
use crate::config::containers::{CachesEntry, parse_caches};
use crate::config::error::ConfigError;
use crate::config::file::{Entries, File};
use crate::config::permissions;
use crate::config::source::Sourced;
use crate::config::user::{check_max_executions, confine_mode};
use crate::config::values::{Config, user_file_name};

impl Config {
    /// Restricts the configuration. Errors: keys that would extend it, and invalid values.
    pub(crate) fn tighten(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries;
        if let Some((span, what)) = loosening(entries).next() {
            let what = format!("{what}, which a workspace's file may not do");
            let hint = format!("this belongs in your own file, '{}'", user_file_name());
            return Err(ConfigError::new(&file.source(span), what).hint(hint));
        }
        if let Some(sourced) = file.sourced(&entries.toolchains) {
            let Sourced { value: kept, source } = self.toolchains_named(sourced)?;
            let list = &mut self.toolchains.value.list;
            let all = list.len();
            list.retain(|toolchain| kept.find(&toolchain.kind).is_some());
            if list.len() < all {
                self.toolchains.source = source;
            }
        }
        if let Some(Sourced { value, source }) = file.sourced(&entries.max_secs)
            && self.max_secs.value.is_none_or(|limit| value < limit)
        {
            self.max_secs = Sourced::new(Some(value), source);
        }
        if let Some(sourced) = file.sourced(&entries.max_executions)
            && sourced.value < self.max_executions.value
        {
            self.max_executions = check_max_executions(sourced)?;
        }
        if let Some(sourced) = file.sourced(&entries.confine) {
            self.confine = confine_mode(sourced)?;
        }
        for (name, kind) in &entries.kind {
            let source = file.source(kind.span());
            let known = self.kind_named(name, &source)?;
            self.deny(&known, file.sourced(&kind.get_ref().deny))?;
        }
        if let Some(names) = file.sourced(&entries.env.deny) {
            self.deny_variables(names)?;
        }
        if let Some(sourced) = file.sourced(&entries.containers.caches) {
            let sourced = parse_caches(sourced)?;
            if sourced.value > self.containers.caches.value {
                self.containers.caches = sourced;
            }
        }
        self.notify.enabled.set(file.sourced(&entries.notify.enabled));
        self.narrow_permissions(file)
    }
}

/// Returns the keys that a workspace's file may not have, with their effect.
fn loosening(entries: &Entries) -> impl Iterator<Item = (Range<usize>, String)> {
    let Entries { env, notify, agent, .. } = entries;
    let kinds = entries.kind.iter().flat_map(|(name, kind)| {
        let kind = kind.get_ref();
        let tools = kind.tools.as_ref().map(|tools| (tools.span(), "lists tools"));
        let allow = kind.allow.as_ref().map(|tools| (tools.span(), "allows tools"));
        let image = kind.image.as_ref().map(|image| (image.span(), "chooses an image"));
        let spans = tools.into_iter().chain(allow).chain(image);
        spans.map(move |(span, does)| (span, format!("[kind.{name}] {does}")))
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
        (span(&entries.idle_stop_secs), "idle_stop_secs changes when sidecars stop"),
        (no_limit.map(toml::Spanned::span), "max_secs = 0 removes the limit"),
        (switched_on.map(toml::Spanned::span), "[notify] enabled = true switches notifications on"),
        (confine.map(toml::Spanned::span), "confine other than \"required\" weakens confinement"),
        (span(&entries.verbose), "verbose changes the log"),
        (span(&entries.listen), "listen changes the proxy's address"),
        (span(&entries.backend), "backend chooses where tools run"),
        (entries.containers.first_except_caches(), "[containers] configures containers"),
        (shared.map(toml::Spanned::span), "[containers] caches = \"user\" shares caches"),
        (span(&entries.local_python), "local_python chooses a program to run"),
        (span(&env.allow), "[env] allow forwards variables"),
        (span(&env.set), "[env] set sets variables of tools"),
        (span(&notify.command), "[notify] command chooses a program to run"),
        (span(&notify.allow), "[notify] allow allows commands"),
        (span(&notify.options), "[notify] options allows options of the caller"),
        (span(&notify.safe_dirs), "[notify] safe_dirs allows commands"),
        (span(&notify.trim_env), "[notify] trim_env changes an environment"),
        (span(&notify.env_allow), "[notify] env_allow changes an environment"),
        (span(&notify.timeout_secs), "[notify] timeout_secs changes a limit"),
        (span(&agent.smart), "[agent] smart changes where programs run"),
        (span(&agent.node), "[agent] node changes where programs run"),
        (span(&agent.python), "[agent] python changes where programs run"),
        (agents::any(&entries.agents), "[agents] configures agents"),
    ];
    let others = others.into_iter().filter_map(|(span, what)| Some((span?, what.to_owned())));
    kinds.chain(others).chain(permissions::loosening(&entries.permissions))
}

fn span<T>(entry: &Option<toml::Spanned<T>>) -> Option<Range<usize>> {
    entry.as_ref().map(toml::Spanned::span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_policy::{ForwardDecision, StayReason};
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
    fn values_are_restricted() {
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
        assert_eq!(judged, ForwardDecision::Stays(StayReason::Denied));
        assert_eq!(config.confine.value, aifo_launch::Confine::Required);
        assert!(config.notify.rules().allowlist.is_empty());
    }

    #[test]
    fn toolchains_on_demand_are_restricted() {
        let words = |user, workspace| config(user, workspace).unwrap().toolchains.value.words();
        let user = "toolchains = ['auto', 'rust@1.95']";
        assert_eq!(words(user, "toolchains = ['go', 'rust']"), ["auto", "rust@1.95", "go"]);
        assert_eq!(words(user, "toolchains = ['auto']").len(), 6, "all five, on demand");
        assert_eq!(words("toolchains = ['rust']", "toolchains = ['auto']"), ["rust"]);
    }

    #[test]
    fn stricter_values_are_kept() {
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
            // The older boolean form.
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
    fn keys_that_extend_are_rejected() {
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
    fn invalid_values_of_the_user_are_rejected() {
        let rows = [
            ("[kind.rsut]\nallow = []", "/u.toml:1: there is no toolchain 'rsut'\nhint: did you"),
            ("[kind.java]\nallow = []", "hint: define a new toolchain with: tools = [..]"),
            ("[kind.Java]\ntools = []", "'Java' cannot name a toolchain"),
            ("[containers]\npools = ['10.89.0.1/16']", "invalid subnet '10.89.0.1/16'"),
            (
                "[containers]\ncaches = 'all'",
                "/u.toml:2: invalid value 'all' for containers.caches: expected project, user or none",
            ),
            ("[containers]\ncaches = 3", "/u.toml:2: caches is \"project\", \"user\" or \"none\""),
            ("[kind.host]\ntools = []", "/u.toml:1: 'host' cannot name a toolchain"),
            ("[kind.auto]\ntools = []", "'auto' cannot name a toolchain: reserved for all"),
            ("[kind.rust]\ntools = []", "/u.toml:2: toolchain 'rust' already has tools"),
            ("[kind.rust]\nallow = ['a/b']", "/u.toml:2: invalid tool name 'a/b'"),
            ("[kind.rust]\ndeny = ['aifo-runner']", "names starting with 'aifo-' are reserved"),
            (
                "toolchains = ['rust', 'x']",
                "/u.toml:1: there is no toolchain 'x'; known toolchains: c",
            ),
            ("max_executions = 0", "/u.toml:1: max_executions must be at least 1"),
            (
                "confine = 'yes'",
                "/u.toml:1: invalid value 'yes' for confine: expected auto, required or off",
            ),
            ("listen = 'x'", "/u.toml:1: "),
            (
                "local_python = 'python3'",
                "/u.toml:1: local_python 'python3' is not an absolute path",
            ),
            ("[env]\nallow = ['A', 'B C']", "/u.toml:2: invalid variable 'B C'"),
            ("[env]\ndeny = ['=']", "/u.toml:2: invalid variable '='"),
            ("[env]\nset = { 'A*' = '' }", "/u.toml:2: invalid variable 'A*'"),
            ("[env]\nset = { PATH = '/x' }", "/u.toml:2: variable 'PATH' is reserved"),
            ("[env]\nset = { A = 1 }", "/u.toml:2: invalid type: integer `1`"),
            ("[notify]\ncommand = ['say']", "/u.toml:2: command 'say' is not an absolute path"),
            ("[notify]\ncommand = []", "/u.toml:2: command '' is not an absolute path"),
            (
                "[agent]\nsmart = 'yes'",
                "/u.toml:2: invalid value 'yes' for agent.smart: expected auto, on or off",
            ),
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
