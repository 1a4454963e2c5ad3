//! A network between a browser and a server, which a test interrupts.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Forwards the connections to a port of 127.0.0.1 from the same port of [`TestNetwork::ADDRESS`].
#[derive(Debug)]
pub struct TestNetwork {
    shared: Arc<Shared>,
    port: u16,
}

#[derive(Debug, Default)]
struct Shared {
    network: Mutex<Network>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Network {
    state: State,
    /// Both ends of every connection.
    connections: Vec<TcpStream>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Forwards.
    #[default]
    Up,
    /// Forwards nothing and closes nothing.
    Silent,
    /// Closes every connection.
    Down,
    /// The test has ended.
    Removed,
}

impl TestNetwork {
    /// The address of its listener.
    pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

    /// A network in front of a port.
    #[track_caller]
    pub fn new(port: u16) -> Self {
        let listener = TcpListener::bind((Self::ADDRESS, port)).expect("the port is free");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accepting.accept(&listener, port));
        TestNetwork { shared, port }
    }

    /// Closes every connection, and each new one at once.
    pub fn cut(&self) {
        self.shared.set(State::Down);
    }

    /// Stops forwarding, without a sign for either end.
    pub fn silence(&self) {
        self.shared.set(State::Silent);
    }

    /// Forwards again.
    pub fn heal(&self) {
        self.shared.set(State::Up);
    }
}

impl Drop for TestNetwork {
    fn drop(&mut self) {
        self.shared.set(State::Removed);
        // Wakes the listener.
        let _ = TcpStream::connect((Self::ADDRESS, self.port));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        let mut network = self.lock();
        network.state = state;
        if matches!(state, State::Down | State::Removed) {
            for connection in network.connections.drain(..) {
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
        drop(network);
        self.changed.notify_all();
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener, port: u16) {
        for browser in listener.incoming().flatten() {
            let mut network = self.lock();
            match network.state {
                State::Removed => return,
                State::Down => continue,
                State::Up | State::Silent => {}
            }
            let server = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
            let Ok(server) = TcpStream::connect(server) else { continue };
            for (from, to) in [(&browser, &server), (&server, &browser)] {
                let _ = from.set_nodelay(true);
                let (Ok(kept), Ok(from), Ok(to)) =
                    (from.try_clone(), from.try_clone(), to.try_clone())
                else {
                    continue;
                };
                network.connections.push(kept);
                let shared = Arc::clone(self);
                std::thread::spawn(move || shared.forward(from, to));
            }
        }
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let mut network = self.lock();
            while network.state == State::Silent {
                network = self.changed.wait(network).unwrap_or_else(PoisonError::into_inner);
            }
            drop(network);
            if to.write_all(buffer.get(..read).unwrap_or_default()).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
