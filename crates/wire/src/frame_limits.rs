//! Limits of frames, in bytes.

/// Maximum payload of all frames except [`Frame::Start`](crate::Frame::Start), in bytes.
pub const MAX_PAYLOAD: usize = 64 * 1024;
/// Maximum data of one [`Frame::Data`](crate::Frame::Data), in bytes.
pub const MAX_DATA: usize = MAX_PAYLOAD - 1;
/// Maximum data of one [`Frame::Tunnel`](crate::Frame::Tunnel), in bytes.
pub const MAX_TUNNEL: usize = MAX_PAYLOAD - 4;
/// Maximum payload of [`Frame::Start`](crate::Frame::Start), in bytes: an invocation and the proxy's fields.
pub const MAX_START: usize = MAX_INVOCATION + 128 * 1024;
/// Maximum size of an invocation in bytes, above the kernel's limit on arguments and environment.
pub const MAX_INVOCATION: usize = 4 * 1024 * 1024;
/// Maximum number of ports in [`Frame::Listen`](crate::Frame::Listen). With two descriptors for DNS they
/// stay below the kernel's 253 per message.
pub const MAX_LISTEN_PORTS: usize = 128;
/// Maximum number of listeners in [`Frame::Listeners`](crate::Frame::Listeners).
pub const MAX_LISTENERS: usize = 256;
