//! PID files. The PID is informative; the lock is authoritative.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;

use crate::mailbox::files::directory::{Directory, FileError};
use crate::mailbox::files::limits;
use crate::mailbox::files::name::{CommandName, command_of_pid_file, pid_file};

/// A locked PID file, the right to serve a command in a directory.
#[derive(Debug)]
pub(crate) struct PidFile {
    name: String,
    file: File,
    /// The PID in an unlocked file that was replaced, if there was one.
    pub stale: Option<String>,
}

/// Why a command cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PidFileError {
    /// Another daemon serves it.
    #[error("proxy for '{command}' already running (PID {pid})")]
    AlreadyRunning {
        /// The command.
        command: CommandName,
        /// The PID in the file.
        pid: String,
    },
    /// The file cannot be created.
    #[error("cannot create the PID file of '{command}': {source}")]
    System {
        /// The command.
        command: CommandName,
        /// The error.
        source: std::io::Error,
    },
}

impl PidFile {
    /// Creates and locks the file. Replaces one that is not locked.
    pub(crate) fn claim(
        directory: &Directory,
        command: &CommandName,
    ) -> Result<Self, PidFileError> {
        let name = pid_file(command);
        let system = |source| PidFileError::System { command: command.clone(), source };
        let mut stale = None;
        for _ in 0..ATTEMPTS {
            match try_lock(directory, &name).map_err(system)? {
                LockAttempt::Locked(mut file) => {
                    writeln!(file, "{}", std::process::id()).map_err(system)?;
                    return Ok(PidFile { name, file, stale });
                }
                LockAttempt::Removed(pid) => stale = pid.or(stale),
                LockAttempt::Held(pid) => {
                    // Another process may only be testing the lock.
                    sleep(RECHECK_DELAY);
                    if let LockAttempt::Held(again) = try_lock(directory, &name).map_err(system)? {
                        let pid = if again.is_empty() { pid } else { again };
                        return Err(PidFileError::AlreadyRunning { command: command.clone(), pid });
                    }
                }
            }
        }
        Err(system(Errno::EAGAIN.into()))
    }

    /// Removes the file if it still has its name.
    pub(crate) fn remove(self, directory: &Directory) {
        if directory.is_named(&self.file, &self.name) {
            // A file that cannot be removed is stale from now on.
            let _ = directory.remove(&self.name);
        }
    }
}

/// Returns the commands whose PID files are locked.
pub(crate) fn served_commands(directory: &Directory) -> Vec<CommandName> {
    let mut commands = Vec::new();
    let listed = directory.for_each_name(|name| commands.extend(command_of_pid_file(name)));
    if listed.is_err() {
        commands.clear();
    }
    commands.retain(|command| is_held(directory, &pid_file(command)));
    commands
}

fn is_held(directory: &Directory, name: &str) -> bool {
    let file = directory.open_regular(name);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// The result of one attempt.
enum LockAttempt {
    /// A new file was created and locked.
    Locked(File),
    /// An unlocked file was removed. Holds its PID.
    Removed(Option<String>),
    /// Another process holds the lock. Holds its PID.
    Held(String),
}

fn try_lock(directory: &Directory, name: &str) -> std::io::Result<LockAttempt> {
    let (file, is_new) = match directory.open_regular_read_write(name) {
        Ok(file) => (file, false),
        Err(FileError::Missing) => match directory.create_read_write(name) {
            Ok(file) => (file, true),
            // Another process created it meanwhile: look again.
            Err(Errno::EEXIST) => return Ok(LockAttempt::Removed(None)),
            Err(errno) => return Err(errno.into()),
        },
        // Not a regular file, so no daemon's.
        Err(_) => {
            directory.remove(name)?;
            return Ok(LockAttempt::Removed(None));
        }
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(LockAttempt::Held(pid_text(&file))),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if !directory.is_named(&file, name) {
        // It was replaced between open and lock.
        return Ok(LockAttempt::Removed(None));
    }
    if is_new {
        return Ok(LockAttempt::Locked(file));
    }
    let pid = pid_text(&file);
    directory.remove(name)?;
    Ok(LockAttempt::Removed(Some(pid)))
}

/// Returns the number in the file, or `unknown`: its content is not trusted.
fn pid_text(mut file: &File) -> String {
    let mut text = String::new();
    let _ = file.seek(SeekFrom::Start(0));
    let _ = file.take(limits::SIGNAL).read_to_string(&mut text);
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.to_owned() } else { "unknown".to_owned() }
}

const ATTEMPTS: usize = 16;
/// Longer than testing a lock takes.
const RECHECK_DELAY: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::files::directory::tests::Scratch;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn make() -> CommandName {
        CommandName::parse(b"make").unwrap()
    }

    #[test]
    fn a_command_has_one_daemon() {
        let scratch = Scratch::new();
        let directory = scratch.directory();
        let held = PidFile::claim(&directory, &make()).unwrap();
        let own = std::process::id().to_string();
        assert_eq!(fs::read_to_string(scratch.path().join("make.pid")).unwrap().trim(), own);
        let again = PidFile::claim(&directory, &make()).unwrap_err().to_string();
        assert_eq!(again, format!("proxy for 'make' already running (PID {own})"));
        let docker = PidFile::claim(&directory, &CommandName::parse(b"docker").unwrap()).unwrap();
        fs::write(scratch.path().join("old.pid"), "1").unwrap();
        let mut served = served_commands(&directory);
        served.sort();
        assert_eq!(served.iter().map(CommandName::as_str).collect::<Vec<_>>(), ["docker", "make"]);
        held.remove(&directory);
        docker.remove(&directory);
        assert!(served_commands(&directory).is_empty());
        assert!(!scratch.path().join("make.pid").exists());
        assert!(PidFile::claim(&directory, &make()).unwrap().stale.is_none());
    }

    #[test]
    fn an_unlocked_file_is_replaced() {
        let scratch = Scratch::new();
        let outside = Scratch::new();
        let directory = scratch.directory();
        let (file, target) = (scratch.path().join("make.pid"), outside.path().join("target"));
        fs::write(&file, "99999\n").unwrap();
        assert_eq!(PidFile::claim(&directory, &make()).unwrap().stale.as_deref(), Some("99999"));
        fs::write(&file, "\x1b[2J").unwrap();
        assert_eq!(PidFile::claim(&directory, &make()).unwrap().stale.as_deref(), Some("unknown"));

        fs::write(&target, "kept").unwrap();
        fs::remove_file(&file).unwrap();
        symlink(&target, &file).unwrap();
        drop(PidFile::claim(&directory, &make()).unwrap());
        fs::remove_file(&file).unwrap();
        fs::hard_link(&target, &file).unwrap();
        drop(PidFile::claim(&directory, &make()).unwrap());
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(PidFile::claim(&directory, &make()).is_err());
    }
}
