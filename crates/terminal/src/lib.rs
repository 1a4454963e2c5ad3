//! The terminal of this process, and terminals that outlive their clients (`spec/attach.md`).
//!
//! In scope: lines on stderr with control characters escaped, and a status line ([`console`]); coloured
//! output on stdout ([`paint`]); the holder of a pseudo terminal and its command ([`Holder`]), the screen
//! that it keeps, the frames between holder and clients, and the client of a terminal ([`Client`]).
//!
//! Out of scope: how a holder is started and found (`aifo-host`, `aifo-coder`).
//!
//! ```
//! use aifo_terminal::{Frame, FrameReader};
//!
//! let mut bytes = Vec::new();
//! Frame::Input(b"ls".to_vec()).encode(&mut bytes);
//! let (first, rest) = bytes.split_at(3);
//! let mut reader = FrameReader::default();
//! reader.receive(first);
//! assert!(reader.next_frame().unwrap().is_none(), "it is not complete");
//! reader.receive(rest);
//! assert!(matches!(reader.next_frame(), Ok(Some(Frame::Input(text))) if text == b"ls"));
//! ```
//!
//! Architecture invariant: this crate has no notion of containers, engines or sessions. A connection is
//! a pair of descriptors.

mod client;
pub mod clock;
mod connection;
pub mod console;
mod detach_keys;
mod encoded_key;
mod end_file;
mod frame;
mod guard;
mod holder;
pub mod paint;
mod peer;
mod screen;
mod shown;
mod terminal_report;
mod title;

pub use client::{Client, ClientEnd};
pub use connection::{Connection, connect, disconnect_clients};
pub use detach_keys::DetachSequence;
pub use end_file::END_FILE;
pub use frame::{ClientRole, Frame, FrameError, FrameReader};
pub use guard::{PROGRAM, guard_process};
pub use holder::{CLIENTS_FILE, Held, Holder, SOCKET};
pub use screen::Screen;
pub use shown::show_held;
pub use title::Title;
