//! A request that is ours to run, and its answer.

use std::fs::File;
use std::io::Write;

use nix::errno::Errno;

use crate::arguments::Arguments;
use crate::call::Call;
use crate::directory::{Directory, Unfit};
use crate::ending::{Ending, Reason};
use crate::limits;
use crate::liveness::Heart;
use crate::name::{Part, Stem};

/// A claimed request. Its answer is [`Claim::answer`]; dropped without one, its client is never told.
#[derive(Debug)]
pub struct Claim {
    stem: Stem,
    /// What the command prints goes here, and the position of each is ours alone.
    pub stdout: File,
    /// The same, for errors.
    pub stderr: File,
    exit: File,
}

/// What a client has placed.
#[derive(Debug)]
pub struct Placed {
    /// The arguments.
    pub arguments: Arguments,
    /// Where it is, as far as it says so.
    pub call: Call,
    /// Its standard input, if it has any.
    pub stdin: Option<File>,
    /// What says that it is there, if it does.
    pub heart: Option<Heart>,
}

/// Why there is nothing to run, and nobody to tell.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The client has taken it back, or another daemon has it.
    #[error("is gone")]
    Gone,
    /// It cannot be answered: something has the name of a file of its answer.
    #[error("cannot be answered: '{file}': {errno}")]
    Unanswerable {
        /// The file.
        file: String,
        /// What the system said.
        errno: Errno,
    },
}

/// A request that is not run, with the reason for its client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl Claim {
    /// Claims a request: of all who try, one succeeds, once.
    pub fn take(directory: &Directory, stem: &Stem) -> Result<Self, ClaimError> {
        match directory.rename(&stem.file(Part::Request), &stem.file(Part::Run)) {
            Ok(()) => {}
            Err(Errno::ENOENT) => return Err(ClaimError::Gone),
            Err(errno) => {
                let file = stem.file(Part::Run);
                return Err(ClaimError::Unanswerable { file, errno });
            }
        }
        let made = Self::make(directory, stem);
        if made.is_err() {
            remove_request(directory, stem);
        }
        made
    }

    /// Answers what a daemon before has claimed and not answered: nobody knows how it ended. What it
    /// printed stays.
    pub fn answer_lost(directory: &Directory, stem: &Stem) -> Result<(), ClaimError> {
        let file = stem.file(Part::ExitDraft);
        // Left by that daemon. Anything that cannot be removed fails the next step.
        let _ = directory.remove(&file);
        let exit =
            directory.create(&file).map_err(|errno| ClaimError::Unanswerable { file, errno })?;
        finish(directory, stem, &exit, Ending { code: UNKNOWN, reason: Some(Reason::Lost) });
        Ok(())
    }

    fn make(directory: &Directory, stem: &Stem) -> Result<Self, ClaimError> {
        let create = |part| {
            let file = stem.file(part);
            directory.create(&file).map_err(|errno| ClaimError::Unanswerable { file, errno })
        };
        let exit = create(Part::ExitDraft)?;
        let streams = create(Part::Stdout).and_then(|stdout| match create(Part::Stderr) {
            Ok(stderr) => Ok((stdout, stderr)),
            Err(error) => {
                let _ = directory.remove(&stem.file(Part::Stdout));
                Err(error)
            }
        });
        match streams {
            Ok((stdout, stderr)) => Ok(Claim { stem: stem.clone(), stdout, stderr, exit }),
            Err(error) => {
                // There is no place for words, but for the code.
                finish(
                    directory,
                    stem,
                    &exit,
                    Ending { code: UNKNOWN, reason: Some(Reason::Refused) },
                );
                Err(error)
            }
        }
    }

    /// Whose it is.
    pub fn stem(&self) -> &Stem {
        &self.stem
    }

    /// Reads what the client has placed. Errors are for the client.
    pub fn read(&self, directory: &Directory) -> Result<Placed, Refused> {
        let file = |part| self.stem.file(part);
        let refused = |what: &str, unfit: Unfit| Refused(format!("the {what} {unfit}"));
        let request = directory.read(&file(Part::Run), limits::REQUEST);
        let arguments = Arguments::parse(&request.map_err(|unfit| refused("request", unfit))?);
        let call = match directory.read(&file(Part::Call), limits::CALL) {
            Err(Unfit::Missing) => Call::default(),
            read => Call::parse(&read.map_err(|unfit| refused("request's .call", unfit))?),
        };
        let open = |part| match directory.open_plain(&file(part)) {
            Err(Unfit::Missing) => Ok(None),
            opened => opened.map(Some),
        };
        let stdin = open(Part::Stdin).map_err(|unfit| refused("request's .stdin", unfit))?;
        let alive = open(Part::Alive).map_err(|unfit| refused("request's .alive", unfit))?;
        Ok(Placed { arguments, call, stdin, heart: alive.map(Heart::new) })
    }

    /// Answers: what was printed must be in the files by now.
    pub fn answer(self, directory: &Directory, ending: Ending) {
        finish(directory, &self.stem, &self.exit, ending);
    }

    /// Answers that nothing ran, with a line that says why.
    pub fn refuse(mut self, directory: &Directory, code: u8, why: &str) {
        // A full disk keeps the reason from the client, and not the code.
        let _ = writeln!(self.stderr, "proxy: {why}");
        self.answer(directory, Ending { code, reason: Some(Reason::Refused) });
    }

    /// Removes everything of it: nobody is there to read an answer.
    pub fn forget(self, directory: &Directory) {
        for file in self.stem.files() {
            let _ = directory.remove(&file);
        }
    }
}

