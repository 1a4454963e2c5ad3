//! Claiming and answering a request.

use std::fs::File;
use std::io::Write;

use nix::errno::Errno;

use crate::mailbox::files::arguments::Arguments;
use crate::mailbox::files::caller_info::CallerInfo;
use crate::mailbox::files::command_exit::{CommandExit, ExitReason};
use crate::mailbox::files::directory::{Directory, FileError};
use crate::mailbox::files::limits;
use crate::mailbox::files::liveness::HeartbeatFile;
use crate::mailbox::files::name::{FileKind, RequestId};

/// A claimed request. End it with [`Claim::answer`]; if it is dropped, the client gets no answer.
#[derive(Debug)]
pub(crate) struct Claim {
    id: RequestId,
    /// Receives the command output.
    pub stdout: File,
    /// Receives the command's error output.
    pub stderr: File,
    exit: File,
}

/// The client files of a request.
#[derive(Debug)]
pub(crate) struct ClientFiles {
    /// The arguments.
    pub arguments: Arguments,
    /// The caller directory and variables.
    pub caller: CallerInfo,
    /// Standard input, if there is any.
    pub stdin: Option<File>,
    /// The client's liveness file, if there is one.
    pub heartbeat: Option<HeartbeatFile>,
}

/// A request cannot be claimed, nor answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClaimError {
    /// The client has withdrawn it, or another daemon has claimed it.
    #[error("was withdrawn or claimed")]
    Gone,
    /// The name of an answer file is taken.
    #[error("cannot be answered: '{file}': {errno}")]
    Unanswerable {
        /// The file name.
        file: String,
        /// The error.
        errno: Errno,
    },
}

/// Why a request is refused; the text is for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidRequest(pub String);

impl Claim {
    /// Claims a request. At most one claim of a request succeeds.
    pub(crate) fn acquire(directory: &Directory, id: &RequestId) -> Result<Self, ClaimError> {
        match directory.rename(&id.file(FileKind::Request), &id.file(FileKind::Run)) {
            Ok(()) => {}
            Err(Errno::ENOENT) => return Err(ClaimError::Gone),
            Err(errno) => {
                let file = id.file(FileKind::Run);
                return Err(ClaimError::Unanswerable { file, errno });
            }
        }
        let made = Self::make(directory, id);
        if made.is_err() {
            remove_request(directory, id);
        }
        made
    }

    /// Answers a request that a former daemon claimed and did not answer. Its exit status is
    /// unknown; its output stays.
    pub(crate) fn answer_lost(directory: &Directory, id: &RequestId) -> Result<(), ClaimError> {
        let file = id.file(FileKind::ExitDraft);
        // A leftover of that daemon. If it cannot be removed, create fails.
        let _ = directory.remove(&file);
        let exit =
            directory.create(&file).map_err(|errno| ClaimError::Unanswerable { file, errno })?;
        finish(directory, id, &exit, CommandExit { code: UNKNOWN, reason: Some(ExitReason::Lost) });
        Ok(())
    }

    fn make(directory: &Directory, id: &RequestId) -> Result<Self, ClaimError> {
        let create = |kind| {
            let file = id.file(kind);
            directory.create(&file).map_err(|errno| ClaimError::Unanswerable { file, errno })
        };
        let exit = create(FileKind::ExitDraft)?;
        let streams = create(FileKind::Stdout).and_then(|stdout| match create(FileKind::Stderr) {
            Ok(stderr) => Ok((stdout, stderr)),
            Err(error) => {
                let _ = directory.remove(&id.file(FileKind::Stdout));
                Err(error)
            }
        });
        match streams {
            Ok((stdout, stderr)) => Ok(Claim { id: id.clone(), stdout, stderr, exit }),
            Err(error) => {
                // No file can hold a message; the exit code can still be written.
                finish(
                    directory,
                    id,
                    &exit,
                    CommandExit { code: UNKNOWN, reason: Some(ExitReason::Refused) },
                );
                Err(error)
            }
        }
    }

    /// The request id.
    pub(crate) fn id(&self) -> &RequestId {
        &self.id
    }

    /// Reads the client files. The error is for the client.
    pub(crate) fn read(&self, directory: &Directory) -> Result<ClientFiles, InvalidRequest> {
        let file = |kind| self.id.file(kind);
        let refused = |what: &str, error: FileError| InvalidRequest(format!("the {what} {error}"));
        let request = directory.read(&file(FileKind::Run), limits::REQUEST);
        let arguments = Arguments::parse(&request.map_err(|error| refused("request", error))?);
        let caller = match directory.read(&file(FileKind::Call), limits::CALL) {
            Err(FileError::Missing) => CallerInfo::default(),
            read => CallerInfo::parse(&read.map_err(|error| refused("request's .call", error))?),
        };
        let open = |kind| match directory.open_regular(&file(kind)) {
            Err(FileError::Missing) => Ok(None),
            opened => opened.map(Some),
        };
        let stdin = open(FileKind::Stdin).map_err(|error| refused("request's .stdin", error))?;
        let alive = open(FileKind::Alive).map_err(|error| refused("request's .alive", error))?;
        Ok(ClientFiles { arguments, caller, stdin, heartbeat: alive.map(HeartbeatFile::new) })
    }

    /// Writes the answer. The output files must be complete.
    pub(crate) fn answer(self, directory: &Directory, ending: CommandExit) {
        finish(directory, &self.id, &self.exit, ending);
    }

