//! The holder's side of its clients: who they are, what they send, whose size counts.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use aifo_process::resize;
use aifo_types::WindowSize;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::getuid;

use super::{CLIENTS_FILE, HELLO_TIME, Holder};
use crate::frame::{ClientRole, Frame};
use crate::peer::Peer;
use crate::screen::bounded;
use crate::terminal_report::without_reports;

/// Time with one row less, so that a program draws itself again.
const NUDGE: Duration = Duration::from_millis(50);

impl Holder {
    pub(super) fn accept(&mut self) {
        let Ok(stream) = aifo_process::accept(self.listener.as_fd()) else { return };
        let owner = getsockopt(&stream, sockopt::PeerCredentials).map(|found| found.uid());
        if owner != Ok(getuid().as_raw()) {
            return;
        }
        self.peers.extend(Peer::new(UnixStream::from(stream), Instant::now()));
    }

    pub(super) fn read_peer(&mut self, index: usize) {
        let Some(peer) = self.peers.get_mut(index) else { return };
        peer.read();
        loop {
            let Some(peer) = self.peers.get_mut(index) else { return };
            match peer.next_frame() {
                Ok(Some(frame)) => self.handle(index, frame),
                Ok(None) => return,
                Err(_) => {
                    peer.is_gone = true;
                    return;
                }
            }
        }
    }

    pub(super) fn handle(&mut self, index: usize, frame: Frame) {
        let leader = self.leader();
        let Some(peer) = self.peers.get_mut(index) else { return };
        match frame {
            Frame::Hello(ClientRole::Attach, size) => {
                let history = !std::mem::replace(&mut peer.is_attached, true);
                (peer.size, peer.active) = (size, Instant::now());
                (peer.is_behind, peer.is_stopped) = (false, false);
                // Before it is drawn: another size wraps other lines.
                self.take_size(size, self.has_output);
                let Some(peer) = self.peers.get_mut(index) else { return };
                peer.restore = self.screen.restore();
                peer.send(&Frame::Restore(peer.restore.clone()));
                if self.has_output {
                    peer.send(&Frame::Output(self.screen.redraw(history)));
                }
            }
            Frame::Hello(ClientRole::DisconnectOthers, _) => {
                peer.is_gone = true;
                for other in self.peers.iter_mut().filter(|peer| peer.is_attached) {
                    other.send(&Frame::Detached);
                    other.flush();
                    other.is_gone = true;
                }
            }
            Frame::Input(bytes) if peer.is_attached => {
                let is_leader = leader == Some(index);
                let typed = if is_leader { bytes } else { without_reports(&bytes) };
                if typed.is_empty() {
                    return;
                }
                if !is_leader {
                    peer.active = Instant::now();
                    let size = peer.size;
                    self.take_size(size, false);
                }
                self.input.extend(typed);
                self.write_input();
            }
            Frame::Resize(size) if peer.is_attached => {
                (peer.size, peer.active) = (size, Instant::now());
                self.take_size(size, false);
            }
            Frame::Resume if peer.is_attached => self.resume(),
            _ => peer.is_gone = true,
        }
    }

    /// The client that has the size: the one that was active last.
    pub(super) fn leader(&self) -> Option<usize> {
        let attached = self.peers.iter().enumerate().filter(|(_, peer)| peer.is_attached);
        attached.max_by_key(|(_, peer)| peer.active).map(|(index, _)| index)
    }

    /// Gives the terminal a client size. With `draws`, a program draws itself again even if the size
    /// does not change.
    pub(super) fn take_size(&mut self, size: WindowSize, draws: bool) {
        let size = bounded(size);
        let mut now = size;
        if size != self.size {
            self.screen.resize(size);
            self.size = size;
            self.nudged = None;
        } else if draws && self.clients() == 1 && size.rows > 2 {
            now.rows -= 1;
            self.nudged = Some(Instant::now() + NUDGE);
        } else if self.nudged.is_some() {
            return;
        }
        // The terminal is open as long as the holder.
        let _ = resize(self.master.as_fd(), now);
    }

    pub(super) fn clients(&self) -> usize {
        self.peers.iter().filter(|peer| peer.is_attached && !peer.is_gone).count()
    }

    pub(super) fn remove_gone(&mut self) {
        let leader = self.leader().and_then(|index| self.peers.get(index));
        let leader_left = leader.is_some_and(|peer| peer.is_gone);
        let now = Instant::now();
        self.peers
            .retain(|peer| !peer.is_gone && (peer.is_attached || now < peer.active + HELLO_TIME));
        if leader_left && let Some(size) = self.leader().and_then(|at| self.peers.get(at)) {
            let size = size.size;
            self.take_size(size, false);
        }
        if self.clients() == 0 {
            self.resume();
        }
    }

    /// Writes the number of clients if it has changed.
    pub(super) fn write_clients_file(&mut self) {
        let count = self.clients();
        if self.counted.replace(count) != Some(count) {
            let path = self.held.directory.join(CLIENTS_FILE);
            // The number is for display only.
            let _ = fs::write(path, count.to_string());
        }
    }
}
