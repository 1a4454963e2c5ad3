//! A runner that this test drives itself, as a harness does.
//!
//! Proves `spec/sandbox.md#programs`, `spec/sandbox.md#users` and `spec/sandbox.md#files`.

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use aifo_process::{SendMode, receive_with_fds, send_with_fds};
use aifo_types::{Ending, ExecId, ExecRequest, ToolName};
use aifo_wire::{
    FileAccess, Frame, FrameReader, Program, Setup, Start, StartError, StartErrorCause,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;

/// A runner, and the connection to it.
struct Runner {
    process: Child,
    control: UnixStream,
    frames: FrameReader,
    fds: Vec<OwnedFd>,
    serial: u32,
}

type Texts<'a> = &'a [&'a [u8]];

/// A call; every text is any bytes.
#[derive(Default)]
struct Call<'a> {
    args: Texts<'a>,
    cwd: &'a str,
    env: Texts<'a>,
    user: Option<&'a str>,
}

impl Runner {
    fn start() -> Self {
        let (control, theirs) = UnixStream::pair().unwrap();
        let stdin = Stdio::from(OwnedFd::from(theirs));
        // The name selects the binary's program.
        let mut command = Command::new(env!("CARGO_BIN_EXE_aifo-shim"));
        let process = command.arg0("aifo-runner").arg("serve").stdin(stdin).spawn().unwrap();
        let mut runner =
            Runner { process, control, frames: FrameReader::new(), fds: Vec::new(), serial: 0 };
        let workspace = vec![b"/".to_vec()];
        let setup = Setup { workspace, tmp: Vec::new(), kind: "sandbox".to_owned() };
        runner.send(&Frame::Setup(setup), &[]);
        assert!(matches!(
            runner.receive(|frame| format!("{frame:?}")).as_str(),
            "Hello { version: 9 }"
        ));
        runner
    }

    fn send(&mut self, frame: &Frame<'_>, fds: &[&OwnedFd]) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        let sent = send_with_fds(self.control.as_fd(), &bytes, &fds, SendMode::Blocking).unwrap();
        self.control.write_all(&bytes[sent..]).unwrap();
    }

    fn receive<T>(&mut self, take: impl FnOnce(Frame<'_>) -> T) -> T {
        loop {
            if let Some(frame) = self.frames.next_frame().unwrap() {
                return take(frame);
            }
            let mut readable = [PollFd::new(self.control.as_fd(), PollFlags::POLLIN)];
            poll(&mut readable, PollTimeout::NONE).unwrap();
            let mut bytes = [0; 4096];
            let received = receive_with_fds(self.control.as_fd(), &mut bytes, 1).unwrap();
            assert!(received.bytes > 0, "the runner has ended");
            self.frames.receive(&bytes[..received.bytes]);
            self.fds.extend(received.fds);
        }
    }

    /// Runs a call, and returns its exit code and output.
    fn run(&mut self, call: &Call<'_>) -> Result<(u8, String), StartError> {
        self.serial += 1;
        let (name, args) = call.args.split_first().unwrap();
        let owned = |texts: &[&[u8]]| texts.iter().map(|text| text.to_vec()).collect::<Vec<_>>();
        let id = ExecId::parse(self.serial.to_string().as_bytes()).unwrap();
        let mut request = ExecRequest {
            program: Some(name.to_vec()),
            args: owned(args),
            cwd: Some(call.cwd).filter(|cwd| !cwd.is_empty()).map(|cwd| cwd.into()),
            ..ExecRequest::new(id, ToolName::parse(b"program").unwrap())
        };
        request.inherited.environment = owned(call.env);
        let mut start = Start::new(request);
        start.set_serial(self.serial);
        start.program = Program::AsCalled;
        start.user = call.user.map(|user| user.as_bytes().to_vec());
        let (mut output, writer) = std::io::pipe().unwrap();
        let writer = OwnedFd::from(writer);
        self.send(&Frame::Start(Box::new(start)), &[&writer]);
        drop(writer);
        let ended = loop {
            let ended = self.receive(|frame| match frame {
                Frame::Started { .. } => None,
                Frame::Exit { exit, .. } => Some(Ok(exit.ending)),
                Frame::StartError { error, .. } => Some(Err(error)),
                frame => panic!("{frame:?}"),
            });
            if let Some(ended) = ended {
                break ended;
            }
        };
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        match ended? {
            Ending::Exited(code) => Ok((code, text)),
            Ending::Signaled(signal) => panic!("ended by {signal}: {text}"),
        }
    }

    fn open(&mut self, access: FileAccess, user: Option<&str>, path: &Path) -> Result<File, Errno> {
        self.serial += 1;
        let user = user.map(|user| user.as_bytes().to_vec());
        let path = path.as_os_str().as_encoded_bytes().to_vec();
        self.send(&Frame::OpenFile { serial: self.serial, access, user, path }, &[]);
        let errno = self.receive(|frame| match frame {
            Frame::File { errno, .. } => errno,
            frame => panic!("{frame:?}"),
        });
        match errno {
            0 => Ok(File::from(self.fds.remove(0))),
            errno => Err(Errno::from_raw(errno.cast_signed())),
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // The end of the connection ends it, and all that it has started.
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        let _ = self.process.wait();
    }
}

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().to_str().unwrap();
    let script = scratch.path().join("x");
    fs::write(&script, "#!/bin/sh\necho \"$0\"\n").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    fs::write(scratch.path().join("plain"), "").unwrap();
    let path = format!("PATH={dir}:/usr/bin:/bin").into_bytes();
    let mut runner = Runner::start();
    let mut run = |args: Texts<'_>, env: Texts<'_>| {
        let ended = runner.run(&Call { args, cwd: dir, env, ..Call::default() });
        ended.map_err(|error| error.cause)
    };
    assert_eq!(run(&[b"./x"], &[]), Ok((0, "./x\n".to_owned())));
    assert_eq!(run(&[b"x"], &[&path]), Ok((0, format!("{dir}/x\n"))));
    let every_byte: Vec<u8> = (1..=255).collect();
    assert_eq!(
        run(&[b"sh", b"-c", b"exit ${#1}", b"sh", &every_byte], &[b"LC_ALL=C"]).map(|it| it.0),
        Ok(255)
    );
    let long = vec![b'x'; 1 << 20];
    let refused: [(Texts<'_>, Texts<'_>, StartErrorCause); 9] = [
        (&[b"x"], &[], StartErrorCause::Absent),
        (&[b""], &[], StartErrorCause::Absent),
        (&[b"plain"], &[&path], StartErrorCause::NotExecutable),
        (&[b"./plain"], &[], StartErrorCause::NotExecutable),
        (&[b"./none"], &[], StartErrorCause::NotFound),
        (&[b"true", b"a\0"], &[], StartErrorCause::Failed),
        (&[b"./x\0"], &[], StartErrorCause::NotFound),
        (&[b"true"], &[b"A=\0"], StartErrorCause::Failed),
        (&[b"true", &long], &[], StartErrorCause::NotExecutable),
    ];
    for (args, env, cause) in refused {
        assert_eq!(run(args, env), Err(cause), "{:?}", args[0].escape_ascii());
    }
    assert_eq!(run(&[b"true"], &[b"no variable"]), Ok((0, String::new())));
}

#[test]
fn a_user_has_its_own_rights() {
    let mut runner = Runner::start();
    let whoami =
        |user| Call { args: &[b"sh", b"-c", b"id -u; echo $HOME"], user, ..Call::default() };
    let own = geteuid().to_string();
    let (code, output) = runner.run(&whoami(Some(&own))).unwrap();
    assert_eq!((code, output.lines().next()), (0, Some(own.as_str())));
    let error = runner.run(&whoami(Some("no-such-user"))).unwrap_err();
    assert_eq!(error.cause, StartErrorCause::User);
    assert_eq!(error.message, "no user 'no-such-user' in /etc/passwd");
    if !geteuid().is_root() {
        let error = runner.run(&whoami(Some("0"))).unwrap_err();
        assert_eq!(error.cause, StartErrorCause::User);
        return;
    }
    let other = runner.run(&whoami(Some("47110:47111"))).unwrap();
    assert_eq!(other, (0, "47110\n/\n".to_owned()));
    let script = b"id -g; id -G; grep -E '^CapEff' /proc/self/status; cat /proc/$PPID/environ 2>&1 | head -c 9";
    let call = Call { args: &[b"sh", b"-c", script], user: Some("47110:47111"), ..Call::default() };
    let (_, output) = runner.run(&call).unwrap();
    assert!(output.starts_with("47111\n47111\nCapEff:\t0000000000000000\ncat: /pro"), "{output}");
    // A program of the user may signal its own processes only.
    let all = Call {
        args: &[b"sh", b"-c", b"kill -9 -1; echo left"],
        user: Some("47110"),
        ..Call::default()
    };
    assert_eq!(runner.run(&all).unwrap(), (0, "left\n".to_owned()));
    assert_eq!(runner.run(&whoami(None)).unwrap().0, 0);
}

#[test]
fn files_are_opened_with_the_rights_of_their_user() {
    let scratch = tempfile::tempdir().unwrap();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
    let path = scratch.path().join("a/b/file");
    let mut runner = Runner::start();
    runner.open(FileAccess::Write, None, &path).unwrap().write_all(b"text").unwrap();
    let mut text = String::new();
    runner.open(FileAccess::Read, None, &path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
    let errors = [
        (scratch.path().join("none"), Errno::ENOENT),
        (path.join("below"), Errno::ENOTDIR),
        (scratch.path().join("x".repeat(300)), Errno::ENAMETOOLONG),
        (Path::new("a\0b").to_owned(), Errno::EINVAL),
    ];
    for (path, errno) in errors {
        let opened = runner.open(FileAccess::Read, None, &path).map(drop);
        assert_eq!(opened, Err(errno), "{}", path.display());
    }
    assert_eq!(
        runner.open(FileAccess::Read, Some("no-such-user"), &path).map(drop),
        Err(Errno::EINVAL)
    );
    // A FIFO without another end does not hold up the runner.
    let fifo = scratch.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    runner.open(FileAccess::Read, None, &fifo).unwrap();
    assert_eq!(runner.open(FileAccess::Write, None, &fifo).map(drop), Err(Errno::ENXIO));
    if !geteuid().is_root() {
        return;
    }
    let user = Some("47110:47111");
    let own = scratch.path().join("own");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(47110), Some(47111)).unwrap();
    let made = runner.open(FileAccess::Write, user, &own.join("c/file")).unwrap();
    let metadata = made.metadata().unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (47110, 47111));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for denied in
        [path.as_path(), Path::new("/proc/self/environ"), Path::new("/proc/thread-self/mem")]
    {
        let opened = runner.open(FileAccess::Read, user, denied).map(drop);
        assert_eq!(opened, Err(Errno::EACCES), "{}", denied.display());
    }
    let created = runner.open(FileAccess::Write, user, &scratch.path().join("new")).map(drop);
    assert_eq!(created, Err(Errno::EACCES));
    runner.open(FileAccess::Read, user, Path::new("/proc/uptime")).unwrap();
    runner.open(FileAccess::Read, None, &path).unwrap();
}
