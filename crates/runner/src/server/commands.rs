//! Frames from the proxy: starting, signalling and cancelling execs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use aifo_process::{SocketTable, descendants_of, has_children, socket_owners};
use aifo_types::{ExecId, Signal};
use aifo_wire::{
    CancelCause, Delivery, FileAccess, Frame, Interrupt, Loopback, NetFrame, OnlyCall, Setup,
    SocketResult, SocketType, Start, StartError, StartErrorCause,
};
use nix::errno::Errno;
use nix::libc;
use nix::sys::epoll::EpollFlags;

use super::{ExecEntry, ServeError, Server};
use crate::control::StartAttachments;
use crate::exec::Exec;
use crate::listener_watch::ListenerWatch;
use crate::listeners::{bind_listeners, bind_loopback, connect_loopback};
use crate::opened_file::open_file;
use crate::poller::{ExecFd, ExecKey};
use crate::stack_relay::StackRelay;
use crate::tool_launcher::{Execve, ToolLauncher};
use crate::working_directory::Roots;

impl Server {
    pub(super) fn on_control(&mut self) -> Result<(), ServeError> {
        if !self.control.fill()? {
            return self.on_proxy_lost();
        }
        loop {
            // Copied out of the reader, so that the handlers can borrow `self`.
            let command = match self.control.next_frame()? {
                None => return Ok(()),
                Some(Frame::Setup(setup)) => Command::Setup(setup),
                Some(Frame::Start(start)) => Command::Start(start),
                Some(Frame::Cancel { serial, cause, interrupt }) => {
                    Command::Cancel(serial, cause, interrupt)
                }
                Some(Frame::Kill { serial, signal, id }) => Command::Kill(serial, signal, id),
                Some(Frame::Tunnel { serial, data }) => Command::Tunnel(serial, data.to_vec()),
                Some(Frame::TunnelEnd { serial }) => Command::Tunnel(serial, Vec::new()),
                Some(Frame::Retire) => Command::Retire,
                Some(Frame::Listen { ports }) => Command::Listen(ports),
                Some(Frame::Net(frame)) => {
                    let (frame, data) = frame.detach();
                    Command::Net(frame, data)
                }
                Some(Frame::FindCaller { serial, socket, port, only, text }) => {
                    Command::FindCaller(serial, (socket, port), only, text)
                }
                Some(Frame::Watch { interval, background }) => Command::Watch(interval, background),
                Some(Frame::Bind { serial, port }) => Command::Bind(serial, port),
                Some(Frame::Unbind { port }) => Command::Unbind(port),
                Some(Frame::Connect { serial, address, port }) => {
                    Command::Connect(serial, address, port)
                }
                Some(Frame::OpenFile { serial, access, user, path }) => {
                    Command::OpenFile(serial, access, user, path)
                }
                Some(_) => return Err(ServeError::UnexpectedFrame),
            };
            match command {
                Command::Setup(setup) => {
                    let roots = Roots::new(&setup).map_err(ServeError::Roots)?;
                    self.notes.configure(&setup.kind, roots.root());
                    self.launcher = Some(ToolLauncher::new(
                        setup.kind,
                        roots,
                        self.tag.clone(),
                        self.limits.clone(),
                    ));
                }
                Command::Start(start) => self.start_tool(&start)?,
                Command::Cancel(serial, cause, interrupt) => {
                    if let Some(key) = self.find_running(|exec| exec.serial() == serial) {
                        self.with_exec(key, |exec, context| {
                            exec.cancel(cause, interrupt, context.now);
                        })?;
                    }
                }
                Command::Kill(serial, signal, id) => {
                    let found = self.signal(&id, signal)?;
                    self.control.send(&Frame::Killed { serial, found });
                }
                Command::Tunnel(serial, bytes) => {
                    // The exec may have ended with output still to be sent.
                    let mut all = self.execs.iter();
                    let key = all.find(|(_, entry)| entry.exec.serial() == serial);
                    if let Some(key) = key.map(|(key, _)| *key) {
                        self.with_exec(key, |exec, context| exec.on_tunnel(&bytes, context))?;
                    }
                }
                Command::Retire => self.retire()?,
                Command::Listen(ports) => self.listen(&ports)?,
                Command::Net(frame, data) => {
                    // After the proxy's end there may be frames left.
                    if let Some(stack) = &mut self.stack {
                        let frame = frame.with_data(&data);
                        stack.receive(frame, &self.poller, &mut self.control)??;
                    } else if !self.proxy_lost {
                        return Err(ServeError::UnexpectedFrame);
                    }
                }
                Command::FindCaller(serial, socket, only, text) => {
                    let id = self.find_caller(socket, only).and_then(|key| {
                        let exec = &mut self.execs.get_mut(&key)?.exec;
                        exec.add_refusal(text);
                        Some(exec.id.clone())
                    });
                    self.control.send(&Frame::Caller { serial, id });
                }
                Command::Watch(0, 0) => {
                    if let Some(report) = ListenerWatch::new(0, 0).report() {
                        self.control.send(&report);
                    }
                }
                Command::Watch(interval, background) => {
                    self.watch = Some(ListenerWatch::new(interval, background));
                }
                Command::Bind(serial, port) => self.bind(serial, port)?,
                Command::Unbind(port) => {
                    if let Some(stack) = &mut self.stack {
                        stack.unbind_mirror(port);
                    }
                }
                Command::Connect(serial, address, port) => self.connect(serial, (address, port))?,
                Command::OpenFile(serial, access, user, path) => {
                    let opened = match self.control.carries_descriptors() {
                        true => open_file(access, user.as_deref(), &path),
                        false => Err(Errno::EOPNOTSUPP),
                    };
                    self.pass_file(serial, opened);
                }
            }
        }
    }

