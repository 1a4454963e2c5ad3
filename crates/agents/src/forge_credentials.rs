//! Credentials for forges, where users have them (`spec/forges.md#forges`).

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use aifo_host::{TrustedPrograms, UserProgram};
use aifo_provider::{ForgeForm, FreshKey, Key, KeySource, MAX_KEY, UpstreamUrl};
use tokio::time::timeout;

use crate::keys::{Reader, SecretSource};

/// Time for a program that nobody named.
const TIME: Duration = Duration::from_secs(5);

/// Output of git, with room for other members.
const MAX_OUTPUT: usize = MAX_KEY + 4096;

/// Finds what gh or a credential helper of git's has for this URL. Returns it with its name for the user.
pub(crate) async fn find(
    url: &UpstreamUrl,
    form: ForgeForm,
    programs: &TrustedPrograms,
) -> Option<(Box<dyn KeySource>, String)> {
    let host = url.host_name();
    let words = ["gh", "auth", "token", "--hostname", &host].map(str::to_owned).to_vec();
    let source = SecretSource::Command { words, lifetime: None };
    let of_gh = Reader { source, programs: programs.clone() };
    if form == ForgeForm::GitHub && has_one(&of_gh).await {
        return Some((Box::new(of_gh), "gh".to_owned()));
    }
    let of_git = GitHelper { url: url.to_string(), programs: programs.clone() };
    let name = "git's credential helper".to_owned();
    has_one(&of_git).await.then(|| (Box::new(of_git) as Box<dyn KeySource>, name))
}

async fn has_one(source: &impl KeySource) -> bool {
    matches!(timeout(TIME, source.read()).await, Ok(Ok(_)))
}

/// The helpers that the user's git is configured with. They are asked without a terminal.
struct GitHelper {
    url: String,
    programs: TrustedPrograms,
}

/// Nobody is asked, neither on a terminal nor in a window.
const WORDS: [&str; 7] = [
    "env",
    "GIT_TERMINAL_PROMPT=0",
    "GIT_ASKPASS=/bin/false",
    "GCM_INTERACTIVE=never",
    "git",
    "credential",
    "fill",
];

impl KeySource for GitHelper {
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>> {
        Box::pin(async move {
            let program = UserProgram::new(WORDS.map(str::to_owned).to_vec(), &self.programs);
            let asked = format!("url={}\n\n", self.url);
            let run = timeout(TIME, program.run(&asked, MAX_OUTPUT));
            let none = || "git has no credential for it".to_owned();
            let (_, text) = run.await.map_err(|_| none())?.map_err(|error| error.to_string())?;
            let text = std::str::from_utf8(&text).map_err(|_| none())?;
            let password = text.lines().find_map(|line| line.strip_prefix("password="));
            let key = Key::parse(password.ok_or_else(none)?).map_err(|error| error.to_string())?;
            Ok(FreshKey { key, lifetime: None })
        })
    }
}
