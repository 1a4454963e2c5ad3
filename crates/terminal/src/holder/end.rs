//! The end of a held command: sent to its clients, or written for a later one.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use aifo_types::Ending;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Holder;
use crate::end_file;
use crate::frame::Frame;

/// Time to send the end to clients.
const END_TIME: Duration = Duration::from_secs(2);
/// Output that is read after the command's end: background processes may write on.
const MAX_LAST_OUTPUT: usize = 1024 * 1024;

impl Holder {
    /// Sends the end to the clients. Without one that took it, writes it to a file.
    pub(super) fn end(mut self, ending: Ending) -> io::Result<()> {
        let mut read = 0;
        while read < MAX_LAST_OUTPUT {
            match self.read_output() {
                0 => break,
                count => read += count,
            }
        }
        for peer in self.peers.iter_mut().filter(|peer| peer.is_attached) {
            if peer.is_behind {
                peer.catch_up(&self.screen);
            }
            peer.send(&Frame::Ended(ending));
        }
        if self.send_rest() {
            return Ok(());
        }
        let mut last = self.screen.redraw(true);
        last.extend(self.screen.restore());
        end_file::write(&self.held.directory, last, ending)
    }

    /// Sends what waits for the clients. Returns whether a client has taken all of it.
    fn send_rest(&mut self) -> bool {
        let confirms = self.held.end_confirmed_within;
        let deadline = Instant::now() + confirms.unwrap_or(END_TIME);
        let mut was_taken = false;
        loop {
            for peer in &mut self.peers {
                peer.flush();
                let is_sent = peer.is_attached && !peer.is_gone && !peer.has_output();
                if is_sent && confirms.is_some() {
                    // Discards input, until the client disconnects.
                    peer.read();
                    while let Ok(Some(_)) = peer.next_frame() {}
                }
                was_taken |= is_sent && (confirms.is_none() || peer.is_gone);
            }
            self.peers.retain(|peer| {
                let is_done = !peer.has_output() && confirms.is_none();
                peer.is_attached && !peer.is_gone && !is_done
            });
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            if self.peers.is_empty() || left == 0 {
                return was_taken;
            }
            let wanted =
                |has_output| if has_output { PollFlags::POLLOUT } else { PollFlags::POLLIN };
            let mut polled: Vec<_> = (self.peers.iter())
                .map(|peer| PollFd::new(peer.as_fd(), wanted(peer.has_output())))
                .collect();
            let _ = poll(&mut polled, PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX)));
        }
    }
}
