//! Sources of keys: a variable, a file, a command (`spec/keys.md#sources`).

use std::fs::File;
use std::future::Future;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use aifo_host::{TrustedPrograms, UserProgram};
use aifo_provider::{FreshKey, Key, KeySource, MAX_KEY};
use nix::{fcntl::OFlag, unistd::getuid};
use zeroize::Zeroizing;

/// Where the user has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of the launcher environment.
    Variable(String),
    /// A file of the user's, which no other user can read.
    File(PathBuf),
    /// A command that prints it.
    Command {
        /// The program and its arguments.
        words: Vec<String>,
        /// How long the key is used; `None` for the session.
        lifetime: Option<Duration>,
    },
}

impl SecretSource {
    /// Returns its name for the user.
    pub(crate) fn name(&self) -> String {
        match self {
            SecretSource::Variable(name) => name.clone(),
            SecretSource::File(path) => path.display().to_string(),
            SecretSource::Command { words, .. } => words.first().cloned().unwrap_or_default(),
        }
    }
}

/// Time limit of a command.
const COMMAND_TIME: Duration = Duration::from_secs(30);

/// A source, and the programs that may be started for it.
pub(crate) struct Reader {
    pub(crate) source: SecretSource,
    pub(crate) programs: TrustedPrograms,
}

impl KeySource for Reader {
    fn read(&self) -> Pin<Box<dyn Future<Output = Result<FreshKey, String>> + Send + '_>> {
        Box::pin(async move {
            let (text, lifetime) = match &self.source {
                SecretSource::Variable(name) => (of_variable(name)?, None),
                SecretSource::File(path) => {
                    let read = of_file(path);
                    let failed = |error| format!("'{}': {error}", path.display());
                    (read.map_err(failed)?, None)
                }
                SecretSource::Command { words, lifetime } => {
                    let program = UserProgram::new(words.clone(), &self.programs);
                    let failed = |error| format!("'{}': {error}", program.name());
                    (of_command(&program).await.map_err(failed)?, *lifetime)
                }
            };
            let key = Key::parse(&text).map_err(|error| error.to_string())?;
            Ok(FreshKey { key, lifetime })
        })
    }
}

async fn of_command(program: &UserProgram) -> Result<Zeroizing<String>, String> {
    match tokio::time::timeout(COMMAND_TIME, program.run("", MAX_KEY + 2)).await {
        Err(_) => Err(format!("timed out after {} s", COMMAND_TIME.as_secs())),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok((status, text))) if status.success() => utf8(text),
        Ok(Ok((status, _))) => Err(status.to_string()),
    }
}

fn of_variable(name: &str) -> Result<Zeroizing<String>, String> {
    let value = std::env::var(name).map_err(|_| format!("the variable '{name}' is not set"))?;
    Ok(Zeroizing::new(value))
}

/// Reads a file of the caller's that no other user can read, without following a link.
fn of_file(path: &Path) -> Result<Zeroizing<String>, String> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let mut file = opened.map_err(|error| match error.raw_os_error() {
        Some(nix::libc::ELOOP) => "it is a link".to_owned(),
        _ => error.to_string(),
    })?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if metadata.uid() != getuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if metadata.mode() & 0o077 != 0 {
        return Err("others can read or write it\nhint: change its mode to 0600".to_owned());
    }
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_KEY + 2));
    let read: io::Result<usize> = (&mut file).take(MAX_KEY as u64 + 2).read_to_end(&mut text);
    read.map_err(|error| error.to_string())?;
    utf8(text)
}

fn utf8(text: Zeroizing<Vec<u8>>) -> Result<Zeroizing<String>, String> {
    let valid = std::str::from_utf8(&text).map_err(|_| "it is not text".to_owned())?;
    Ok(Zeroizing::new(valid.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::agent_programs::trusted_programs_here;

    async fn read(source: SecretSource) -> Result<String, String> {
        let programs = trusted_programs_here().with_path("/usr/bin:/bin".into());
        let fresh = Reader { source, programs }.read().await?;
        Ok(format!("{:?}", fresh.lifetime))
    }

    #[tokio::test]
    async fn a_file_must_be_private() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("key");
        fs::write(&path, "sk-1\n").unwrap();
        let source = || SecretSource::File(path.clone());
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        read(source()).await.unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(read(source()).await.unwrap_err().contains("hint: change its mode to 0600"));
        let link = scratch.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(read(SecretSource::File(link)).await.unwrap_err().contains("it is a link"));
        let directory = scratch.path().to_owned();
        assert!(read(SecretSource::File(directory)).await.unwrap_err().contains("no regular file"));
    }

    #[tokio::test]
    async fn a_command_is_executed_without_a_shell() {
        let command = |words: &[&str]| {
            let words = words.iter().map(|&word| word.to_owned()).collect();
            SecretSource::Command { words, lifetime: Some(Duration::from_secs(9)) }
        };
        assert_eq!(read(command(&["printf", "%s\\n", "$HOME"])).await.unwrap(), "Some(9s)");
        for (words, reason) in [
            (&["false"][..], "exit status: 1"),
            (&["printf", "a b"], "a character that no key has"),
            (&["true"], "it is empty"),
            (&["no-such-program"], "no trusted program"),
            (&["bin/sh"], "neither a name nor an absolute path"),
        ] {
            let error = read(command(words)).await.unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let error = read(SecretSource::Variable("AIFO_NOT_SET".to_owned())).await.unwrap_err();
        assert_eq!(error, "the variable 'AIFO_NOT_SET' is not set");
    }
}
