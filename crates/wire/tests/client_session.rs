//! A call of version 3 with both ends in memory: from the request to the ending, and what credit does
//! to the streams in between.

use aifo_types::{Ending, ExecId, Token};
use aifo_wire::{
    Exit, Frame, FrameReader, Invocation, Limits, ReceiveWindow, RequestEvent, RequestReader,
    ResponseEvent, ResponseReader, SendWindow, Stdio, Stream, Upgrade, Usage, WINDOW,
    encode_upgrade_head,
};

/// One end of a connection that sends on one stream and receives on another.
struct End {
    sends: Stream,
    receives: Stream,
    reader: FrameReader,
    credit: SendWindow,
    allowance: ReceiveWindow,
    /// What the other end has not been given yet.
    out: Vec<u8>,
    /// What came and has not been handed on.
    came: Vec<u8>,
    /// What ended the stream that it receives: `Closed`, or `Exit`.
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
            came: Vec::new(),
            ended: false,
        }
    }

    /// Sends what the other end takes of it, and says how much that was.
    fn send(&mut self, data: &[u8]) -> usize {
        let data = &data[..data.len().min(self.credit.left())];
        self.say(Frame::Data { stream: self.sends, data });
        self.credit.spend(data.len());
        data.len()
    }

    fn say(&mut self, frame: Frame<'_>) {
        frame.encode(&mut self.out);
    }

    /// Hands on up to so many of the bytes that came, and grants as many more.
    fn hand_on(&mut self, most: usize) -> Vec<u8> {
        let data: Vec<u8> = self.came.drain(..most.min(self.came.len())).collect();
        if let Some(bytes) = self.allowance.release(data.len()) {
            self.say(Frame::Credit { stream: self.receives, bytes });
        }
        data
    }

    /// Takes up to so many bytes of what `other` has to say.
    fn hear(&mut self, other: &mut End, most: usize) {
        let piece: Vec<u8> = other.out.drain(..most.min(other.out.len())).collect();
        self.reader.receive(&piece);
        while let Some(frame) = self.reader.next_frame().unwrap() {
            match frame {
                Frame::Data { stream, data } => {
                    assert_eq!(stream, self.receives);
                    self.allowance.receive(data.len()).expect("no more than was granted");
                    self.came.extend_from_slice(data);
                }
                Frame::Credit { stream, bytes } => {
                    assert_eq!(stream, self.sends);
                    self.credit.grant(bytes).expect("no more than a window");
                }
                Frame::Closed { stream } => {
                    assert_eq!(stream, self.receives);
                    self.ended = true;
                }
                Frame::Exit { .. } => self.ended = true,
                other => panic!("{other:?}"),
            }
        }
        assert!(self.came.len() <= WINDOW, "nobody has to hold more than a window");
    }
}

fn exit(taken: u64) -> Frame<'static> {
    let (ending, usage) = (Ending::Exited(0), Usage::default());
    Frame::Exit { serial: 7, exit: Exit { ending, cancelled: None, limit: None, taken, usage } }
}

/// A call of `cat`, whose every byte crosses twice.
#[test]
fn more_than_a_window_goes_there_and_back() {
    let sent: Vec<u8> = (0..3 * WINDOW + 12_345).map(|index| (index % 251) as u8).collect();
    let mut client = End::new(Stream::Stdin, Stream::Stdout);
    let mut tool = End::new(Stream::Stdout, Stream::Stdin);
    let (mut rest, mut echoed) = (&sent[..], Vec::new());
    let (mut closed, mut exited) = (false, false);
    for round in 0.. {
        assert!(round < 1000, "somebody waits for ever: {} of {}", echoed.len(), sent.len());
        let pieces = [1, 70_001, 6, 5, 200_003, 65_541];
        let (piece, answer) = (pieces[round % pieces.len()], pieces[(round + 2) % pieces.len()]);
        rest = &rest[client.send(rest)..];
        if rest.is_empty() && !closed {
            client.say(Frame::Closed { stream: Stream::Stdin });
            closed = true;
        }
        tool.hear(&mut client, piece);
        let data = tool.hand_on(tool.credit.left());
        assert_eq!(tool.send(&data), data.len());
        if tool.ended && tool.came.is_empty() && !exited {
            tool.say(exit(0));
            exited = true;
        }
        client.hear(&mut tool, answer);
        echoed.extend(client.hand_on(WINDOW));
        if client.ended {
            break;
        }
    }
    assert!(echoed == sent, "{} of {} bytes came back", echoed.len(), sent.len());
}