    /// Answers that nothing ran, with a message on the command's stderr.
    pub(crate) fn refuse(mut self, directory: &Directory, code: u8, why: &str) {
        // On a full disk the message is lost, but not the exit code.
        let _ = writeln!(self.stderr, "proxy: {why}");
        self.answer(directory, CommandExit { code, reason: Some(ExitReason::Refused) });
    }

    /// Removes all files of the request without an answer, after its client was lost.
    pub(crate) fn discard(self, directory: &Directory) {
        for file in self.id.files() {
            let _ = directory.remove(&file);
        }
    }
}

/// Exit code if nothing ran or the status is unknown.
const UNKNOWN: u8 = aifo_types::exit::UNKNOWN;

/// Writes the exit files, then removes the request. A client that sees the exit code finds the
/// other files complete, and one that watches the request finds the exit code.
fn finish(directory: &Directory, id: &RequestId, mut exit: &File, ending: CommandExit) {
    if let Some(reason) = ending.reason {
        let file = directory.create(&id.file(FileKind::Reason));
        let _ = file.map(|mut file| write!(file, "{reason}"));
    }
    let whole = write!(exit, "{}", ending.code).is_ok();
    // A partial exit code must not appear. A directory of that name is left alone.
    if whole {
        let _ = directory.rename(&id.file(FileKind::ExitDraft), &id.file(FileKind::Exit));
    } else {
        let _ = directory.remove(&id.file(FileKind::ExitDraft));
    }
    remove_request(directory, id);
}

fn remove_request(directory: &Directory, id: &RequestId) {
    for kind in [
        FileKind::Run,
        FileKind::Call,
        FileKind::Stdin,
        FileKind::Eof,
        FileKind::Taken,
        FileKind::Signal,
    ] {
        // Most do not exist.
        let _ = directory.remove(&id.file(kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::files::directory::tests::Scratch;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn id() -> RequestId {
        RequestId::of_file(b"make.1.req").unwrap().0
    }

    fn file_names(scratch: &Scratch) -> Vec<String> {
        let names = fs::read_dir(scratch.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_request_is_claimed_and_answered() {
        let scratch = Scratch::new();
        let directory = scratch.directory();
        let file = |name: &str| scratch.path().join(name);
        fs::write(file("make.1.req"), "build\0\0").unwrap();
        fs::write(file("make.1.call"), "cwd=/w\0").unwrap();
        fs::write(file("make.1.stdin"), "in").unwrap();
        let claim = Claim::acquire(&directory, &id()).unwrap();
        assert!(matches!(Claim::acquire(&directory, &id()), Err(ClaimError::Gone)));
        let placed = claim.read(&directory).unwrap();
        assert_eq!(placed.arguments.0, [b"build".to_vec(), b"".to_vec()]);
        assert_eq!(placed.caller.cwd.as_deref(), Some(&b"/w"[..]));
        assert!(placed.stdin.is_some() && placed.heartbeat.is_none());
        (&claim.stdout).write_all(b"out").unwrap();
        assert!(!file("make.1.exit").exists());
        claim.answer(&directory, CommandExit { code: 137, reason: Some(ExitReason::Signal(9)) });
        let read = |name: &str| fs::read_to_string(file(name)).unwrap();
        assert_eq!((read("make.1.exit"), read("make.1.reason")), ("137".into(), "signal 9".into()));
        assert_eq!(read("make.1.stdout"), "out");
        assert_eq!(
            file_names(&scratch),
            ["make.1.exit", "make.1.reason", "make.1.stderr", "make.1.stdout"]
        );
    }

    #[test]
    fn existing_answer_files_are_not_changed() {
        for kind in ["stdout", "stderr", "exit.tmp"] {
            let scratch = Scratch::new();
            let outside = Scratch::new();
            let target = outside.path().join("target");
            fs::write(&target, "kept").unwrap();
            fs::write(scratch.path().join("make.1.req"), "").unwrap();
            let trap = format!("make.1.{kind}");
            symlink(&target, scratch.path().join(&trap)).unwrap();
            let taken = Claim::acquire(&scratch.directory(), &id());
            assert!(matches!(taken, Err(ClaimError::Unanswerable { .. })), "{kind}");
            assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
            let expected = match kind {
                "exit.tmp" => vec![trap],
                _ => vec!["make.1.exit".to_owned(), "make.1.reason".to_owned(), trap],
            };
            assert_eq!(file_names(&scratch), expected);
        }
    }

    #[test]
    fn requests_must_be_regular_files_within_the_limit() {
        let scratch = Scratch::new();
        let directory = scratch.directory();
        symlink("/etc/passwd", scratch.path().join("make.1.req")).unwrap();
        let claim = Claim::acquire(&directory, &id()).unwrap();
        let refused = claim.read(&directory).unwrap_err();
        assert_eq!(refused.to_string(), "the request is not a regular file");
        claim.refuse(&directory, 125, &refused.to_string());
        let said = fs::read_to_string(scratch.path().join("make.1.stderr")).unwrap();
        assert_eq!(said, "proxy: the request is not a regular file\n");
        assert!(!scratch.path().join("make.1.run").is_symlink());

        fs::write(scratch.path().join("make.2.req"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
        let (id, _) = RequestId::of_file(b"make.2.req").unwrap();
        let claim = Claim::acquire(&directory, &id).unwrap();
        let refused = claim.read(&directory).unwrap_err();
        assert_eq!(refused.to_string(), "the request is larger than 1 MiB");
        claim.discard(&directory);
        assert!(!file_names(&scratch).iter().any(|name| name.starts_with("make.2.")));
    }
}
