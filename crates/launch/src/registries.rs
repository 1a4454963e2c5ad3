//! The user's files and socket that give tools in containers access to private registries, each
//! admitted by name (`spec/containers.md#registries`).

use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

use aifo_engine::{Mount, Value};
use aifo_host::CERTIFICATE_VARIABLES;
use aifo_sidecar::{Admitted, ProxyLogin, proxy_logins, proxy_variables};
use aifo_types::Kind;
use nix::unistd::getuid;

/// A file or socket of the user that containers may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// npm's configuration, with tokens.
    Npmrc,
    /// pip's configuration.
    Pip,
    /// cargo's tokens.
    Cargo,
    /// The certificates of a private CA.
    CaBundle,
    /// The SSH agent: it signs for tools; keys stay in the agent.
    SshAgent,
    /// The login in a proxy URL.
    ProxyLogin,
}

/// Sources of the paths: environment and configuration.
pub struct AdmissionSources<'a> {
    /// Returns a variable's value.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The configured certificates.
    pub ca_bundle: Option<&'a Path>,
    /// The system's bundle, if it has certificates beyond the distribution's.
    pub system_bundle: Option<&'a Path>,
}

/// Reasons for which something cannot be admitted.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionError {
    /// No variable or setting gives its path.
    #[error("{admission} is admitted, but {missing}")]
    Unnamed {
        /// The admission.
        admission: Admission,
        /// The missing variable or setting.
        missing: &'static str,
    },
    /// No file at any of its paths.
    #[error("{admission} is admitted, but there is no {searched}")]
    Missing {
        /// The admission.
        admission: Admission,
        /// The paths.
        searched: String,
    },
    /// A file of the wrong type, or not only the user's.
    #[error("{admission} is admitted, but '{}' {fault}", path.display())]
    Unsuitable {
        /// The admission.
        admission: Admission,
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
}

impl AdmissionError {
    /// True if there is nothing to admit, which makes tools less able but nothing unsafe.
    pub fn is_missing(&self) -> bool {
        matches!(self, AdmissionError::Unnamed { .. } | AdmissionError::Missing { .. })
    }
}

impl Admission {
    /// All admissions.
    pub const ALL: [Admission; 6] = [
        Admission::Npmrc,
        Admission::Pip,
        Admission::Cargo,
        Admission::CaBundle,
        Admission::SshAgent,
        Admission::ProxyLogin,
    ];

