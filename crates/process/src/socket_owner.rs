//! Finding the processes that hold a socket, by its port.

use std::fs;
use std::io::Read;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getpid};

use crate::descendants::all_processes;

/// The transport of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketTable {
    /// TCP over IPv4 and IPv6.
    Tcp,
    /// UDP over IPv4 and IPv6.
    Udp,
}

/// More than the kernel lists for some 30,000 sockets.
const MAX_TABLE: u64 = 4 << 20;

/// The time of a search. A sidecar has few processes; a machine may have many.
const MAX_TIME: Duration = Duration::from_millis(20);

/// Returns the processes with a descriptor of a socket that is bound to `port` in this process's network
/// namespace. Listeners do not count, and neither does this process. Sees the processes of this PID
/// namespace whose descriptors the user may read, as far as a search of 20 ms gets.
pub fn socket_owners(table: SocketTable, port: u16) -> Vec<Pid> {
    let names = match table {
        SocketTable::Tcp => ["tcp", "tcp6"],
        SocketTable::Udp => ["udp", "udp6"],
    };
    let links: Vec<String> = names
        .iter()
        .flat_map(|name| sockets_at(&read_table(name), table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if links.is_empty() {
        return Vec::new();
    }
    let deadline = Instant::now() + MAX_TIME;
    let processes = all_processes().take_while(|_| Instant::now() < deadline);
    processes.filter(|pid| *pid != getpid() && holds(*pid, &links)).collect()
}

fn read_table(name: &str) -> String {
    let mut text = String::new();
    // There is no table without IPv6.
    if let Ok(file) = fs::File::open(format!("/proc/self/net/{name}")) {
        let _ = file.take(MAX_TABLE).read_to_string(&mut text);
    }
    text
}

/// Returns the inodes of the sockets with this local port in a table of the kernel.
fn sockets_at(text: &str, table: SocketTable, port: u16) -> Vec<u64> {
    let inode = |line: &str| {
        // sl, local address, remote address, state, queues, timer, retransmits, uid, timeout, inode
        let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
        let [_, local, _, state, _, _, _, _, _, inode] = fields[..] else { return None };
        let (_, local_port) = local.rsplit_once(':')?;
        let is_listener = table == SocketTable::Tcp && state == LISTEN;
        let is_at_port = u16::from_str_radix(local_port, 16) == Ok(port);
        // A socket that its process has closed has inode 0.
        inode.parse().ok().filter(|inode| is_at_port && !is_listener && *inode != 0)
    };
    text.lines().skip(1).filter_map(inode).collect()
}

/// `TCP_LISTEN` of the kernel.
const LISTEN: &str = "0A";

fn holds(pid: Pid, links: &[String]) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.to_str().is_some_and(|target| links.iter().any(|link| link == target)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::OwnedFd;
    use std::process::{Command, Stdio};

    use super::*;

    /// Searches until it finds an owner: on a busy machine one search may reach its time limit.
    fn found(table: SocketTable, port: u16) -> Vec<Pid> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let owners = socket_owners(table, port);
            if !owners.is_empty() || Instant::now() > deadline {
                return owners;
            }
        }
    }

    #[test]
    fn a_socket_has_the_process_that_holds_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagram = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tcp = client.local_addr().unwrap().port();
        let udp = datagram.local_addr().unwrap().port();
        assert_eq!(socket_owners(SocketTable::Tcp, tcp), [], "this process does not count");
        let _guard = crate::reaper::lock_children();
        let mut child = Command::new("sleep")
            .arg("1000")
            .stdin(OwnedFd::from(client))
            .stdout(OwnedFd::from(datagram))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        assert_eq!(found(SocketTable::Tcp, tcp), [pid]);
        assert_eq!(found(SocketTable::Udp, udp), [pid]);
        assert_eq!(socket_owners(SocketTable::Udp, tcp).contains(&pid), udp == tcp);
        let listening = listener.local_addr().unwrap().port();
        assert_eq!(socket_owners(SocketTable::Tcp, listening), []);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn tables_of_the_kernel() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
   0: 00000000:01BB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0\n\
   1: 0100007F:01BB 0100407F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0\n\
   2: 0100007F:9C40 0100407F:01BB 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0\n\
   3: 0000000000000000FFFF00000100007F:01BB 0:1 01 0:0 00:0 0  1000        0 13 1 0\n\
   4: damaged\n";
        assert_eq!(sockets_at(text, SocketTable::Tcp, 443), [12, 13]);
        assert_eq!(sockets_at(text, SocketTable::Udp, 443), [11, 12, 13]);
        assert_eq!(sockets_at(text, SocketTable::Tcp, 40000), []);
        assert_eq!(sockets_at("", SocketTable::Tcp, 443), []);
    }
}