    /// Shuts down if the runner has no children, including background processes of tools.
    fn retire(&mut self) -> Result<(), ServeError> {
        // Reaps first, so that ended children do not count.
        self.on_signals()?;
        if self.execs.is_empty() && !has_children() {
            return self.shut_down();
        }
        self.control.send(&Frame::Busy);
        Ok(())
    }

    /// Binds the listeners of this network stack, and passes them to the proxy or relays their connections.
    /// Before any tool: a tool must not be able to take an address first.
    fn listen(&mut self, ports: &[u16]) -> Result<(), ServeError> {
        if self.has_listened || self.next_key > 0 {
            return Err(ServeError::UnexpectedFrame);
        }
        self.has_listened = true;
        if self.control.carries_descriptors() {
            let bound = match bind_listeners(ports) {
                Ok(bound) => bound,
                Err(error) => {
                    self.report_listening(error.to_string());
                    return Ok(());
                }
            };
            let frame = Frame::Listening { error: String::new() };
            match self.control.send_with_fds(&frame, bound) {
                // This user has too many in flight, which any program of its can cause: relays instead.
                Err(error) if error.raw_os_error() == Some(libc::ETOOMANYREFS) => {}
                sent => return Ok(sent?),
            }
        }
        match StackRelay::bind(ports) {
            Ok(mut stack) => {
                self.report_listening(String::new());
                stack.on_room(&self.poller, &mut self.control)?;
                self.stack = Some(stack);
            }
            Err(error) => self.report_listening(error.to_string()),
        }
        Ok(())
    }

    fn report_listening(&mut self, error: String) {
        self.control.send(&Frame::Listening { error });
    }

    /// Returns the running exec whose process has this socket; `None` if several have one at the port.
    fn find_caller(&self, (socket, port): (SocketType, u16), only: OnlyCall) -> Option<ExecKey> {
        let table = match socket {
            SocketType::Datagram => SocketTable::Udp,
            SocketType::Stream => SocketTable::Tcp,
        };
        let running = self.execs.iter().filter(|(_, entry)| entry.exec.is_running());
        let running: Vec<(ExecKey, &Exec)> =
            running.map(|(key, entry)| (*key, &entry.exec)).collect();
        if running.is_empty() {
            return None;
        }
        let the_one = |found: &[ExecKey]| match found {
            [key] => Some(*key),
            _ => None,
        };
        let mut owners = socket_owners(table, port);
        // Processes of an exec share the sockets that they inherit.
        owners.truncate(MAX_OWNERS);
        let keys = |has: &dyn Fn(&Exec) -> bool| -> Vec<ExecKey> {
            running.iter().filter(|(_, exec)| has(exec)).map(|(key, _)| *key).collect()
        };
        if owners.is_empty() {
            return the_one(&keys(&|_| only == OnlyCall::Yes));
        }
        let tagged = keys(&|exec| owners.iter().any(|owner| exec.tag().is_set_in(*owner)));
        if !tagged.is_empty() {
            return the_one(&tagged);
        }
        // Started without the tag.
        the_one(&keys(&|exec| {
            let below = descendants_of(exec.pid());
            owners.iter().any(|owner| below.contains(owner))
        }))
    }

    fn passes_sockets(&self) -> bool {
        self.control.carries_descriptors() && self.stack.is_none()
    }

    fn bind(&mut self, serial: u32, port: u16) -> Result<(), ServeError> {
        if self.passes_sockets() {
            self.pass_socket(serial, bind_loopback(port));
            return Ok(());
        }
        let stack = relay_of(&mut self.stack)?;
        let (result, id) = match stack.bind_mirror(port, &self.poller) {
            Ok(inode) => (SocketResult::Passed, inode),
            Err(result) => (result, 0),
        };
        self.control.send(&Frame::Opened { serial, result, id });
        Ok(stack.on_room(&self.poller, &mut self.control)?)
    }

    fn connect(&mut self, serial: u32, to: (Loopback, u16)) -> Result<(), ServeError> {
        if self.passes_sockets() {
            self.pass_socket(serial, connect_loopback(to.0, to.1));
            return Ok(());
        }
        if let Err(result) = relay_of(&mut self.stack)?.connect(serial, to, &self.poller) {
            self.control.send(&Frame::Opened { serial, result, id: 0 });
        }
        Ok(())
    }

