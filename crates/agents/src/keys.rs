//! The keys that an agent works with, without having them (`spec/keys.md`).

mod login;
mod own;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use aifo_egress::{Connector, ParentProxy};
use aifo_host::TrustedPrograms;
use aifo_provider::{
    COMPATIBLE, KeySource, PROVIDERS, Provider, ReverseProxy, Upstream, UpstreamUrl, Usage,
    UsageLimits,
};
use tokio::net::TcpListener;

use self::login::KeyOfLogin;
pub(crate) use self::source::Reader;
pub use self::source::SecretSource;
use crate::agents::AgentSpec;

/// The port of the proxy on the agent localhost.
pub const KEY_PORT: u16 = 18_459;

/// The user's settings for keys.
#[derive(Clone, Debug, Default)]
pub struct KeySettings {
    /// Entries by the provider name.
    pub entries: BTreeMap<String, KeyEntry>,
    /// Limits of the session.
    pub limits: UsageLimits,
}

/// The user's settings for a provider key.
#[derive(Clone, Debug, Default)]
pub struct KeyEntry {
    /// Where the key is, instead of the provider variables.
    pub source: Option<SecretSource>,
    /// The provider URL.
    pub url: Option<UpstreamUrl>,
}

/// A reverse proxy with the user's keys, and the agent settings for it.
#[derive(Clone, Debug)]
pub struct ModelKeys {
    proxy: ReverseProxy,
    /// The names of the providers.
    providers: Vec<String>,
    /// The agent programs, and the arguments that they need.
    programs: Vec<String>,
    arguments: Vec<String>,
    /// Variables of the agent: base URLs and phantom keys.
    variables: Vec<(String, String)>,
    /// The user's variables that the agent does not get.
    withheld: BTreeSet<String>,
    /// Pointers of keys in the agent's login, and phantom keys for its copy.
    of_login: Vec<(String, String)>,
}

/// Why keys cannot be proxied.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The HTTP proxy of the environment is unusable.
    #[error(transparent)]
    Parent(#[from] aifo_egress::ParentError),
    /// No phantom key.
    #[error("cannot start the proxy for model keys: {0}")]
    Proxy(#[from] io::Error),
}

/// Returns the names of the providers that a key can be named for.
pub fn providers_of_keys() -> Vec<&'static str> {
    PROVIDERS.iter().map(|provider| provider.name).chain([COMPATIBLE.name]).collect()
}

/// Returns the variables from which [`ModelKeys::collect`] reads an agent's keys and URLs, each once.
pub fn key_variables(agent: &AgentSpec) -> BTreeSet<&str> {
    let variables = agent.keys.iter().flat_map(|row| {
        let provider = Provider::of(&row.provider).unwrap_or(&COMPATIBLE);
        let own = provider.variables.is_empty().then_some(row.key.as_str());
        provider.variables.iter().copied().chain(own).chain(row.user_base.as_deref())
    });
    variables.collect()
}

