//! Frames between holder and clients (`spec/attach.md#protocol`).

use aifo_types::{Ending, WindowSize};

/// The version of the protocol.
const VERSION: u8 = 1;
/// The longest payload.
pub(crate) const MAX_PAYLOAD: usize = 64 * 1024;
/// Length of type and length.
const HEAD: usize = 5;
/// The type of `Restore`.
const RESTORE: u8 = 66;

/// The purpose of a client connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRole {
    /// It shows the terminal.
    Attach,
    /// It disconnects the clients that do.
    DisconnectOthers,
}

/// A message between holder and client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// From a client: its first frame.
    Hello(ClientRole, WindowSize),
    /// From a client: typed bytes.
    Input(Vec<u8>),
    /// From a client: the size of its terminal.
    Resize(WindowSize),
    /// From a client: continue a stopped command.
    Resume,
    /// From the holder: bytes for the terminal.
    Output(Vec<u8>),
    /// From the holder: bytes that undo the modes of the output that follows.
    Restore(Vec<u8>),
    /// From the holder: the command has stopped.
    Stopped,
    /// From the holder: the client was disconnected by a command.
    Detached,
    /// From the holder: the command has ended.
    Ended(Ending),
}

/// Why received bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameError;

impl Frame {
    /// Appends the frame to `buffer`. Longer bytes than a frame holds become several frames.
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        let size = |size: &WindowSize| {
            let numbers = [size.rows, size.columns, size.x_pixels, size.y_pixels];
            numbers.into_iter().flat_map(u16::to_be_bytes).collect::<Vec<u8>>()
        };
        match self {
            Frame::Hello(role, window) => {
                let role = match role {
                    ClientRole::Attach => 0,
                    ClientRole::DisconnectOthers => 1,
                };
                push(buffer, 1, &[&[VERSION, role][..], &size(window)].concat());
            }
            Frame::Input(bytes) => push_bytes(buffer, 2, bytes),
            Frame::Resize(window) => push(buffer, 3, &size(window)),
            Frame::Resume => push(buffer, 4, &[]),
            Frame::Output(bytes) => push_bytes(buffer, 65, bytes),
            // Far shorter than a payload.
            Frame::Restore(bytes) => push(buffer, RESTORE, bytes),
            Frame::Stopped => push(buffer, 67, &[]),
            Frame::Detached => push(buffer, 68, &[]),
            Frame::Ended(Ending::Exited(code)) => push(buffer, 69, &[0, *code]),
            Frame::Ended(Ending::Signaled(signal)) => push(buffer, 69, &[1, *signal]),
        }
    }

    /// Returns the payload of an encoded `Restore`.
    pub(crate) fn restore_of(encoded: &[u8]) -> Option<&[u8]> {
        encoded.first().filter(|kind| **kind == RESTORE).and_then(|_| encoded.get(HEAD..))
    }

    fn decode(kind: u8, payload: &[u8]) -> Result<Self, FrameError> {
        Ok(match (kind, payload) {
            (1, [VERSION, role, size @ ..]) => {
                let role = match role {
                    0 => ClientRole::Attach,
                    1 => ClientRole::DisconnectOthers,
                    _ => return Err(FrameError),
                };
                Frame::Hello(role, window_size(size)?)
            }
            (2, bytes) => Frame::Input(bytes.to_vec()),
            (3, size) => Frame::Resize(window_size(size)?),
            (4, []) => Frame::Resume,
            (65, bytes) => Frame::Output(bytes.to_vec()),
            (RESTORE, bytes) => Frame::Restore(bytes.to_vec()),
            (67, []) => Frame::Stopped,
            (68, []) => Frame::Detached,
            (69, [0, code]) => Frame::Ended(Ending::Exited(*code)),
            (69, [1, signal]) => Frame::Ended(Ending::Signaled(*signal)),
            _ => return Err(FrameError),
        })
    }
}

fn push(buffer: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    buffer.push(kind);
    buffer.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    buffer.extend(payload);
}

fn push_bytes(buffer: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    bytes.chunks(MAX_PAYLOAD).for_each(|chunk| push(buffer, kind, chunk));
}

fn window_size(payload: &[u8]) -> Result<WindowSize, FrameError> {
    let (numbers, rest) = payload.as_chunks();
    let numbers: Vec<u16> = numbers.iter().map(|bytes| u16::from_be_bytes(*bytes)).collect();
    match (&numbers[..], rest) {
        (&[rows, columns, x_pixels, y_pixels], []) => {
            Ok(WindowSize { rows, columns, x_pixels, y_pixels })
        }
        _ => Err(FrameError),
    }
}

/// Decodes frames from received bytes.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
}

impl FrameReader {
    /// Adds received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Returns the next complete frame. Errors: the peer does not speak this protocol.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(&[kind, a, b, c, d]) = self.bytes.first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > MAX_PAYLOAD {
            return Err(FrameError);
        }
        let Some(payload) = self.bytes.get(HEAD..HEAD + length) else { return Ok(None) };
        let frame = Frame::decode(kind, payload)?;
        self.bytes.drain(..HEAD + length);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        let size = WindowSize { rows: 24, columns: 80, x_pixels: 640, y_pixels: 300 };
        vec![
            Frame::Hello(ClientRole::Attach, size),
            Frame::Hello(ClientRole::DisconnectOthers, WindowSize::default()),
            Frame::Input(b"typed".to_vec()),
            Frame::Resize(size),
            Frame::Resume,
            Frame::Output(vec![0x1b, 0xff, 0]),
            Frame::Restore(b"\x1b[?25h".to_vec()),
            Frame::Stopped,
            Frame::Detached,
            Frame::Ended(Ending::Exited(7)),
            Frame::Ended(Ending::Signaled(15)),
        ]
    }

    #[test]
    fn frames_survive_any_split() {
        let mut bytes = Vec::new();
        frames().iter().for_each(|frame| frame.encode(&mut bytes));
        for split in 1..=bytes.len() {
            let mut reader = FrameReader::default();
            let mut decoded = Vec::new();
            for chunk in bytes.chunks(split) {
                reader.receive(chunk);
                while let Some(frame) = reader.next_frame().unwrap() {
                    decoded.push(frame);
                }
            }
            assert_eq!(decoded, frames(), "split {split}");
        }
    }

    #[test]
    fn long_output_becomes_several_frames() {
        let output = vec![b'x'; 2 * MAX_PAYLOAD + 1];
        let mut bytes = Vec::new();
        Frame::Output(output.clone()).encode(&mut bytes);
        let mut reader = FrameReader::default();
        reader.receive(&bytes);
        let mut decoded = Vec::new();
        while let Some(Frame::Output(part)) = reader.next_frame().unwrap() {
            assert!(part.len() <= MAX_PAYLOAD);
            decoded.extend(part);
        }
        assert_eq!(decoded, output);
    }

    #[test]
    fn other_bytes_are_rejected() {
        let rows: [&[u8]; 8] = [
            b"GET / HTTP/1.1\r\n",
            &[2, 0, 1, 0, 1],
            &[0, 0, 0, 0, 0],
            &[4, 0, 0, 0, 1, 0],
            &[3, 0, 0, 0, 2, 0, 1],
            &[1, 0, 0, 0, 10, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[69, 0, 0, 0, 2, 2, 0],
            &[99, 0, 0, 0, 0],
        ];
        for bytes in rows {
            let mut reader = FrameReader::default();
            reader.receive(bytes);
            assert_eq!(reader.next_frame(), Err(FrameError), "{bytes:?}");
        }
    }
}
