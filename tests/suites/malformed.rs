//! Malformed requests run nothing, leak nothing, and do not stop the proxy.
//!
//! A request is determined by the seed and its number, so a failure can be reproduced.
//! `AIFO_TEST_SEED` is the seed, `AIFO_TEST_REQUESTS` the number of requests (default 100,000),
//! half over each transport.
//!
//! No request waits for a timeout: the client half-closes after its bytes.

mod golden;
mod mutate;
pub(crate) mod random;
mod spoiled;

use std::fs;
use std::ops::Range;
use std::thread;

use aifo_tests::{
    Address, Answer, Connection, Listen, ResourceUsage, Session, SessionSetup, number_from,
};
use mutate::mutate;
use random::Random;
use spoiled::{OVERSIZE, SPOILED, Spoil};

/// The statuses for requests that run no tool.
const REFUSALS: &[u16] = &[400, 401, 403, 404, 405, 408, 409, 413, 426, 431];
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const CLIENTS: u64 = 4;

#[test]
fn over_a_unix_socket() {
    check(Listen::Default);
}

#[test]
fn over_tcp() {
    check(Listen::Tcp);
}

#[track_caller]
fn check(listen: Listen) {
    let seed = number_from("AIFO_TEST_SEED", 1);
    let total = number_from("AIFO_TEST_REQUESTS", 100_000) / 2;
    eprintln!("AIFO_TEST_SEED={seed}");
    let setup = SessionSetup::new().listen(listen);
    let ran = setup.workspace().join("ran");
    // Every tool appends a line, whatever its arguments.
    let script = format!("echo \"ran $0 $*\" >> '{}'", ran.display());
    let tools = ["cargo", "gcc", "make", "ninja"];
    let session = tools.into_iter().fold(setup, |setup, tool| setup.script(tool, &script)).start();
    let attack = Attack::new(&session, seed);

    // The allocator sometimes returns memory, so the maximum of several samples counts.
    let share = total / 100;
    let looks = (0..10).map(|round| {
        attack.run(round * share..(round + 1) * share);
        ResourceUsage::of(&session)
    });
    let before = looks.reduce(ResourceUsage::most).expect("there are ten");
    attack.run(10 * share..total);
    ResourceUsage::check_no_gain(&session, &before);

    let good = session.answer(&session.exec("make", ["good"]));
    assert_eq!((good.status(), good.exit_code()), (200, Some("0")));
    let ran = fs::read_to_string(&ran).expect("the good call has left its line");
    assert!(ran.ends_with("make good\n") && ran.lines().count() == 1, "only it has run: {ran}");
}

/// All requests of a seed.
struct Attack<'a> {
    session: &'a Session,
    seed: u64,
    /// Golden requests, as clients send them.
    golden: Vec<Vec<u8>>,
    /// Every prefix of every golden request: index and length.
    cuts: Vec<(usize, usize)>,
    /// Golden requests with an invalid token.
    unauthorized: Vec<Vec<u8>>,
    /// Golden requests for an unknown tool.
    toolless: Vec<Vec<u8>>,
}

/// A request and its allowed responses.
struct Malformed {
    what: &'static str,
    bytes: Vec<u8>,
    allowed: &'static [u16],
}

impl<'a> Attack<'a> {
    fn new(session: &'a Session, seed: u64) -> Self {
        // Random changes cannot make these valid: every character would have to change.
        let toolless = |request: Vec<u8>| {
            let request = golden::replace(request, b"tool=make", b"tool=\x01\x01\x01\x01");
            let request =
                golden::replace(request, b"\0\0\0\x04make", b"\0\0\0\x04\x01\x01\x01\x01");
            golden::replace(request, b"cmd=", b"\x01\x01\x01=")
        };
        let unauthorized = golden::requests(&"!".repeat(session.token().len()));
        let golden = golden::requests(session.token());
        let lengths = golden.iter().map(Vec::len).enumerate();
        let cuts = lengths.flat_map(|(which, len)| (0..len).map(move |cut| (which, cut))).collect();
        let toolless = golden.iter().cloned().map(toolless).collect();
        Attack { session, seed, golden, cuts, unauthorized, toolless }
    }

    /// Sends the requests of these numbers with several concurrent clients.
    fn run(&self, numbers: Range<u64>) {
        thread::scope(|scope| {
            for client in 0..CLIENTS {
                let numbers = numbers.clone().skip(client as usize).step_by(CLIENTS as usize);
                scope.spawn(|| numbers.for_each(|number| self.send(number)));
            }
        });
    }

    #[track_caller]
    fn send(&self, number: u64) {
        let Malformed { what, bytes, allowed } = self.request(number);
        let mut connection = Connection::open(self.session.address());
        // The response may arrive and the connection close before everything is sent.
        let _ = connection.try_send(&bytes);
        connection.half_close();
        let raw = connection.rest();
        let raw = raw.strip_prefix(CONTINUE).unwrap_or(&raw);
        let complain = |why: String| -> ! {
            let shown = bytes.escape_ascii();
            panic!("request {number} of seed {}, {what}: {why}: {shown}", self.seed)
        };
        match Answer::parse(raw) {
            // On TCP, the end of the stream may be a disconnect: no response.
            Err(_) if raw.is_empty() && matches!(self.session.address(), Address::Tcp(_)) => {}
            Ok(answer) if !allowed.contains(&answer.status()) => complain(answer.status_line),
            Ok(answer) if answer.exit_code() != Some("86") => complain("not 86".to_owned()),
            Ok(_) => {}
            Err(why) => complain(why),
        }
    }

    fn request(&self, number: u64) -> Malformed {
        let mut random = Random::new(self.seed, number);
        let any = |what, bytes| Malformed { what, bytes, allowed: REFUSALS };
        let spoiled = |(what, allowed, spoil): Spoil, random: &mut Random| {
            let version = if random.below(2) == 0 { "1" } else { "2" };
            let call = self.session.exec("make", ["spoiled"]).proto(version);
            Malformed { what, bytes: spoil(call, random), allowed }
        };
        // Sent by all clients at once, so that the peak memory is reached early.
        if number % 400 < CLIENTS {
            return spoiled(random.pick(OVERSIZE), &mut random);
        }
        let turn = usize::try_from(number / 8).expect("the number of requests is small");
        match number % 8 {
            0 | 1 => {
                let (which, cut) = self.cuts[(turn * 2 + (number % 8) as usize) % self.cuts.len()];
                any("cut off", self.golden[which][..cut].to_vec())
            }
            2 | 3 => spoiled(random.pick(SPOILED), &mut random),
            4 => any("mutated, no token", mutate(&self.unauthorized, &mut random)),
            5 | 6 => any("mutated, no tool", mutate(&self.toolless, &mut random)),
            _ => any("noise", self.noise(&mut random)),
        }
    }

    /// Random bytes: as a whole request, or after a valid head.
    fn noise(&self, random: &mut Random) -> Vec<u8> {
        let length = random.below(400);
        let bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        let call = self.session.post("/exec");
        match random.below(4) {
            0 => bytes,
            1 => bytes.into_iter().map(|byte| b' ' + byte % 95).collect(),
            2 => call.body(bytes).encode(),
            _ => call.header("Transfer-Encoding", "chunked").body(bytes).encode(),
        }
    }
}