impl ModelKeys {
    /// Collects the keys of the user that the agent can use at a base URL. `None` if there are none.
    ///
    /// `variable` reads the launcher environment; `certificates` are PEM files that are trusted
    /// beside this machine's own. `home` is the user's, if the agent gets a copy of its login.
    pub fn collect(
        agent: &AgentSpec,
        settings: &KeySettings,
        programs: &TrustedPrograms,
        certificates: &[PathBuf],
        home: Option<&Path>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<ModelKeys>, KeysError> {
        let (mut arguments, mut variables) = (Vec::new(), Vec::new());
        let (mut upstreams, mut withheld) = (Vec::new(), BTreeSet::new());
        let mut of_login = Vec::new();
        for row in &agent.keys {
            let provider = Provider::of(&row.provider).unwrap_or(&COMPATIBLE);
            let is_set = |name: &&str| variable(name).is_some_and(|value| !value.trim().is_empty());
            let (key, user_base) = (row.key.as_str(), row.user_base.as_deref());
            let own = [key];
            let names = if provider.variables.is_empty() { &own[..] } else { provider.variables };
            if !names.contains(&key) && is_set(&key) {
                // A gateway token, which the agent sends in another way.
                continue;
            }
            let of_environment = names.iter().copied().find(is_set);
            let of_environment = of_environment.map(|name| SecretSource::Variable(name.to_owned()));
            let entry = settings.entries.get(&row.provider);
            let of_entry = entry.and_then(|entry| entry.source.clone());
            let file = home.zip(agent.credentials.as_ref()).zip(row.login.as_ref());
            let login = file.and_then(|((home, file), place)| KeyOfLogin::find(home, file, place));
            let reader: Box<dyn KeySource> = match (of_entry.or(of_environment), &login) {
                (Some(source), _) => Box::new(Reader { source, programs: programs.clone() }),
                (None, Some(login)) => Box::new(login.clone()),
                (None, None) => continue,
            };
            let of_entry = entry.and_then(|entry| entry.url.clone());
            let of_variable = || {
                let url = user_base.and_then(&variable).filter(|url| !url.trim().is_empty());
                url.map(|url| UpstreamUrl::parse(&url))
            };
            let url = match of_entry.map(Ok).or_else(of_variable) {
                Some(Ok(url)) if row.path.is_empty() => Some(url),
                Some(Ok(url)) => Some(url.with_version()),
                Some(Err(error)) => {
                    let name = user_base.unwrap_or_default();
                    tracing::warn!("{name} cannot be proxied, so the agent gets the key: {error}");
                    continue;
                }
                None if provider.upstream.is_empty() => continue,
                None => None,
            };
            let upstream = Upstream::new(&row.provider, provider, url, reader)?;
            if let (Some(_), Some(place)) = (&login, &row.login) {
                of_login.push((place.pointer.clone(), upstream.phantom().as_str().to_owned()));
            }
            let base = format!("http://127.0.0.1:{KEY_PORT}/{}{}", row.provider, row.path);
            row.base.apply(&base, &mut arguments, &mut variables);
            variables.push((key.to_owned(), upstream.phantom().as_str().to_owned()));
            if let Some(file) = row.settings.as_ref().filter(|it| !is_set(&it.unless.as_str())) {
                variables.push((file.variable.clone(), file.path.clone()));
            }
            let names = names.iter().copied().chain(own).chain(user_base);
            withheld.extend(names.map(str::to_owned));
            upstreams.push(upstream);
        }
        if upstreams.is_empty() {
            return Ok(None);
        }
        let providers = upstreams.iter().map(|upstream| upstream.name().to_owned()).collect();
        let connector = Connector::new(ParentProxy::from_environment(&variable)?);
        let proxy = ReverseProxy::new(upstreams, connector, certificates, settings.limits);
        let acp = agent.acp.as_ref().and_then(|acp| acp.command.first());
        let programs = agent.command.first().into_iter().chain(acp).cloned().collect();
        Ok(Some(ModelKeys { proxy, providers, programs, arguments, variables, withheld, of_login }))
    }

    /// Returns the names of the providers whose keys the agent does not get.
    pub fn providers(&self) -> &[String] {
        &self.providers
    }

    /// Returns the pointers of keys in the agent's login, and phantom keys for its copy.
    pub fn of_login(&self) -> &[(String, String)] {
        &self.of_login
    }

    /// Returns the arguments that a program needs: only the agent's own ones need some.
    pub fn arguments_for(&self, program: &OsStr) -> &[String] {
        let is_own = self.programs.iter().any(|own| program == own.as_str());
        if is_own { &self.arguments } else { &[] }
    }

    /// Returns the agent variables: base URLs and phantom keys.
    pub fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Returns whether the agent does not get this variable of the user's.
    pub fn withholds(&self, variable: &str) -> bool {
        self.withheld.contains(variable)
    }

    /// Returns the counts so far.
    pub fn usage(&self) -> Usage {
        self.proxy.usage()
    }

    /// Serves the listener of the agent stack until the future is dropped.
    pub async fn serve(&self, listener: TcpListener) {
        self.proxy.serve(listener).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent_programs::trusted_programs_here;
    use crate::agents::known_agents;

    fn keys(agent: &str, environment: &[(&str, &str)]) -> Option<ModelKeys> {
        let agents = known_agents();
        let agent = agents.iter().find(|known| known.name == agent).unwrap();
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let programs = trusted_programs_here();
        ModelKeys::collect(agent, &KeySettings::default(), &programs, &[], None, variable).unwrap()
    }

    #[test]
    fn an_agent_gets_a_base_url_and_a_phantom_key() {
        let keys = keys("claude", &[("ANTHROPIC_API_KEY", "sk-ant-real")]).unwrap();
        let [base, key] = keys.variables() else { panic!("{:?}", keys.variables()) };
        assert_eq!(base.0, "ANTHROPIC_BASE_URL");
        assert_eq!(base.1, format!("http://127.0.0.1:{KEY_PORT}/anthropic"));
        assert_eq!(key.0, "ANTHROPIC_AUTH_TOKEN");
        assert!(key.1.starts_with("sk-ant-api03-"), "{}", key.1);
        assert!(keys.withholds("ANTHROPIC_API_KEY") && keys.withholds("ANTHROPIC_AUTH_TOKEN"));
        assert!(!format!("{keys:?}").contains("real"));
    }

    #[test]
    fn only_providers_with_a_key_are_proxied() {
        assert!(keys("claude", &[]).is_none());
        assert!(keys("vibe", &[("MISTRAL_API_KEY", "x")]).is_none());
        assert!(keys("copilot", &[("COPILOT_PROVIDER_API_KEY", "x")]).is_none());
        let opencode = keys(
            "opencode",
            &[("OPENAI_API_KEY", "x"), ("GROQ_API_KEY", "y"), ("XAI_API_KEY", " ")],
        )
        .unwrap();
        assert_eq!(opencode.providers(), ["groq", "openai"]);
    }

    #[test]
    fn a_base_url_of_the_users_is_kept() {
        let keys = keys(
            "copilot",
            &[
                ("COPILOT_PROVIDER_API_KEY", "x"),
                ("COPILOT_PROVIDER_BASE_URL", "https://llm.example/paas/v4"),
            ],
        )
        .unwrap();
        assert_eq!(keys.providers(), ["compatible"]);
        assert!(format!("{keys:?}").contains("llm.example"));
    }

    #[test]
    fn every_variable_of_a_key_is_listed() {
        let agents = known_agents();
        let variables = |name: &str| {
            let agent = agents.iter().find(|known| known.name == name).unwrap();
            key_variables(agent).into_iter().collect::<Vec<_>>()
        };
        assert!(variables("codex").contains(&"OPENAI_API_KEY"));
        assert_eq!(variables("copilot"), ["COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL"]);
        assert!(!variables("claude").contains(&"ANTHROPIC_AUTH_TOKEN"), "the agent's own");
        assert!(variables("crush").is_empty());
    }

    #[test]
    fn a_gateways_token_is_the_agents() {
        let gateway =
            [("ANTHROPIC_AUTH_TOKEN", "x"), ("ANTHROPIC_BASE_URL", "https://llm.example")];
        assert!(keys("claude", &gateway).is_none());
    }

    #[test]
    fn gemini_logs_in_by_key_unless_the_user_selects_another_login() {
        let variable = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
        let has_file = |keys: &ModelKeys| keys.variables().iter().any(|(name, _)| name == variable);
        assert!(has_file(&keys("gemini", &[("GEMINI_API_KEY", "x")]).unwrap()));
        let vertex = [("GOOGLE_API_KEY", "x"), ("GOOGLE_GENAI_USE_VERTEXAI", "true")];
        assert!(!has_file(&keys("gemini", &vertex).unwrap()));
    }

    #[test]
    fn codex_gets_arguments() {
        let keys = keys("codex", &[("OPENAI_API_KEY", "x")]).unwrap();
        let url = format!("base_url=\"http://127.0.0.1:{KEY_PORT}/openai/v1\"");
        for program in ["codex", "codex-acp"] {
            let arguments = keys.arguments_for(OsStr::new(program));
            assert!(arguments.iter().any(|word| word.contains(&url)), "{arguments:?}");
        }
        assert!(keys.arguments_for(OsStr::new("sh")).is_empty());
    }
}
