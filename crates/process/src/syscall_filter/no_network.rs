//! The system calls that a call without network is refused (`spec/confinement.md#no-network`).

use libc::{ENETUNREACH, ENOSYS, EPERM};

use super::table::{Condition, FAMILY_IN_MEMORY, Row, plain_row, same};

/// PTRACE_ATTACH and PTRACE_SEIZE. Other requests are about processes that are traced already.
const ATTACHES: Condition = Condition::OneOf { argument: 0, numbers: &[16, 0x4206] };

/// AF_UNIX.
const LOCAL: Condition = Condition::NoneOf { argument: 0, numbers: &[1] };

/// Numbers of x86-64, i386, aarch64 and arm.
#[rustfmt::skip]
pub(super) const TABLE: &[Row] = {
    const NONE: Option<u32> = None;
    &[
        plain_row("io_uring_setup", same(425), Condition::Always, ENOSYS),
        plain_row("io_uring_enter", same(426), Condition::Always, ENOSYS),
        plain_row("io_uring_register", same(427), Condition::Always, ENOSYS),
        plain_row("socket", [Some(41), Some(359), Some(198), Some(281)], Condition::NetworkFamily, ENETUNREACH),
        plain_row("socketpair", [Some(53), Some(360), Some(199), Some(288)], LOCAL, ENETUNREACH),
        plain_row("socketcall", [NONE, Some(102), NONE, Some(102)], FAMILY_IN_MEMORY, ENETUNREACH),
        plain_row("ptrace", [Some(101), Some(26), Some(117), Some(26)], ATTACHES, EPERM),
        plain_row("process_vm_writev", [Some(311), Some(348), Some(271), Some(377)], Condition::Always, EPERM),
        plain_row("pidfd_getfd", same(438), Condition::Always, EPERM),
        // The kernel starts a program of the machine for some keys, such as `dns_resolver`.
        plain_row("request_key", [Some(249), Some(287), Some(218), Some(310)], Condition::Always, ENOSYS),
    ]
};

#[cfg(test)]
mod tests {
    use super::super::no_network;
    use super::super::program::ARCHS;
    use super::super::program::tests::run;
    use super::*;

    /// Runs a call on all architectures that have it.
    #[track_caller]
    fn check(name: &str, arguments: &[u64], expected: Result<(), i32>) {
        let program = no_network().unwrap();
        let row = TABLE.iter().find(|row| row.name == name).unwrap();
        let mut count = 0;
        for (arch, code) in ARCHS {
            let Some(number) = row.number(arch) else { continue };
            let found = run(program, code, number, arguments);
            assert_eq!(found, expected, "{name} {arguments:?} {arch:?}");
            count += 1;
        }
        assert!(count > 1);
    }

    #[test]
    fn only_local_sockets_remain() {
        for family in 0..64 {
            let (socket, pair) = match family {
                1 => (Ok(()), Ok(())),
                16 => (Ok(()), Err(ENETUNREACH)),
                _ => (Err(ENETUNREACH), Err(ENETUNREACH)),
            };
            check("socket", &[family, 1, 0], socket);
            check("socketpair", &[family, 1, 0], pair);
        }
        // Netlink but for routes: audit, netfilter, generic.
        for protocol in [9, 12, 16, 1 << 32 | 9] {
            check("socket", &[16, 3, protocol], Err(ENETUNREACH));
        }
        // The kernel reads ints.
        check("socket", &[1 << 32 | 2, 1, 0], Err(ENETUNREACH));
        check("socket", &[1 << 32 | 1, 1, 6], Ok(()));
        // SYS_SOCKET, SYS_SOCKETPAIR, SYS_CONNECT.
        for (call, expected) in [(1, Err(ENETUNREACH)), (8, Err(ENETUNREACH)), (3, Ok(()))] {
            check("socketcall", &[call, 0], expected);
        }
    }

    #[test]
    fn no_other_process_lends_its_network() {
        for name in ["io_uring_setup", "io_uring_enter", "io_uring_register", "request_key"] {
            check(name, &[], Err(ENOSYS));
        }
        for name in ["process_vm_writev", "pidfd_getfd"] {
            check(name, &[1, 2, 3], Err(EPERM));
        }
        // TRACEME, PEEKDATA, ATTACH, SEIZE.
        for (request, expected) in
            [(0, Ok(())), (2, Ok(())), (16, Err(EPERM)), (0x4206, Err(EPERM))]
        {
            check("ptrace", &[request, 1], expected);
        }
    }

    #[test]
    fn other_architectures_and_calls() {
        let program = no_network().unwrap();
        let (_, x86_64) = ARCHS[0];
        // x32: socket, and a call that the table lacks.
        for number in [41, 0] {
            assert_eq!(run(program, x86_64, 0x4000_0000 | number, &[1]), Err(ENOSYS));
        }
        // PowerPC.
        assert_eq!(run(program, 0x8000_0015, 1, &[]), Err(ENOSYS));
        for (_, code) in ARCHS {
            for number in [0, 1, 3, 4, 11, 59, 220, 221] {
                assert_eq!(run(program, code, number, &[]), Ok(()), "{number}");
            }
        }
    }
}
