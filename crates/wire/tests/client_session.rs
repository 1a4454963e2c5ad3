//! Version 3 calls with both ends in memory: request, frames and flow control.

use aifo_types::{Ending, ExecId, ExecRequest, Stdio, Token, ToolName};
use aifo_wire::{
    Exit, Frame, FrameReader, Limits, ReceiveWindow, RequestEvent, RequestReader, ResourceUsage,
    ResponseEvent, ResponseReader, SendWindow, Stream, Upgrade, WINDOW, encode_upgrade_head,
    parse_invocation,
};

/// One end of a connection, which sends one stream and receives another.
struct End {
    sends: Stream,
    receives: Stream,
    reader: FrameReader,
    credit: SendWindow,
    allowance: ReceiveWindow,
    /// Bytes not yet delivered to the other end.
    out: Vec<u8>,
    /// Received data that has not been consumed.
    received: Vec<u8>,
    /// True if `Closed` or `Exit` ended the received stream.
    ended: bool,
}

impl End {
    fn new(sends: Stream, receives: Stream) -> Self {
        End {
            sends,
            receives,
            reader: FrameReader::for_client(),
            credit: SendWindow::default(),
            allowance: ReceiveWindow::default(),
            out: Vec::new(),
            received: Vec::new(),
            ended: false,
        }
    }

    /// Sends as much as the credit allows. Returns the number of bytes.
    fn send(&mut self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.credit.left())];
        self.push(Frame::Data { stream: self.sends, data });
        self.credit.spend(data.len());
        data.len()
    }

    fn push(&mut self, frame: Frame<'_>) {
        frame.encode(&mut self.out);
    }

    /// Consumes up to `most` received bytes and grants credit for them.
    fn consume(&mut self, most: usize) -> Vec<u8> {
        let data: Vec<u8> = self.received.drain(..most.min(self.received.len())).collect();
        if let Some(bytes) = self.allowance.release(data.len()) {
            self.push(Frame::Credit { stream: self.receives, bytes });
        }
        data
    }

    /// Delivers up to `most` bytes from `other`.
    fn deliver(&mut self, other: &mut End, most: usize) {
        let piece: Vec<u8> = other.out.drain(..most.min(other.out.len())).collect();
        self.reader.receive(&piece);
        while let Some(frame) = self.reader.next_frame().unwrap() {
            match frame {
                Frame::Data { stream, data } => {
                    assert_eq!(stream, self.receives);
                    self.allowance.receive(data.len()).expect("data within the credit");
                    self.received.extend_from_slice(data);
                }
                Frame::Credit { stream, bytes } => {
                    assert_eq!(stream, self.sends);
                    self.credit.grant(bytes).expect("credit within the window");
                }
                Frame::Closed { stream } => {
                    assert_eq!(stream, self.receives);
                    self.ended = true;
                }
                Frame::Exit { .. } => self.ended = true,
                other => panic!("{other:?}"),
            }
        }
        assert!(self.received.len() <= WINDOW, "at most a window is buffered");
    }
}

fn exit(taken: u64) -> Frame<'static> {
    let (ending, usage) = (Ending::Exited(0), ResourceUsage::default());
    Frame::Exit { serial: 7, exit: Exit { ending, cancelled: None, note: None, taken, usage } }
}

/// Echoes several windows of data, as `cat` does.
#[test]
fn more_than_a_window_is_echoed() {
    let sent: Vec<u8> = (0..3 * WINDOW + 12_345).map(|index| (index % 251) as u8).collect();
    let mut client = End::new(Stream::Stdin, Stream::Stdout);
    let mut tool = End::new(Stream::Stdout, Stream::Stdin);
    let (mut rest, mut echoed) = (&sent[..], Vec::new());
    let (mut closed, mut exited) = (false, false);
    for round in 0.. {
        assert!(round < 1000, "deadlock after {} of {}", echoed.len(), sent.len());
        let pieces = [1, 70_001, 6, 5, 200_003, 65_541];
        let (piece, reply) = (pieces[round % pieces.len()], pieces[(round + 2) % pieces.len()]);
        rest = &rest[client.send(rest)..];
        if rest.is_empty() && !closed {
            client.push(Frame::Closed { stream: Stream::Stdin });
            closed = true;
        }
        tool.deliver(&mut client, piece);
        let data = tool.consume(tool.credit.left());
        assert_eq!(tool.send(&data), data.len());
        if tool.ended && tool.received.is_empty() && !exited {
            tool.push(exit(0));
            exited = true;
        }
        client.deliver(&mut tool, reply);
        echoed.extend(client.consume(WINDOW));
        if client.ended {
            break;
        }
    }
    assert!(echoed == sent, "{} of {} bytes echoed", echoed.len(), sent.len());
}

