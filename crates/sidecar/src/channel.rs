//! Our end of the connection that carries one exec.

use std::io;

use aifo_wire::{CancelCause, Frame, FrameReader, Interrupt};

use crate::socket::Socket;

/// The frames of one exec. Dropping it is the cancel: the runner ends the tool by the ladder.
///
/// Both halves are open, so that a frame can be borrowed from `frames` while `socket` sends.
#[derive(Debug)]
pub struct ExecChannel {
    /// The connection to the runner.
    pub socket: Socket,
    /// What came from it.
    pub frames: FrameReader,
}

impl ExecChannel {
    /// Waits for bytes from the runner and puts them into `frames`. `Ok(false)` when the runner
    /// has closed its end, after the last frame or because it is gone. Cancel-safe.
    pub async fn fill(socket: &Socket, frames: &mut FrameReader) -> io::Result<bool> {
        let room = if frames.is_within_frame() { BULK } else { GLANCE };
        let count = socket.receive(frames.buffer().spare(room)).await?;
        frames.buffer().commit(count);
        Ok(count > 0)
    }

    /// Asks the runner to end the tool. The ending still comes as a frame.
    pub fn cancel(socket: &Socket, cause: CancelCause, interrupt: Interrupt) {
        let mut frame = Vec::new();
        Frame::Cancel { cause, interrupt }.encode(&mut frame);
        // Only `Start` ever went this way, and the runner reads at once: there is room, or the
        // runner is gone and the tool with it.
        let _ = socket.try_send(&frame);
    }
}

/// Most execs say little more than that they started and ended.
const GLANCE: usize = 4 * 1024;
/// The others are read two full frames at a time.
const BULK: usize = 128 * 1024;
