//! A seccomp filter that refuses a few system calls to this process and all its descendants
//! (`spec/confinement.md#system-calls`).
//!
//! A container engine's own profile stays in force; the kernel applies the stricter of the two. Each
//! [`Restriction`] can be left out. A refused call returns an errno and ends no process, so that
//! programs fall back as they do on an older kernel.

mod no_network;
mod program;
mod table;

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::LazyLock;

use libc::sock_filter;

use crate::sys;

/// One restriction of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Restriction {
    /// `io_uring` runs operations that no filter sees: ENOSYS.
    IoUring,
    /// `openat2` passes a file mode in memory, where no filter sees it: ENOSYS.
    Openat2,
    /// Sockets other than unix, IPv4, IPv6 and netlink: EAFNOSUPPORT. Rare families reach the
    /// machine's hypervisor, or kernel code that is little tested.
    SocketFamilies,
    /// Files with the set-user-ID bit, and new regular files with the set-group-ID bit: EPERM. In a
    /// mounted directory such a program would run as its owner on the host.
    SetId,
    /// Setting resource limits of other processes: EPERM.
    OtherLimits,
    /// System calls of x32, and of architectures without a table: ENOSYS.
    OtherAbis,
}

impl Restriction {
    /// All restrictions.
    pub const ALL: [Restriction; 6] = [
        Restriction::IoUring,
        Restriction::Openat2,
        Restriction::SocketFamilies,
        Restriction::SetId,
        Restriction::OtherLimits,
        Restriction::OtherAbis,
    ];

    /// Returns the name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Restriction::IoUring => "io-uring",
            Restriction::Openat2 => "openat2",
            Restriction::SocketFamilies => "socket-families",
            Restriction::SetId => "set-id",
            Restriction::OtherLimits => "other-limits",
            Restriction::OtherAbis => "other-abis",
        }
    }
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name of no restriction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown restriction '{0}'")]
pub struct UnknownRestriction(pub String);

impl FromStr for Restriction {
    type Err = UnknownRestriction;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Restriction::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownRestriction(name.to_owned()))
    }
}

/// Makes a system call end this process, and all programs that it executes, by SIGSYS. For tests of
/// programs that must not make it.
#[doc(hidden)]
pub fn kill_at_system_call(number: u32) -> io::Result<()> {
    sys::no_new_privileges()?;
    sys::install_filter(&program::kill_at(number))?;
    Ok(())
}

/// Takes the network from this process and its descendants for good (`spec/confinement.md#no-network`),
/// and sets `no_new_privs`. Open sockets stay. Must be called before the process starts a thread.
///
/// Errors: the kernel has no seccomp filters, or this processor's architecture has no table.
pub fn give_up_network() -> io::Result<()> {
    let filter = sys::no_network::filter()?;
    Ok(sys::no_network::enter(&filter)?)
}

/// Returns the filter of [`give_up_network`]; `None` without a table.
pub(crate) fn no_network() -> Option<&'static [sock_filter]> {
    static PROGRAM: LazyLock<Vec<sock_filter>> =
        LazyLock::new(|| program::compile_table(no_network::TABLE.iter(), true));
    program::HAS_TABLE.then(|| PROGRAM.as_slice())
}

fn no_table() -> io::Error {
    let text = "no table of system calls for this processor's architecture";
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// Installs the filter for good, and sets `no_new_privs`. Must be called before the process starts a
/// thread.
///
/// Errors: the kernel has no seccomp filters, or this processor's architecture has no table.
pub fn restrict_system_calls(restrictions: &[Restriction]) -> io::Result<()> {
    if !program::HAS_TABLE {
        return Err(no_table());
    }
    let program = program::compile(restrictions);
    sys::no_new_privileges()?;
    sys::install_filter(&program)?;
    Ok(())
}
