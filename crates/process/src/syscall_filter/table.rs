//! The restricted system calls, with their numbers per architecture.

use libc::{EAFNOSUPPORT, ENOSYS, EPERM, c_int};

use super::Restriction;

/// Architectures, in the order of a row's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arch {
    X86_64,
    I386,
    Aarch64,
    Arm,
}

/// A condition on the arguments. A filter sees registers, no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    /// The argument has one of these bits.
    AnyBit {
        argument: u8,
        bits: u32,
    },
    /// The flags create a file, and the mode has one of these bits.
    CreatesWith {
        flags: u8,
        mode: u8,
        bits: u32,
    },
    /// The argument is one of these numbers.
    OneOf {
        argument: u8,
        numbers: &'static [u32],
    },
    /// The argument is none of these numbers.
    NoneOf {
        argument: u8,
        numbers: &'static [u32],
    },
    /// The address family is neither unix nor routing messages of netlink.
    NetworkFamily,
    /// The first argument is not 0, and neither is the third.
    OtherProcessAndNewValue,
}

/// A restricted system call.
pub(super) struct Row {
    /// The restriction that the row is part of; `None` in the table of a call without network.
    pub(super) restriction: Option<Restriction>,
    #[cfg_attr(not(test), allow(dead_code, reason = "names the row"))]
    pub(super) name: &'static str,
    pub(super) condition: Condition,
    pub(super) errno: c_int,
    numbers: [Option<u32>; 4],
}

impl Row {
    pub(super) fn number(&self, arch: Arch) -> Option<u32> {
        self.numbers[arch as usize]
    }
}

const SET_UID: u32 = 0o4000;
const SET_ID: u32 = 0o6000;

const fn mode(argument: u8, bits: u32) -> Condition {
    Condition::AnyBit { argument, bits }
}

/// AF_UNIX, AF_INET, AF_INET6, AF_NETLINK.
const FAMILY: Condition = Condition::NoneOf { argument: 0, numbers: &[1, 2, 10, 16] };

/// SYS_SOCKET and SYS_SOCKETPAIR, whose family is in memory.
pub(super) const FAMILY_IN_MEMORY: Condition = Condition::OneOf { argument: 0, numbers: &[1, 8] };

pub(super) const fn same(number: u32) -> [Option<u32>; 4] {
    [Some(number); 4]
}

/// Returns a row of no restriction.
pub(super) const fn plain_row(
    name: &'static str,
    numbers: [Option<u32>; 4],
    condition: Condition,
    errno: c_int,
) -> Row {
    Row { restriction: None, name, condition, errno, numbers }
}

const fn row(
    restriction: Restriction,
    name: &'static str,
    numbers: [Option<u32>; 4],
    condition: Condition,
    errno: c_int,
) -> Row {
    Row { restriction: Some(restriction), name, condition, errno, numbers }
}

/// Numbers of x86-64, i386, aarch64 and arm.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    use Restriction::{IoUring, Openat2, OtherLimits, SetId, SocketFamilies};
    const NONE: Option<u32> = None;
    &[
        row(IoUring, "io_uring_setup", same(425), Condition::Always, ENOSYS),
        row(IoUring, "io_uring_enter", same(426), Condition::Always, ENOSYS),
        row(IoUring, "io_uring_register", same(427), Condition::Always, ENOSYS),
        row(Openat2, "openat2", same(437), Condition::Always, ENOSYS),
        row(SocketFamilies, "socket", [Some(41), Some(359), Some(198), Some(281)], FAMILY, EAFNOSUPPORT),
        row(SocketFamilies, "socketpair", [Some(53), Some(360), Some(199), Some(288)], FAMILY, EAFNOSUPPORT),
        row(SocketFamilies, "socketcall", [NONE, Some(102), NONE, Some(102)], FAMILY_IN_MEMORY, EAFNOSUPPORT),
        row(SetId, "chmod", [Some(90), Some(15), NONE, Some(15)], mode(1, SET_UID), EPERM),
        row(SetId, "fchmod", [Some(91), Some(94), Some(52), Some(94)], mode(1, SET_UID), EPERM),
        row(SetId, "fchmodat", [Some(268), Some(306), Some(53), Some(333)], mode(2, SET_UID), EPERM),
        row(SetId, "fchmodat2", same(452), mode(2, SET_UID), EPERM),
        row(SetId, "creat", [Some(85), Some(8), NONE, Some(8)], mode(1, SET_ID), EPERM),
        row(SetId, "open", [Some(2), Some(5), NONE, Some(5)],
            Condition::CreatesWith { flags: 1, mode: 2, bits: SET_ID }, EPERM),
        row(SetId, "openat", [Some(257), Some(295), Some(56), Some(322)],
            Condition::CreatesWith { flags: 2, mode: 3, bits: SET_ID }, EPERM),
        row(SetId, "mknod", [Some(133), Some(14), NONE, Some(14)], mode(1, SET_ID), EPERM),
        row(SetId, "mknodat", [Some(259), Some(297), Some(33), Some(324)], mode(2, SET_ID), EPERM),
        row(OtherLimits, "prlimit64", [Some(302), Some(340), Some(261), Some(369)],
            Condition::OtherProcessAndNewValue, EPERM),
    ]
};