/// It stops its own writer, and goes on where it stopped.
#[test]
fn a_stream_that_nobody_reads() {
    let mut client = End::new(Stream::Stdin, Stream::Stdout);
    let mut tool = End::new(Stream::Stdout, Stream::Stdin);
    let output = vec![7; 2 * WINDOW];
    assert_eq!(tool.send(&output), WINDOW);
    client.hear(&mut tool, usize::MAX);
    assert_eq!(tool.send(&output), 0, "not before somebody reads");

    assert_eq!(client.send(b"typed"), 5, "the other way is as free as ever");
    tool.hear(&mut client, usize::MAX);
    assert_eq!(tool.hand_on(WINDOW), b"typed");

    assert_eq!(client.hand_on(WINDOW / 2 - 1).len(), WINDOW / 2 - 1);
    assert_eq!(client.out, b"", "too little for a frame");
    assert_eq!(client.hand_on(1).len(), 1);
    tool.hear(&mut client, usize::MAX);
    assert_eq!(tool.send(&output), WINDOW / 2);
}

/// What a client sends: the request, and right behind it all that it has to say.
fn request(invocation: &Invocation) -> Vec<u8> {
    let (endpoint, token) = ("unix:///s".parse().unwrap(), Token::parse("t").unwrap());
    let id = ExecId::parse(b"e1").unwrap();
    let call = Upgrade { endpoint: &endpoint, token: &token, id: &id, invocation };
    let mut wire = Vec::new();
    call.encode(&mut wire);
    Frame::Data { stream: Stream::Stdin, data: b"hello\n" }.encode(&mut wire);
    Frame::Signal { number: 15 }.encode(&mut wire);
    Frame::Closed { stream: Stream::Stdin }.encode(&mut wire);
    wire
}

/// What comes back: the head and, from whoever runs the tool, the frames.
fn answer(invocation: &Invocation) -> Vec<u8> {
    let mut wire = Vec::new();
    encode_upgrade_head(&mut wire, Some(&ExecId::parse(b"e1").unwrap()));
    Frame::Started { serial: 7, pid: 258, stdio: invocation.stdio }.encode(&mut wire);
    Frame::Data { stream: Stream::Stdout, data: b"hello\n" }.encode(&mut wire);
    Frame::Data { stream: Stream::Stderr, data: b"\xff" }.encode(&mut wire);
    Frame::Closed { stream: Stream::Stdin }.encode(&mut wire);
    exit(2).encode(&mut wire);
    wire
}

#[test]
fn both_ends_understand_wherever_it_is_cut() {
    let stdio = [Stdio::Relayed; 3];
    let invocation = Invocation { stdio, ..Invocation::plain(vec![b"cat".to_vec()], None) };
    let request = request(&invocation);
    for cut in 0..=request.len() {
        let (first, second) = request.split_at(cut);
        let (understood, frames) = serve(first, second);
        assert_eq!(understood, invocation, "cut at {cut}");
        assert_eq!(
            frames,
            [
                "Data { stream: Stdin, data: [104, 101, 108, 108, 111, 10] }",
                "Signal { number: 15 }",
                "Closed { stream: Stdin }",
            ],
            "cut at {cut}"
        );
    }
    let answer = answer(&invocation);
    let whole = understand(&answer, &[]);
    assert_eq!(whole.len(), 5);
    assert_eq!(whole.last(), Some(&format!("{:?}", exit(2))));
    for cut in 0..=answer.len() {
        let (first, second) = answer.split_at(cut);
        assert_eq!(understand(first, second), whole, "cut at {cut}");
    }
}

/// Without its last byte there is no ending.
#[test]
fn an_ending_is_never_invented() {
    let answer = answer(&Invocation::plain(vec![b"cat".to_vec()], None));
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    for cut in head..answer.len() {
        let frames = understand(&answer[..cut], &[]);
        assert!(!frames.iter().any(|frame| frame.starts_with("Exit")), "cut at {cut}: {frames:?}");
    }
}

/// The request and the frames behind it, as a server takes them.
fn serve(first: &[u8], second: &[u8]) -> (Invocation, Vec<String>) {
    let mut pieces = [first, second].into_iter();
    let mut server = RequestReader::new(Limits::default());
    let body = loop {
        match server.next_event().unwrap() {
            RequestEvent::NeedData => {
                server.receive(pieces.next().expect("the request is complete"));
            }
            RequestEvent::Head(head) => assert_eq!(head.header("x-aifo-proto"), Some(&b"3"[..])),
            RequestEvent::Body(body) => break body,
        }
    };
    (Invocation::parse(&body).unwrap(), frames(&server.take_rest(), pieces))
}

/// The frames of an answer, as a client takes them.
fn understand(first: &[u8], second: &[u8]) -> Vec<String> {
    let mut pieces = [first, second].into_iter();
    let mut client = ResponseReader::new(Limits::default());
    loop {
        match client.next_event().unwrap() {
            ResponseEvent::NeedData => client.receive(pieces.next().expect("the head is whole")),
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
