//! Frames from the proxy: starting, signalling and cancelling execs.

use std::os::fd::AsFd;
use std::time::Instant;

use aifo_process::has_children;
use aifo_types::{ExecId, Signal};
use aifo_wire::{
    CancelCause, Delivery, Frame, Interrupt, NetFrame, Setup, Start, StartError, StartErrorCause,
};
use nix::sys::epoll::EpollFlags;

use super::{ExecEntry, ServeError, Server};
use crate::control::StartAttachments;
use crate::exec::Exec;
use crate::listeners::bind_listeners;
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
                Some(_) => return Err(ServeError::UnexpectedFrame),
            };
            match command {
                Command::Setup(setup) => {
                    let roots = Roots::new(&setup).map_err(ServeError::Roots)?;
                    self.notes.configure(&setup.kind, roots.root());
                    self.launcher = Some(ToolLauncher::new(setup.kind, roots, self.limits.clone()));
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
        match self.control.carries_descriptors() {
            true => match bind_listeners(ports) {
                Ok(bound) => {
                    let frame = Frame::Listening { error: String::new() };
                    return Ok(self.control.send_with_fds(&frame, bound)?);
                }
                Err(error) => self.report_listening(error.to_string()),
            },
            false => match StackRelay::bind(ports) {
                Ok(mut stack) => {
                    self.report_listening(String::new());
                    stack.on_room(&self.poller, &mut self.control)?;
                    self.stack = Some(stack);
                }
                Err(error) => self.report_listening(error.to_string()),
            },
        }
        Ok(())
    }

    fn report_listening(&mut self, error: String) {
        self.control.send(&Frame::Listening { error });
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

/// How much more likely than PID 1 the kernel kills tools when memory runs out: half of the
/// sidecar's memory.
const TOOL_OOM_SCORE_OFFSET: i16 = 500;

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
    /// A frame of a connection of the stack, and its data.
    Net(NetFrame<'static>, Vec<u8>),
}