/// The exit code of what is not known, or was not run.
const UNKNOWN: u8 = aifo_types::exit::UNKNOWN;

/// The order counts: whoever sees the exit code finds everything else, and whoever is told of the
/// request's removal finds the exit code.
fn finish(directory: &Directory, stem: &Stem, mut exit: &File, ending: Ending) {
    if let Some(reason) = ending.reason {
        let file = directory.create(&stem.file(Part::Reason));
        let _ = file.map(|mut file| write!(file, "{reason}"));
    }
    let whole = write!(exit, "{}", ending.code).is_ok();
    // An exit code that is not whole is none. A directory in its place is the container's own doing.
    if whole {
        let _ = directory.rename(&stem.file(Part::ExitDraft), &stem.file(Part::Exit));
    } else {
        let _ = directory.remove(&stem.file(Part::ExitDraft));
    }
    remove_request(directory, stem);
}

fn remove_request(directory: &Directory, stem: &Stem) {
    for part in [Part::Run, Part::Call, Part::Stdin, Part::Eof, Part::Taken, Part::Signal] {
        // Most are not there.
        let _ = directory.remove(&stem.file(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::tests::Scratch;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn stem() -> Stem {
        Stem::of_file(b"make.1.req").unwrap().0
    }

    fn left(scratch: &Scratch) -> Vec<String> {
        let names = fs::read_dir(&scratch.0).unwrap();
        let mut names: Vec<_> =
            names.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn from_request_to_answer() {
        let scratch = Scratch::new();
        let directory = scratch.directory();
        let file = |name: &str| scratch.0.join(name);
        fs::write(file("make.1.req"), "build\0\0").unwrap();
        fs::write(file("make.1.call"), "cwd=/w\0").unwrap();
        fs::write(file("make.1.stdin"), "in").unwrap();
        let claim = Claim::take(&directory, &stem()).unwrap();
        assert!(matches!(Claim::take(&directory, &stem()), Err(ClaimError::Gone)));
        let placed = claim.read(&directory).unwrap();
        assert_eq!(placed.arguments.0, [b"build".to_vec(), b"".to_vec()]);
        assert_eq!(placed.call.cwd.as_deref(), Some(&b"/w"[..]));
        assert!(placed.stdin.is_some() && placed.heart.is_none());
        (&claim.stdout).write_all(b"out").unwrap();
        assert!(!file("make.1.exit").exists());
        claim.answer(&directory, Ending { code: 137, reason: Some(Reason::Signal(9)) });
        let read = |name: &str| fs::read_to_string(file(name)).unwrap();
        assert_eq!((read("make.1.exit"), read("make.1.reason")), ("137".into(), "signal 9".into()));
        assert_eq!(read("make.1.stdout"), "out");
        assert_eq!(
            left(&scratch),
            ["make.1.exit", "make.1.reason", "make.1.stderr", "make.1.stdout"]
        );
    }

    #[test]
    fn what_is_in_the_way_is_not_touched() {
        for part in ["stdout", "stderr", "exit.tmp"] {
            let scratch = Scratch::new();
            let outside = Scratch::new();
            let target = outside.0.join("target");
            fs::write(&target, "kept").unwrap();
            fs::write(scratch.0.join("make.1.req"), "").unwrap();
            let trap = format!("make.1.{part}");
            symlink(&target, scratch.0.join(&trap)).unwrap();
            let taken = Claim::take(&scratch.directory(), &stem());
            assert!(matches!(taken, Err(ClaimError::Unanswerable { .. })), "{part}");
            assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
            let expected = match part {
                "exit.tmp" => vec![trap],
                _ => vec!["make.1.exit".to_owned(), "make.1.reason".to_owned(), trap],
            };
            assert_eq!(left(&scratch), expected);
        }
    }

    #[test]
    fn nothing_but_plain_files_is_a_request() {
        let scratch = Scratch::new();
        let directory = scratch.directory();
        symlink("/etc/passwd", scratch.0.join("make.1.req")).unwrap();
        let claim = Claim::take(&directory, &stem()).unwrap();
        let refused = claim.read(&directory).unwrap_err();
        assert_eq!(refused.to_string(), "the request is not a plain file");
        claim.refuse(&directory, 125, &refused.to_string());
        let said = fs::read_to_string(scratch.0.join("make.1.stderr")).unwrap();
        assert_eq!(said, "proxy: the request is not a plain file\n");
        assert!(!scratch.0.join("make.1.run").is_symlink());

        fs::write(scratch.0.join("make.2.req"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
        let (stem, _) = Stem::of_file(b"make.2.req").unwrap();
        let claim = Claim::take(&directory, &stem).unwrap();
        let refused = claim.read(&directory).unwrap_err();
        assert_eq!(refused.to_string(), "the request is larger than 1 MiB");
        claim.forget(&directory);
        assert!(!left(&scratch).iter().any(|name| name.starts_with("make.2.")));
    }
}
