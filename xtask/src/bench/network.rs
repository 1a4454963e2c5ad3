//! Benchmarks of the network by name: connections of a container through the launcher, against loopback.
//!
//! A thread in the container's network namespace is the client, another one on this machine the native
//! one. Both connect to the same servers, which are threads as well.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};

use super::containers::{self, Session, engine};
use super::cpu;
use super::measure::{Bench, WARM_UP};
use super::report::Measured::{self, Absent, Added, CpuPerGib, Mib, Rate, Throughput};
use super::stats::Pairs;
use crate::{host, shell};

const NAME: &str = "bench.test";
/// Connections at once.
const MANY: usize = 1000;
const BLOCK: usize = 256 * 1024;

/// The time from connecting to the server's first byte.
pub(super) fn connects(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, |clients, _| {
        let connect = |address: SocketAddr| -> Result<Duration> {
            let start = Instant::now();
            let mut stream = TcpStream::connect(address)?;
            stream.read_exact(&mut [0])?;
            Ok(start.elapsed())
        };
        clients.pairs(WARM_UP, Port::Byte, connect)?;
        clients.pairs(bench.depth.calls(), Port::Byte, connect).map(Added)
    })
}

/// The rate of a download.
pub(super) fn received(bench: &Bench<'_>) -> Result<Measured> {
    let bytes = bench.depth.output();
    measure(bench, |clients, _| {
        let pairs = clients.pairs(bench.depth.long(), Port::Download, download(bytes))?;
        Ok(Rate(bytes, pairs))
    })
}

/// The rate of an upload.
pub(super) fn sent(bench: &Bench<'_>) -> Result<Measured> {
    let bytes = bench.depth.output();
    measure(bench, |clients, _| {
        let pairs = clients.pairs(bench.depth.long(), Port::Upload, upload(bytes))?;
        Ok(Rate(bytes, pairs))
    })
}

/// The launcher's CPU time for a download and an upload, 1 GiB together.
pub(super) fn cpu_per_gib(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, |clients, session| {
        let before = cpu::of_tree(session.serve.pid())?;
        let (receive, send) = (download(GIB / 2), upload(GIB / 2));
        let [from, to] =
            [Port::Download, Port::Upload].map(|port| clients.address(port, Side::Stack));
        clients.stack.run(move || receive(from))?;
        clients.stack.run(move || send(to))?;
        let spent = cpu::of_tree(session.serve.pid())?.saturating_sub(before);
        Ok(CpuPerGib(spent.as_secs_f64()))
    })
}

const GIB: u64 = 1 << 30;

/// Receives this many bytes.
fn download(bytes: u64) -> impl Fn(SocketAddr) -> Result<Duration> + Copy + Send + 'static {
    move |address| {
        let start = Instant::now();
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(&bytes.to_be_bytes())?;
        expect(bytes, drain(&mut stream)?)?;
        Ok(start.elapsed())
    }
}

/// Sends this many bytes, and waits until they have arrived.
fn upload(bytes: u64) -> impl Fn(SocketAddr) -> Result<Duration> + Copy + Send + 'static {
    move |address| {
        let start = Instant::now();
        let mut stream = TcpStream::connect(address)?;
        write_zeros(&mut stream, bytes)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut count = [0; 8];
        stream.read_exact(&mut count)?;
        expect(bytes, u64::from_be_bytes(count))?;
        Ok(start.elapsed())
    }
}

/// The time to open connections and to read a byte from each.
pub(super) fn at_once(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, |clients, _| {
        let open = |address| -> Result<Duration> {
            let start = Instant::now();
            open_many(address)?;
            Ok(start.elapsed())
        };
        clients.pairs(bench.depth.long(), Port::Hold, open).map(Throughput)
    })
}

/// The launcher's own memory, in MiB, while connections are open.
pub(super) fn memory(bench: &Bench<'_>) -> Result<Measured> {
    measure(bench, |clients, session| {
        let address = clients.address(Port::Hold, Side::Stack);
        let (pid, (sender, result)) = (session.serve.pid(), channel());
        clients.stack.run(move || {
            let held = open_many(address)?;
            let memory = host::memory(pid, "RssAnon");
            drop(held);
            let _ = sender.send(memory);
            Ok(Duration::ZERO)
        })?;
        result.recv()?.map(Mib)
    })
}

/// Opens connections, each of which has received a byte.
fn open_many(address: SocketAddr) -> Result<Vec<TcpStream>> {
    let open = |_| {
        // One after the other: the queue of a listener is shorter.
        let mut stream = TcpStream::connect(address)?;
        stream.read_exact(&mut [0])?;
        Ok(stream)
    };
    (0..MANY).map(open).collect()
}

/// The servers, one listener each.
#[derive(Clone, Copy)]
enum Port {
    /// Sends a byte and closes.
    Byte,
    /// Reads a number, and sends so many bytes.
    Download,
    /// Reads to the end, and sends the number of bytes.
    Upload,
    /// Sends a byte, and keeps the latest connections open.
    Hold,
}

impl Port {
    const ALL: [Port; 4] = [Port::Byte, Port::Download, Port::Upload, Port::Hold];

