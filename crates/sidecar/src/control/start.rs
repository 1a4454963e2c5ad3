//! The first frames of a control connection.

use std::io;

use aifo_types::Kind;
use aifo_wire::{Frame, FrameReader};

use super::{ControlConnection, READ, fill};
use crate::error::SidecarError;
use crate::link::Link;
use crate::listeners::StackListeners;

impl ControlConnection {
    /// Has the runner bind the listeners of its network stack, and checks those that it passes; `None` if
    /// it relays their connections instead. Must be called before [`ControlConnection::serve`]. Errors: the
    /// runner's, a descriptor that is none of these, or another frame.
    pub(crate) async fn listen(
        &self,
        kind: &Kind,
        frames: &mut FrameReader,
        ports: &[u16],
    ) -> Result<Option<StackListeners>, SidecarError> {
        let refused = |reason| SidecarError::Listeners { kind: kind.clone(), reason };
        let max = ports.len().saturating_add(DNS_LISTENERS);
        self.send(&Frame::Listen { ports: ports.to_vec() });
        let (mut fds, mut buffer) = (Vec::new(), [0; READ]);
        loop {
            match frames.next_frame() {
                Ok(None) => {}
                Ok(Some(Frame::Listening { error })) if error.is_empty() => {
                    if fds.is_empty() {
                        return Ok(None);
                    }
                    return StackListeners::check(fds, ports).map(Some).map_err(refused);
                }
                Ok(Some(Frame::Listening { error })) => return Err(refused(error)),
                Ok(Some(_)) => {
                    return Err(SidecarError::Protocol { kind: kind.clone(), source: None });
                }
                Err(source) => {
                    return Err(SidecarError::Protocol {
                        kind: kind.clone(),
                        source: Some(source),
                    });
                }
            }
            let received = self.link.receive_with_fds(&mut buffer, max).await;
            let mut received = received.map_err(|error| refused(error.to_string()))?;
            if received.bytes == 0 {
                return Err(SidecarError::Lost(kind.clone()));
            }
            fds.append(&mut received.fds);
            if fds.len() > max {
                return Err(refused(format!("more than {max} descriptors came")));
            }
            frames.receive(buffer.get(..received.bytes).unwrap_or_default());
        }
    }
}

/// DNS over UDP and over TCP.
const DNS_LISTENERS: usize = 2;

/// Reads the runner's first frame and returns its version of the frames.
pub(crate) async fn read_hello(
    kind: &Kind,
    link: &Link,
    frames: &mut FrameReader,
) -> Result<u8, SidecarError> {
    loop {
        let protocol = |source| SidecarError::Protocol { kind: kind.clone(), source };
        match frames.next_frame().map_err(|error| protocol(Some(error)))? {
            Some(Frame::Hello { version }) => return Ok(version),
            Some(_) => return Err(protocol(None)),
            None => {}
        }
        let open = fill(link, frames).await;
        match open.map_err(|source| SidecarError::Start { kind: kind.clone(), source })? {
            true => {}
            false => {
                let source = io::Error::other("its runner ended before it was ready");
                return Err(SidecarError::Start { kind: kind.clone(), source });
            }
        }
    }
}