    /// Returns its name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Admission::Npmrc => "npmrc",
            Admission::Pip => "pip",
            Admission::Cargo => "cargo",
            Admission::CaBundle => "ca-bundle",
            Admission::SshAgent => "ssh-agent",
            Admission::ProxyLogin => "proxy-login",
        }
    }

    /// Parses a name of the configuration.
    pub fn parse(word: &str) -> Option<Self> {
        Admission::ALL.into_iter().find(|admission| admission.as_str() == word)
    }

    /// Returns the mount and variables for containers. Errors: missing, of the wrong type, or
    /// writable by other users.
    pub fn admitted(self, sources: &AdmissionSources<'_>) -> Result<Admitted, AdmissionError> {
        let Some(to) = self.mounted_at() else { return self.proxies(sources) };
        let from = self.checked(self.found(sources)?)?;
        let variables = self.variables().iter();
        let variables = variables.map(|name| (OsString::from(name), Value::Plain(to.into())));
        Ok(Admitted {
            kind: self.kind(),
            variables: variables.collect(),
            mount: Some(Mount::Bind { from, to: to.into(), read_only: true }),
        })
    }

    /// Returns the only kind that uses it.
    pub fn kind(self) -> Option<Kind> {
        let name = match self {
            Admission::Npmrc => "node",
            Admission::Pip => "python",
            Admission::Cargo => "rust",
            Admission::CaBundle | Admission::SshAgent | Admission::ProxyLogin => return None,
        };
        Kind::parse(name).ok()
    }

    /// Returns the URLs of the host's proxies with their logins. Errors: none has a login.
    fn proxies(self, sources: &AdmissionSources<'_>) -> Result<Admitted, AdmissionError> {
        if proxy_logins(sources.variable).is_empty() {
            let missing = "no proxy variable has a login";
            return Err(AdmissionError::Unnamed { admission: self, missing });
        }
        let variables = proxy_variables(ProxyLogin::Kept, sources.variable);
        Ok(Admitted { kind: None, variables, mount: None })
    }

    /// Returns its path in a container: the tools' default path if its directory is the tools' own,
    /// else a path that a variable names. A login has none.
    fn mounted_at(self) -> Option<&'static str> {
        Some(match self {
            // Some readers of it support no variable.
            Admission::Npmrc => "/home/coder/.npmrc",
            Admission::Cargo => "/home/coder/.cargo/credentials.toml",
            Admission::Pip => "/run/aifo-admitted/pip.conf",
            Admission::CaBundle => "/run/aifo-admitted/ca-bundle.pem",
            Admission::SshAgent => "/run/aifo-admitted/ssh-agent",
            Admission::ProxyLogin => return None,
        })
    }

    fn variables(self) -> &'static [&'static str] {
        match self {
            Admission::Npmrc | Admission::Cargo | Admission::ProxyLogin => &[],
            Admission::Pip => &["PIP_CONFIG_FILE"],
            Admission::CaBundle => &CERTIFICATE_VARIABLES,
            Admission::SshAgent => &["SSH_AUTH_SOCK"],
        }
    }

    /// Returns the first path that exists.
    fn found(self, sources: &AdmissionSources<'_>) -> Result<PathBuf, AdmissionError> {
        let candidates = self.candidates(sources);
        if let Some(missing) = self.unnamed().filter(|_| candidates.is_empty()) {
            return Err(AdmissionError::Unnamed { admission: self, missing });
        }
        candidates.iter().find(|path| path.exists()).cloned().ok_or_else(|| {
            let names: Vec<_> = candidates.iter().map(|it| format!("'{}'", it.display())).collect();
            AdmissionError::Missing { admission: self, searched: names.join(" and no ") }
        })
    }

    /// Returns the paths where the tools themselves look, in their order.
    fn candidates(self, sources: &AdmissionSources<'_>) -> Vec<PathBuf> {
        let named = |name: &str| {
            let value = (sources.variable)(name).map(PathBuf::from);
            value.filter(|path| path.is_absolute())
        };
        let home = |rest: &str| Some(named("HOME")?.join(rest));
        let one = |path: Option<PathBuf>| path.into_iter().collect();
        match self {
            Admission::Npmrc => one(named("NPM_CONFIG_USERCONFIG")
                .or_else(|| named("npm_config_userconfig"))
                .or_else(|| home(".npmrc"))),
            Admission::Pip => match named("PIP_CONFIG_FILE") {
                Some(path) => vec![path],
                None => {
                    let base = named("XDG_CONFIG_HOME").or_else(|| home(".config"));
                    let modern = base.map(|base| base.join("pip/pip.conf"));
                    modern.into_iter().chain(home(".pip/pip.conf")).collect()
                }
            },
            Admission::Cargo => {
                let base = named("CARGO_HOME").or_else(|| home(".cargo"));
                let names = ["credentials.toml", "credentials"];
                base.map(|base| names.map(|name| base.join(name)).to_vec()).unwrap_or_default()
            }
            Admission::CaBundle => {
                let named = || CERTIFICATE_VARIABLES.into_iter().find_map(named);
                let system = || sources.system_bundle.map(Path::to_owned);
                one(sources.ca_bundle.map(Path::to_owned).or_else(named).or_else(system))
            }
            Admission::SshAgent => one(named("SSH_AUTH_SOCK")),
            Admission::ProxyLogin => Vec::new(),
        }
    }

    /// Returns what is missing if there are no paths.
    fn unnamed(self) -> Option<&'static str> {
        Some(match self {
            Admission::ProxyLogin => return None,
            Admission::Npmrc | Admission::Pip | Admission::Cargo => "HOME is not set",
            Admission::CaBundle => {
                "neither ca_bundle nor a variable such as SSL_CERT_FILE gives its path"
            }
            Admission::SshAgent => "SSH_AUTH_SOCK is not set: no agent runs",
        })
    }

    /// Returns the real path, if type, owner and mode are right.
    fn checked(self, path: PathBuf) -> Result<PathBuf, AdmissionError> {
        let unsuitable = |path: &Path, fault: &str| AdmissionError::Unsuitable {
            admission: self,
            path: path.to_owned(),
            fault: fault.to_owned(),
        };
        let failed = |error: io::Error| unsuitable(&path, &format!("cannot be read: {error}"));
        let real = path.canonicalize().map_err(failed)?;
        let about = real.metadata().map_err(failed)?;
        let (fits, kind) = match self {
            Admission::SshAgent => (about.file_type().is_socket(), "is not a socket"),
            _ => (about.is_file(), "is not a file"),
        };
        // Certificates are public, and the system's belong to root.
        let owners: &[u32] = match self {
            Admission::CaBundle => &[getuid().as_raw(), 0],
            _ => &[getuid().as_raw()],
        };
        match () {
            () if !fits => Err(unsuitable(&real, kind)),
            () if !owners.contains(&about.uid()) => {
                Err(unsuitable(&real, "belongs to another user"))
            }
            // For a socket, the mode of its directory decides.
            () if about.is_file() && about.mode() & 0o002 != 0 => {
                Err(unsuitable(&real, "can be written by every user"))
            }
            () => Ok(real),
        }
    }
}

