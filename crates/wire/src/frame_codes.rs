//! The one-byte codes in frames.

use crate::payload::code_table;

code_table! {
    /// The kind of a frame, its first byte.
    pub enum FrameKind {
        /// [`Frame::Start`](crate::Frame::Start)
        Start = 0x01,
        /// [`Frame::Data`](crate::Frame::Data)
        Data = 0x02,
        /// [`Frame::Closed`](crate::Frame::Closed)
        Closed = 0x03,
        /// [`Frame::Credit`](crate::Frame::Credit)
        Credit = 0x04,
        /// [`Frame::Cancel`](crate::Frame::Cancel)
        Cancel = 0x05,
        /// [`Frame::Signal`](crate::Frame::Signal)
        Signal = 0x06,
        /// [`Frame::Resize`](crate::Frame::Resize)
        Resize = 0x07,
        /// [`Frame::Tunnel`](crate::Frame::Tunnel)
        Tunnel = 0x08,
        /// [`Frame::TunnelEnd`](crate::Frame::TunnelEnd)
        TunnelEnd = 0x09,
        /// [`Frame::Started`](crate::Frame::Started)
        Started = 0x10,
        /// [`Frame::Exit`](crate::Frame::Exit)
        Exit = 0x13,
        /// [`Frame::StartError`](crate::Frame::StartError)
        StartError = 0x14,
        /// [`Frame::Stopped`](crate::Frame::Stopped)
        Stopped = 0x15,
        /// [`Frame::Left`](crate::Frame::Left)
        Left = 0x16,
        /// [`Frame::Hello`](crate::Frame::Hello)
        Hello = 0x20,
        /// [`Frame::Setup`](crate::Frame::Setup)
        Setup = 0x21,
        /// [`Frame::Kill`](crate::Frame::Kill)
        Kill = 0x23,
        /// [`Frame::Killed`](crate::Frame::Killed)
        Killed = 0x24,
        /// [`Frame::Retire`](crate::Frame::Retire)
        Retire = 0x25,
        /// [`Frame::Busy`](crate::Frame::Busy)
        Busy = 0x26,
        /// [`Frame::Listen`](crate::Frame::Listen)
        Listen = 0x27,
        /// [`Frame::Listening`](crate::Frame::Listening)
        Listening = 0x28,
        /// [`NetFrame::Open`](crate::NetFrame::Open)
        NetOpen = 0x30,
        /// [`NetFrame::Data`](crate::NetFrame::Data)
        NetData = 0x31,
        /// [`NetFrame::End`](crate::NetFrame::End)
        NetEnd = 0x32,
        /// [`NetFrame::Reset`](crate::NetFrame::Reset)
        NetReset = 0x33,
        /// [`NetFrame::Credit`](crate::NetFrame::Credit)
        NetCredit = 0x34,
        /// [`NetFrame::Query`](crate::NetFrame::Query)
        NetQuery = 0x35,
        /// [`NetFrame::Answer`](crate::NetFrame::Answer)
        NetAnswer = 0x36,
    }
}

code_table! {
    /// A byte stream within a client connection.
    pub enum Stream {
        /// To the tool.
        Stdin = 0,
        /// From the tool.
        Stdout = 1,
        /// From the tool.
        Stderr = 2,
        /// Input and output of the pseudo terminal.
        Terminal = 3,
    }
}

code_table! {
    /// Why the proxy ends an exec.
    pub enum CancelCause {
        /// It exceeded the session's time limit.
        Timeout = 1,
        /// Its client disconnected.
        Disconnect = 2,
        /// The session ended.
        Shutdown = 3,
    }
}

code_table! {
    /// First step of a signal escalation.
    pub enum Interrupt {
        /// INT, then TERM, then KILL.
        Send = 0,
        /// TERM, then KILL: the client has just sent a signal.
        Skip = 1,
    }
}

code_table! {
    /// The result of sending a signal.
    pub enum Delivery {
        /// The process group received it.
        Delivered = 0,
        /// No such exec runs.
        NoSuchExec = 1,
    }
}