#[test]
fn an_unread_stream_blocks_only_its_writer() {
    let mut client = End::new(Stream::Stdin, Stream::Stdout);
    let mut tool = End::new(Stream::Stdout, Stream::Stdin);
    let output = vec![7; 2 * WINDOW];
    assert_eq!(tool.send(&output), WINDOW);
    client.deliver(&mut tool, usize::MAX);
    assert_eq!(tool.send(&output), 0, "no credit before the client reads");

    assert_eq!(client.send(b"typed"), 5, "the other direction is not blocked");
    tool.deliver(&mut client, usize::MAX);
    assert_eq!(tool.consume(WINDOW), b"typed");

    assert_eq!(client.consume(WINDOW / 2 - 1).len(), WINDOW / 2 - 1);
    assert_eq!(client.out, b"", "too little for a `Credit` frame");
    assert_eq!(client.consume(1).len(), 1);
    tool.deliver(&mut client, usize::MAX);
    assert_eq!(tool.send(&output), WINDOW / 2);
}

fn id() -> ExecId {
    ExecId::parse(b"e1").unwrap()
}

/// Encodes a client request and the frames after it.
fn encode_request(request: &ExecRequest) -> Vec<u8> {
    let (endpoint, token) = ("unix:///s".parse().unwrap(), Token::parse("t").unwrap());
    let call = Upgrade { endpoint: &endpoint, token: &token, request };
    let mut wire = Vec::new();
    call.encode(&mut wire);
    Frame::Data { stream: Stream::Stdin, data: b"hello\n" }.encode(&mut wire);
    Frame::Signal { number: 15 }.encode(&mut wire);
    Frame::Closed { stream: Stream::Stdin }.encode(&mut wire);
    wire
}

/// Encodes the response head and the runner frames.
fn encode_response(stdio: [Stdio; 3]) -> Vec<u8> {
    let mut wire = Vec::new();
    encode_upgrade_head(&mut wire, Some(&id()));
    Frame::Started { serial: 7, pid: 258, stdio }.encode(&mut wire);
    Frame::Data { stream: Stream::Stdout, data: b"hello\n" }.encode(&mut wire);
    Frame::Data { stream: Stream::Stderr, data: b"\xff" }.encode(&mut wire);
    Frame::Closed { stream: Stream::Stdin }.encode(&mut wire);
    exit(2).encode(&mut wire);
    wire
}

#[test]
fn calls_can_be_split_anywhere() {
    let stdio = [Stdio::Relayed; 3];
    let mut request = ExecRequest::new(id(), ToolName::parse(b"cat").unwrap());
    request.inherited.stdio = stdio;
    let encoded = encode_request(&request);
    for cut in 0..=encoded.len() {
        let (first, second) = encoded.split_at(cut);
        let (decoded, frames) = decode_request(first, second);
        assert_eq!(decoded, request, "split at {cut}");
        assert_eq!(
            frames,
            [
                "Data { stream: Stdin, data: [104, 101, 108, 108, 111, 10] }",
                "Signal { number: 15 }",
                "Closed { stream: Stdin }",
            ],
            "split at {cut}"
        );
    }
    let response = encode_response(stdio);
    let whole = decode_response(&response, &[]);
    assert_eq!(whole.len(), 5);
    assert_eq!(whole.last(), Some(&format!("{:?}", exit(2))));
    for cut in 0..=response.len() {
        let (first, second) = response.split_at(cut);
        assert_eq!(decode_response(first, second), whole, "split at {cut}");
    }
}

#[test]
fn a_truncated_response_has_no_exit() {
    let response = encode_response([Stdio::Null, Stdio::Passed, Stdio::Same]);
    let head = response.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    for cut in head..response.len() {
        let frames = decode_response(&response[..cut], &[]);
        assert!(
            !frames.iter().any(|frame| frame.starts_with("Exit")),
            "split at {cut}: {frames:?}"
        );
    }
}

/// Decodes the request and the frames after it.
fn decode_request(first: &[u8], second: &[u8]) -> (ExecRequest, Vec<String>) {
    let mut pieces = [first, second].into_iter();
    let mut server = RequestReader::new(Limits::default());
    let body = loop {
        match server.next_event().unwrap() {
            RequestEvent::NeedData => {
                server.receive(pieces.next().expect("a complete request"));
            }
            RequestEvent::Head(head) => assert_eq!(head.header("x-aifo-proto"), Some(&b"3"[..])),
            RequestEvent::Body(body) => break body,
        }
    };
    (parse_invocation(&body, id()).unwrap(), frames(&server.take_rest(), pieces))
}

/// Decodes the frames of a response.
fn decode_response(first: &[u8], second: &[u8]) -> Vec<String> {
    let mut pieces = [first, second].into_iter();
    let mut client = ResponseReader::new(Limits::default());
    loop {
        match client.next_event().unwrap() {
            ResponseEvent::NeedData => client.receive(pieces.next().expect("a complete head")),
            ResponseEvent::Head(head) => {
                assert_eq!((head.status, head.exec_id.as_deref()), (101, Some("e1")));
                return frames(&client.take_rest(), pieces);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn frames<'a>(rest: &[u8], mut pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut reader = FrameReader::for_client();
    let mut frames = Vec::new();
    let mut next = Some(rest);
    while let Some(piece) = next {
        reader.receive(piece);
        while let Some(frame) = reader.next_frame().unwrap() {
            frames.push(format!("{frame:?}"));
        }
        next = pieces.next();
    }
    frames
}