impl fmt::Display for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for AdmissionSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionSources")
            .field("ca_bundle", &self.ca_bundle)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    /// A temporary home, and the variables of a test.
    struct Home {
        path: PathBuf,
        variables: HashMap<&'static str, PathBuf>,
        _parent: TempDir,
    }

    impl Home {
        fn new() -> Self {
            let parent = tempfile::tempdir().unwrap();
            let path = parent.path().canonicalize().unwrap().join("home");
            fs::create_dir(&path).unwrap();
            Home { variables: HashMap::from([("HOME", path.clone())]), path, _parent: parent }
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "secret").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            path
        }

        fn admitted(&self, admission: Admission) -> Result<Admitted, String> {
            let variable = |name: &str| self.variables.get(name).map(OsString::from);
            let sources =
                AdmissionSources { variable: &variable, ca_bundle: None, system_bundle: None };
            admission.admitted(&sources).map_err(|error| error.to_string())
        }

        /// Returns the mounted path.
        fn source(&self, admission: Admission) -> Result<PathBuf, String> {
            match self.admitted(admission)?.mount {
                Some(Mount::Bind { from, read_only: true, .. }) => Ok(from),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn words() {
        for admission in Admission::ALL {
            assert_eq!(Admission::parse(admission.as_str()), Some(admission));
        }
        assert_eq!(Admission::parse("netrc"), None);
    }

    #[test]
    fn files_are_searched_where_their_tools_search() {
        let mut home = Home::new();
        let rows = [
            (Admission::Npmrc, ".npmrc", "NPM_CONFIG_USERCONFIG"),
            (Admission::Pip, ".config/pip/pip.conf", "PIP_CONFIG_FILE"),
            (Admission::Cargo, ".cargo/credentials.toml", "CARGO_HOME"),
        ];
        for (admission, usual, variable) in rows {
            let usual = home.file(usual, 0o600);
            assert_eq!(home.source(admission), Ok(usual.clone()));
            let named = home.file("else/credentials.toml", 0o600);
            let value = match admission {
                Admission::Cargo => named.parent().unwrap().to_owned(),
                _ => named.clone(),
            };
            home.variables.insert(variable, value);
            assert_eq!(home.source(admission), Ok(named), "{variable}");
        }
        home.variables.retain(|name, _| *name == "HOME");
        fs::remove_file(home.path.join(".config/pip/pip.conf")).unwrap();
        fs::remove_file(home.path.join(".cargo/credentials.toml")).unwrap();
        for (admission, older) in
            [(Admission::Pip, ".pip/pip.conf"), (Admission::Cargo, ".cargo/credentials")]
        {
            assert!(home.source(admission).unwrap_err().contains(older), "it is looked for");
            let older = home.file(older, 0o600);
            assert_eq!(home.source(admission), Ok(older));
        }
    }

    #[test]
    fn only_the_kind_that_uses_it_gets_it() {
        let home = Home::new();
        for name in [".npmrc", ".config/pip/pip.conf", ".cargo/credentials.toml"] {
            home.file(name, 0o600);
        }
        let kind = |admission| home.admitted(admission).unwrap().kind.map(|kind| kind.to_string());
        assert_eq!(kind(Admission::Npmrc).as_deref(), Some("node"));
        assert_eq!(kind(Admission::Pip).as_deref(), Some("python"));
        assert_eq!(kind(Admission::Cargo).as_deref(), Some("rust"));
    }

    #[test]
    fn missing_and_unsuitable_files_are_reported() {
        let mut home = Home::new();
        let npmrc = home.path.join(".npmrc");
        let error = |home: &Home, admission| home.source(admission).unwrap_err();
        let missing = format!("npmrc is admitted, but there is no '{}'", npmrc.display());
        assert_eq!(error(&home, Admission::Npmrc), missing);
        home.file(".npmrc", 0o666);
        assert!(error(&home, Admission::Npmrc).ends_with("can be written by every user"));
        fs::remove_file(&npmrc).unwrap();
        fs::create_dir(&npmrc).unwrap();
        assert!(error(&home, Admission::Npmrc).ends_with("is not a file"));
        fs::remove_dir(&npmrc).unwrap();
        assert!(error(&home, Admission::SshAgent).contains("SSH_AUTH_SOCK is not set"));
        assert!(
            error(&home, Admission::CaBundle)
                .contains("neither ca_bundle nor a variable such as SSL_CERT_FILE")
        );
        home.variables.insert("SSH_AUTH_SOCK", home.file("agent", 0o600));
        assert!(error(&home, Admission::SshAgent).ends_with("is not a socket"));
        assert!(error(&home, Admission::ProxyLogin).ends_with("no proxy variable has a login"));
    }

    #[test]
    fn the_login_of_a_proxy_is_admitted_in_its_variables() {
        let mut home = Home::new();
        home.variables.insert("https_proxy", "http://me:pw@proxy:1".into());
        home.variables.insert("no_proxy", "localhost".into());
        let Admitted { kind, mount, variables } = home.admitted(Admission::ProxyLogin).unwrap();
        assert_eq!((kind, mount), (None, None));
        let hidden = |name: &str, value: &str| (name.into(), Value::Hidden(value.into()));
        let expected =
            [hidden("https_proxy", "http://me:pw@proxy:1"), hidden("no_proxy", "localhost")];
        assert_eq!(variables, expected);
    }

    #[test]
    fn a_bundle_is_the_configured_the_environments_or_the_systems() {
        let mut home = Home::new();
        let [configured, named, system] =
            ["configured.pem", "named.pem", "system.pem"].map(|name| home.file(name, 0o644));
        let source = |home: &Home, ca_bundle: Option<&Path>, system_bundle: Option<&Path>| {
            let variable = |name: &str| home.variables.get(name).map(OsString::from);
            let sources = AdmissionSources { variable: &variable, ca_bundle, system_bundle };
            match Admission::CaBundle.admitted(&sources).ok()?.mount {
                Some(Mount::Bind { from, read_only: true, .. }) => Some(from),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(source(&home, None, None), None);
        assert_eq!(source(&home, None, Some(&system)), Some(system.clone()));
        home.variables.insert("GIT_SSL_CAINFO", named.clone());
        assert_eq!(source(&home, None, Some(&system)), Some(named));
        assert_eq!(source(&home, Some(&configured), Some(&system)), Some(configured.clone()));
    }

    #[test]
    fn an_agent_is_a_socket_and_links_are_resolved() {
        let mut home = Home::new();
        let socket = home.path.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let link = home.path.join("link");
        symlink(&socket, &link).unwrap();
        home.variables.insert("SSH_AUTH_SOCK", link);
        assert_eq!(home.source(Admission::SshAgent), Ok(socket));
        let variables = home.admitted(Admission::SshAgent).unwrap().variables;
        let inside = Value::Plain("/run/aifo-admitted/ssh-agent".into());
        assert_eq!(variables, [("SSH_AUTH_SOCK".into(), inside)]);
    }
}
