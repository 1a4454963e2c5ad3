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
        /// [`Frame::Refused`](crate::Frame::Refused)
        Refused = 0x17,
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
        /// [`Frame::FindCaller`](crate::Frame::FindCaller)
        FindCaller = 0x30,
        /// [`Frame::Caller`](crate::Frame::Caller)
        Caller = 0x31,
        /// [`Frame::OpenFile`](crate::Frame::OpenFile)
        OpenFile = 0x32,
        /// [`Frame::File`](crate::Frame::File)
        File = 0x33,
        /// [`Frame::Watch`](crate::Frame::Watch)
        Watch = 0x29,
        /// [`Frame::Listeners`](crate::Frame::Listeners)
        Listeners = 0x2a,
        /// [`Frame::Bind`](crate::Frame::Bind)
        Bind = 0x2b,
        /// [`Frame::Connect`](crate::Frame::Connect)
        Connect = 0x2c,
        /// [`Frame::Opened`](crate::Frame::Opened)
        Opened = 0x2d,
        /// [`Frame::Unbind`](crate::Frame::Unbind)
        Unbind = 0x2e,
        /// [`NetFrame::Open`](crate::NetFrame::Open)
        NetOpen = 0x40,
        /// [`NetFrame::Data`](crate::NetFrame::Data)
        NetData = 0x41,
        /// [`NetFrame::End`](crate::NetFrame::End)
        NetEnd = 0x42,
        /// [`NetFrame::Reset`](crate::NetFrame::Reset)
        NetReset = 0x43,
        /// [`NetFrame::Credit`](crate::NetFrame::Credit)
        NetCredit = 0x44,
        /// [`NetFrame::Query`](crate::NetFrame::Query)
        NetQuery = 0x45,
        /// [`NetFrame::Answer`](crate::NetFrame::Answer)
        NetAnswer = 0x46,
    }
}

code_table! {
    /// The use of a file that the runner opens.
    pub enum FileAccess {
        /// Read it.
        Read = 0,
        /// Write it. It is created if it is missing, with the directories that lead to it.
        Write = 1,
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
    /// The transport of a socket.
    pub enum SocketType {
        /// UDP.
        Datagram = 0,
        /// TCP.
        Stream = 1,
    }
}

code_table! {
    /// Whether a runner may attribute a socket without a visible owner.
    pub enum OnlyCall {
        /// Other calls run in the network stack.
        No = 0,
        /// The only call that runs in the stack is the runner's.
        Yes = 1,
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

code_table! {
    /// Whether a report lists all listeners.
    pub enum ListenerReport {
        /// It does.
        Complete = 0,
        /// There are more than it may list.
        Truncated = 1,
        /// The kernel does not list them.
        Unavailable = 2,
    }
}

code_table! {
    /// The result of [`Frame::Bind`](crate::Frame::Bind) or [`Frame::Connect`](crate::Frame::Connect).
    pub enum SocketResult {
        /// The socket comes with the first byte, or in frames.
        Passed = 0,
        /// Another socket has the address.
        InUse = 1,
        /// No socket listens on the port.
        Refused = 2,
        /// Another error.
        Failed = 3,
    }
}

code_table! {
    /// A loopback address.
    pub enum Loopback {
        /// 127.0.0.1
        V4 = 0,
        /// ::1
        V6 = 1,
    }
}