    fn serve(self, listener: &TcpListener) {
        let mut held = VecDeque::new();
        for mut stream in listener.incoming().flatten() {
            // A client that closes early fails its own measurement.
            let _ = match self {
                Port::Byte => stream.write_all(&[0]),
                Port::Download => {
                    let mut count = [0; 8];
                    let read = stream.read_exact(&mut count);
                    read.and_then(|()| write_zeros(&mut stream, u64::from_be_bytes(count)))
                }
                Port::Upload => {
                    drain(&mut stream).and_then(|count| stream.write_all(&count.to_be_bytes()))
                }
                Port::Hold => {
                    let written = stream.write_all(&[0]);
                    held.push_back(stream);
                    held.drain(..held.len().saturating_sub(MANY));
                    written
                }
            };
        }
    }
}

fn drain(stream: &mut TcpStream) -> std::io::Result<u64> {
    let mut block = vec![0; BLOCK];
    let mut total = 0;
    loop {
        match stream.read(&mut block)? {
            0 => return Ok(total),
            read => total += read as u64,
        }
    }
}

fn write_zeros(stream: &mut TcpStream, bytes: u64) -> std::io::Result<()> {
    let block = vec![0; BLOCK];
    let mut left = bytes;
    while left > 0 {
        let length = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        stream.write_all(&block[..length])?;
        left -= length as u64;
    }
    Ok(())
}

fn expect(expected: u64, arrived: u64) -> Result<()> {
    if arrived != expected {
        bail!("{arrived} of {expected} bytes arrived");
    }
    Ok(())
}

/// Measures in a session with a network by name.
fn measure(
    bench: &Bench<'_>,
    measure: impl FnOnce(&Clients, &Session) -> Result<Measured>,
) -> Result<Measured> {
    if !nix::unistd::Uid::effective().is_root() {
        return Ok(Absent("only root enters a container's network".to_owned()));
    }
    let listeners = Port::ALL.map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut ports = Vec::new();
    for (port, listener) in Port::ALL.into_iter().zip(listeners) {
        let listener = listener?;
        ports.push(listener.local_addr()?.port());
        thread::spawn(move || port.serve(&listener));
    }
    let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    let rule = format!("{NAME}:{list} address=127.0.0.1");
    let arguments = ["--net", "names", "--allow-net", &rule].map(str::to_owned);
    containers::in_session_with(bench, &arguments, |session| {
        measure(&Clients::start(session, ports)?, session)
    })
}

/// Both clients, and the servers' ports.
struct Clients {
    native: Client,
    stack: Client,
    /// The name's address in the stack.
    address: Ipv4Addr,
    ports: Vec<u16>,
}

#[derive(Clone, Copy)]
enum Side {
    Native,
    Stack,
}

impl Clients {
    fn start(session: &Session, ports: Vec<u16>) -> Result<Self> {
        let container = session.container.as_str();
        let read = |mut command: Command| shell::read(&mut command);
        let pid = read(engine(&["inspect", "--format", "{{.State.Pid}}", container]))?;
        let namespace = format!("/proc/{}/ns/net", pid.trim());
        let namespace =
            File::open(&namespace).with_context(|| format!("cannot open {namespace}"))?;
        let hosts = read(engine(&["exec", container, "getent", "hosts", NAME]))?;
        let address = hosts.split_whitespace().next().context("the name has no address")?;
        let (native, stack) = (Client::start(None), Client::start(Some(namespace)));
        Ok(Clients { native, stack, address: address.parse()?, ports })
    }

    fn address(&self, port: Port, side: Side) -> SocketAddr {
        let number = self.ports.get(port as usize).copied().unwrap_or_default();
        match side {
            Side::Native => (Ipv4Addr::LOCALHOST, number).into(),
            Side::Stack => (self.address, number).into(),
        }
    }

    fn pairs(
        &self,
        rounds: usize,
        port: Port,
        pass: impl Fn(SocketAddr) -> Result<Duration> + Copy + Send + 'static,
    ) -> Result<Pairs> {
        let [native, stack] = [Side::Native, Side::Stack].map(|side| self.address(port, side));
        Pairs::measure(
            rounds,
            || self.native.run(move || pass(native)),
            || self.stack.run(move || pass(stack)),
        )
    }
}

type Task = Box<dyn FnOnce() -> Result<Duration> + Send>;

/// A thread, perhaps in another network namespace.
struct Client {
    tasks: Sender<Task>,
    times: Receiver<Result<Duration>>,
}

impl Client {
    fn start(namespace: Option<File>) -> Self {
        let (tasks, incoming) = channel::<Task>();
        let (outgoing, times) = channel();
        thread::spawn(move || {
            let entered = namespace.map_or(Ok(()), |file| setns(file, CloneFlags::CLONE_NEWNET));
            for task in incoming {
                let time =
                    entered.context("cannot enter the container's network").and_then(|()| task());
                if outgoing.send(time).is_err() {
                    return;
                }
            }
        });
        Client { tasks, times }
    }

    /// Runs a task on the thread.
    fn run(&self, task: impl FnOnce() -> Result<Duration> + Send + 'static) -> Result<Duration> {
        self.tasks.send(Box::new(task)).ok().context("the client has ended")?;
        self.times.recv().context("the client has ended")?
    }
}
