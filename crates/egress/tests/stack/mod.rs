//! A network stack of the test: a thread with network and mount namespaces of its own, whose sockets the
//! gateway serves from outside.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use aifo_egress::{ConnectionEvent, Gateway, NetRules, Stack};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// A stack whose connections a gateway serves. The gateway ends with it.
pub(crate) struct ServedStack {
    namespace: Namespace,
    events: Arc<Mutex<Vec<ConnectionEvent>>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    gateway: Option<thread::JoinHandle<()>>,
}

impl ServedStack {
    /// Creates a stack and serves it. Errors: this user cannot create namespaces.
    pub(crate) fn start(rules: &[String], resolv_conf: &Path) -> io::Result<ServedStack> {
        let rules = Arc::new(NetRules::parse(rules).unwrap());
        let (namespace, stack) =
            Namespace::start(rules.ports().into_iter().collect(), resolv_conf)?;
        let events = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let shared = Arc::clone(&events);
        let gateway = thread::spawn(move || {
            let gateway = Gateway::new(rules, move |event| shared.lock().unwrap().push(event));
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    () = gateway.serve("tools".to_owned(), stack) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(ServedStack { namespace, events, stop: Some(stop), gateway: Some(gateway) })
    }

    /// Starts a program in the stack.
    pub(crate) fn spawn(&self, command: Command) -> io::Result<Child> {
        self.namespace.run(move || spawn(command))
    }

    /// Runs a function on a thread of the stack.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.namespace.run(task)
    }

    /// Returns the events of a name so far.
    pub(crate) fn events(&self, name: &str) -> Vec<ConnectionEvent> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|event| event.name == name).cloned().collect()
    }

    /// Ends the gateway, as its task ends when it is dropped.
    pub(crate) fn end_gateway(&mut self) {
        drop(self.stop.take());
        if let Some(gateway) = self.gateway.take() {
            gateway.join().unwrap();
        }
    }
}

/// A program that was written just before may still be open in a process that another thread starts.
fn spawn(mut command: Command) -> io::Result<Child> {
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                thread::sleep(Duration::from_millis(10));
            }
            spawned => return spawned,
        }
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// A thread in namespaces of its own. Its child processes are in them as well.
struct Namespace(Sender<Task>);

impl Namespace {
    fn start(ports: Vec<u16>, resolv_conf: &Path) -> io::Result<(Namespace, Stack)> {
        let resolv_conf = resolv_conf.to_owned();
        fs::write(&resolv_conf, "nameserver 127.0.0.1\n")?;
        let (sender, tasks) = channel::<Task>();
        let (report, result) = channel();
        thread::spawn(move || {
            let entered = enter(&resolv_conf).and_then(|()| bind(&ports));
            let is_entered = entered.is_ok();
            let _ = report.send(entered);
            if is_entered {
                tasks.into_iter().for_each(|task| task());
            }
        });
        let stack = result.recv().map_err(io::Error::other)??;
        Ok((Namespace(sender), stack))
    }

    fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (sender, result) = channel();
        let send = move || drop(sender.send(task()));
        self.0.send(Box::new(send)).map_err(|_| io::Error::other("the thread has ended"))?;
        result.recv().map_err(io::Error::other)?
    }
}

fn enter(resolv_conf: &Path) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some(resolv_conf), "/etc/resolv.conf", none, MsFlags::MS_BIND, none)?;
    set_loopback_up()
}

/// Binds as a runner does.
fn bind(ports: &[u16]) -> io::Result<Stack> {
    Ok(Stack {
        dns_udp: UdpSocket::bind("127.0.0.1:53")?,
        dns_tcp: TcpListener::bind("127.0.0.1:53")?,
        listeners: ports
            .iter()
            .map(|port| TcpListener::bind(("0.0.0.0", *port)))
            .collect::<Result<_, _>>()?,
    })
}

/// Sends RTM_NEWLINK with IFF_UP for the first interface.
fn set_loopback_up() -> io::Result<()> {
    let (kind, protocol) = (SockType::Raw, SockProtocol::NetlinkRoute);
    let routing = socket(AddressFamily::Netlink, kind, SockFlag::SOCK_CLOEXEC, protocol)?;
    // nlmsghdr: length, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, sequence number, port.
    let mut request =
        [&32_u32.to_ne_bytes()[..], &16_u16.to_ne_bytes(), &5_u16.to_ne_bytes(), &[0; 8]].concat();
    // ifinfomsg: family, type, index, flags, changed flags.
    request.extend([0; 4]);
    for word in [1_u32, 1, 1] {
        request.extend(word.to_ne_bytes());
    }
    sendto(routing.as_raw_fd(), &request, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut reply = [0; 256];
    let length = recv(routing.as_raw_fd(), &mut reply, MsgFlags::empty())?;
    // NLMSG_ERROR with the error number after the header; 0 is success.
    match reply.get(16..20) {
        Some([0, 0, 0, 0]) if length >= 20 => Ok(()),
        error => Err(io::Error::other(format!("cannot set the loopback interface up: {error:?}"))),
    }
}
