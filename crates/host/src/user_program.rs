//! Programs that the user has configured (`spec/trust.md#programs-of-the-user`).

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Command,
};
use zeroize::Zeroizing;

use crate::trusted::TrustedPrograms;

/// A program of the user with its arguments, which an agent can neither replace nor lead astray.
#[derive(Clone, Debug)]
pub struct UserProgram {
    words: Vec<String>,
    programs: TrustedPrograms,
}

impl UserProgram {
    /// A name that is searched in PATH, or an absolute path, and arguments. `programs` are trusted.
    pub fn new(words: Vec<String>, programs: &TrustedPrograms) -> Self {
        UserProgram { words, programs: programs.clone() }
    }

    /// Returns the program's first word.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Returns the program's file. Errors: why it is not started.
    pub fn file(&self) -> Result<PathBuf, &'static str> {
        let name = self.name();
        match name.contains('/') || name.is_empty() {
            true => self.programs.file(Path::new(name)),
            false => {
                let found = self.programs.program(name);
                found.map_err(|_| "no trusted program of this name is in PATH")
            }
        }
    }

    /// Runs the program with this input, and returns its status and the first `max_output` bytes that it
    /// prints; with 0 its output is not read. Dropping the future kills it. Errors: as of
    /// [`UserProgram::file`], or of starting it.
    ///
    /// It starts without a shell, in `/`, with the trusted entries of PATH: programs load code from their
    /// directory and find others in PATH, and an agent may write to both.
    pub async fn run(
        &self,
        input: &str,
        max_output: usize,
    ) -> io::Result<(ExitStatus, Zeroizing<Vec<u8>>)> {
        let pipe_if = |needed| if needed { Stdio::piped() } else { Stdio::null() };
        let mut child = Command::new(self.file().map_err(io::Error::other)?)
            .args(self.words.iter().skip(1))
            .env("PATH", self.programs.path())
            .env("PWD", "/")
            .current_dir("/")
            .stdin(pipe_if(!input.is_empty()))
            .stdout(pipe_if(max_output > 0))
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read it may still do its work.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let mut output = Zeroizing::new(Vec::with_capacity(max_output));
        if let Some(stdout) = child.stdout.take() {
            stdout.take(max_output as u64).read_to_end(&mut output).await?;
        }
        Ok((child.wait().await?, output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(words: &[&str], input: &str, max_output: usize) -> io::Result<(bool, String)> {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let path =
            std::env::join_paths([Path::new("bin"), Path::new("/usr/bin"), Path::new("/bin")]);
        let programs = TrustedPrograms::for_workspace(Path::new("."), &[]).with_path(path.unwrap());
        let (status, output) = UserProgram::new(words, &programs).run(input, max_output).await?;
        Ok((status.success(), String::from_utf8_lossy(&output).into_owned()))
    }

    #[tokio::test]
    async fn a_program_starts_away_from_the_workspace() {
        let script = "pwd; echo \"$PWD $PATH\"; cat";
        let expected = "/\n/ /usr/bin:/bin\nasked\n";
        let (ok, output) = run(&["/bin/sh", "-c", script], "asked\n", 1024).await.unwrap();
        assert_eq!((ok, output.as_str()), (true, expected));
        assert_eq!(run(&["printf", "%s", "$HOME"], "", 3).await.unwrap(), (true, "$HO".to_owned()));
        assert_eq!(run(&["false"], "not read", 0).await.unwrap(), (false, String::new()));
        for (name, why) in [
            ("", "neither a name nor an absolute path"),
            ("./bin/sh", "neither a name nor an absolute path"),
            ("no-such-program", "no trusted program of this name"),
            (concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "not an executable file"),
        ] {
            let error = run(&[name], "", 0).await.unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
    }
}