    /// Passes a socket to the proxy, or reports why there is none.
    fn pass_socket(&mut self, serial: u32, opened: Result<OwnedFd, SocketResult>) {
        let passed = |result| Frame::Opened { serial, result, id: 0 };
        let result = match opened {
            Ok(socket) => {
                let frame = passed(SocketResult::Passed);
                match self.control.send_with_fds(&frame, vec![socket]) {
                    Ok(()) => return,
                    // As when the proxy does not read. The descriptor is closed.
                    Err(_) => SocketResult::Failed,
                }
            }
            Err(result) => result,
        };
        self.control.send(&passed(result));
    }

    /// Passes a file, or reports why there is none.
    fn pass_file(&mut self, serial: u32, opened: Result<OwnedFd, Errno>) {
        let errno = match opened {
            Ok(file) => {
                match self.control.send_with_fds(&Frame::File { serial, errno: 0 }, vec![file]) {
                    Ok(()) => return,
                    Err(error) => Errno::from_raw(error.raw_os_error().unwrap_or(libc::EAGAIN)),
                }
            }
            Err(errno) => errno,
        };
        self.control.send(&Frame::File { serial, errno: (errno as i32).cast_unsigned() });
    }

    fn find_running(&self, matches: impl Fn(&Exec) -> bool) -> Option<ExecKey> {
        let mut running = self.execs.iter().filter(|(_, entry)| entry.exec.is_running());
        running.find(|(_, entry)| matches(&entry.exec)).map(|(key, _)| *key)
    }

    fn signal(&mut self, id: &ExecId, signal: Signal) -> Result<Delivery, ServeError> {
        let Some(key) = self.find_running(|exec| exec.id == *id) else {
            return Ok(Delivery::NoSuchExec);
        };
        let mut delivered = false;
        self.with_exec(key, |exec, _| delivered = exec.signal(signal))?;
        Ok(if delivered { Delivery::Delivered } else { Delivery::NoSuchExec })
    }

    fn start_tool(&mut self, start: &Start) -> Result<(), ServeError> {
        let Some(StartAttachments { client, passed }) = self.control.take_attachments(start) else {
            return Err(ServeError::UnexpectedFrame);
        };
        let response_head = start.client.as_ref().map(|handover| handover.response_head.clone());
        let started = Instant::now();
        let raised = self.oom_score.as_ref().map(|own| own.raise(TOOL_OOM_SCORE_OFFSET));
        // The score is that of all processes with the same memory, so it can be restored only once
        // the tool has its own.
        let execve = if raised.is_some() { Execve::Now } else { Execve::Later };
        let launched = match &self.launcher {
            Some(launcher) if self.shutdown_since.is_none() => {
                launcher.launch(start, passed, self.null.as_fd(), execve)
            }
            _ => Err(StartError {
                cause: StartErrorCause::Failed,
                message: "the sidecar is not ready".to_owned(),
            }),
        };
        drop(raised);
        let launched = match launched {
            Ok(launched) => launched,
            Err(error) => {
                self.control.send(&Frame::StartError { serial: start.serial(), error });
                return Ok(());
            }
        };
        let key = self.next_key;
        self.next_key += 1;
        self.by_pid.insert(launched.pid, key);
        let note_rows = self.notes.rows(&start.request);
        let client = client.zip(response_head);
        let exec = Exec::new(start, launched, note_rows, client, started);
        let registered = [EpollFlags::empty(); ExecFd::ALL.len()];
        self.execs.insert(key, ExecEntry { exec, registered });
        self.update_exec(key, Exec::begin)
    }
}

/// Returns the relay of the stack, which one with the engine network has from the first request on.
fn relay_of(stack: &mut Option<StackRelay>) -> io::Result<&mut StackRelay> {
    let relay = match stack.take() {
        Some(relay) => relay,
        None => StackRelay::without_listeners()?,
    };
    Ok(stack.insert(relay))
}

/// How much more likely than PID 1 the kernel kills tools when memory runs out: half of the
/// sidecar's memory.
const TOOL_OOM_SCORE_OFFSET: i16 = 500;

/// The processes with a socket whose environments are read.
const MAX_OWNERS: usize = 16;

/// An owned frame of the control connection.
enum Command {
    Setup(Setup),
    Start(Box<Start>),
    Cancel(u32, CancelCause, Interrupt),
    Kill(u32, Signal, ExecId),
    /// Bytes from a client; empty at the end.
    Tunnel(u32, Vec<u8>),
    Retire,
    Listen(Vec<u16>),
    /// A frame of the stack connection, and its data.
    Net(NetFrame<'static>, Vec<u8>),
    /// The serial, the socket, whether no other call runs in its stack, and the refusal.
    FindCaller(u32, (SocketType, u16), OnlyCall, String),
    Watch(u16, u16),
    Bind(u32, u16),
    Unbind(u16),
    Connect(u32, Loopback, u16),
    /// The serial, the use, the user, the path.
    OpenFile(u32, FileAccess, Option<Vec<u8>>, Vec<u8>),
}
