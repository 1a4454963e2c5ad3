//! Compiles the table to a classic BPF program.
//!
//! The program compares the architecture, then the number. It reads arguments only of the calls in the
//! table: the kernel remembers which other numbers it always allows and does not run it for them.

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, ENOSYS,
    SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO, SECCOMP_RET_KILL_PROCESS, c_int, sock_filter,
};

use super::Restriction;
use super::table::{Arch, Condition, Row, TABLE};

/// True if this processor's architecture has a table.
pub(super) const HAS_TABLE: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// The architectures as the kernel numbers them (`AUDIT_ARCH_*`).
pub(super) const ARCHS: [(Arch, u32); 4] = [
    (Arch::X86_64, 0xc000_003e),
    (Arch::I386, 0x4000_0003),
    (Arch::Aarch64, 0xc000_00b7),
    (Arch::Arm, 0x4000_0028),
];

/// Numbers of x32 have this bit.
const X32_BIT: u32 = 0x4000_0000;

// Offsets in the kernel's `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

/// `O_CREAT`, and the bit of its own of `O_TMPFILE`.
const CREATES: u32 = 0o100 | 0o20_000_000;

/// Returns the program for these restrictions.
pub(super) fn compile(restrictions: &[Restriction]) -> Vec<sock_filter> {
    let is_in = |row: &&Row| row.restriction.is_some_and(|one| restrictions.contains(&one));
    let other_abis = restrictions.contains(&Restriction::OtherAbis);
    compile_table(TABLE.iter().filter(is_in), other_abis)
}

/// Returns the program for these rows. `other_abis` refuses calls of x32 and of architectures without a
/// table.
pub(super) fn compile_table<'a>(
    rows: impl Iterator<Item = &'a Row> + Clone,
    other_abis: bool,
) -> Vec<sock_filter> {
    let mut program = vec![load(ARCH)];
    for (arch, number) in ARCHS {
        let block = block(arch, rows.clone(), other_abis);
        // A block is too long for a conditional jump.
        program.push(jump(BPF_JEQ, number, 1, 0));
        program.push(skip(block.len()));
        program.extend(block);
    }
    program.push(if other_abis { refuse(ENOSYS) } else { allow() });
    program
}

/// Returns a program that ends a process at a system call of its own architecture.
pub(super) fn kill_at(number: u32) -> Vec<sock_filter> {
    let kill = statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    vec![load(NUMBER), jump(BPF_JEQ, number, 0, 1), kill, allow()]
}

/// Returns the instructions for one architecture. They end with a verdict.
fn block<'a>(
    arch: Arch,
    rows: impl Iterator<Item = &'a Row>,
    other_abis: bool,
) -> Vec<sock_filter> {
    let mut block = vec![load(NUMBER)];
    if arch == Arch::X86_64 && other_abis {
        block.extend([jump(BPF_JGE, X32_BIT, 0, 1), refuse(ENOSYS)]);
    }
    for row in rows {
        let Some(number) = row.number(arch) else { continue };
        let check = check(row);
        block.push(jump(BPF_JEQ, number, 0, jump_length(check.len())));
        block.extend(check);
    }
    block.push(allow());
    block
}

/// Returns the instructions that judge a call's arguments. They end with a verdict.
fn check(row: &Row) -> Vec<sock_filter> {
    let refuse = refuse(row.errno);
    let is_any = |argument: u8, numbers: &[u32]| {
        let mut code = vec![load(low(argument))];
        let mut rest = numbers.len();
        for number in numbers {
            rest -= 1;
            // Equal: past the other comparisons and the verdict for "none".
            code.push(jump(BPF_JEQ, *number, jump_length(rest + 1), 0));
        }
        code
    };
    match row.condition {
        Condition::Always => vec![refuse],
        Condition::AnyBit { argument, bits } => {
            vec![load(low(argument)), jump(BPF_JSET, bits, 0, 1), refuse, allow()]
        }
        Condition::CreatesWith { flags, mode, bits } => vec![
            load(low(flags)),
            jump(BPF_JSET, CREATES, 0, 3),
            load(low(mode)),
            jump(BPF_JSET, bits, 0, 1),
            refuse,
            allow(),
        ],
        Condition::OneOf { argument, numbers } => {
            let mut code = is_any(argument, numbers);
            code.extend([allow(), refuse]);
            code
        }
        Condition::NoneOf { argument, numbers } => {
            let mut code = is_any(argument, numbers);
            code.extend([refuse, allow()]);
            code
        }
        Condition::NetworkFamily => vec![
            load(low(0)),
            jump(BPF_JEQ, libc::AF_UNIX.unsigned_abs(), 3, 0),
            jump(BPF_JEQ, libc::AF_NETLINK.unsigned_abs(), 0, 3),
            load(low(2)),
            jump(BPF_JEQ, libc::NETLINK_ROUTE.unsigned_abs(), 0, 1),
            allow(),
            refuse,
        ],
        Condition::OtherProcessAndNewValue => vec![
            load(low(0)),
            jump(BPF_JEQ, 0, 4, 0),
            load(low(2)),
            jump(BPF_JEQ, 0, 0, 3),
            load(high(2)),
            jump(BPF_JEQ, 0, 0, 1),
            allow(),
            refuse,
        ],
    }
}

/// The offset of an argument's low word; all these architectures are little-endian.
fn low(argument: u8) -> u32 {
    ARGUMENTS + 8 * u32::from(argument)
}

fn high(argument: u8) -> u32 {
    low(argument) + 4
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

fn allow() -> sock_filter {
    statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
}

fn refuse(errno: c_int) -> sock_filter {
    statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errno.unsigned_abs())
}

fn skip(count: usize) -> sock_filter {
    statement(BPF_JMP, u32::try_from(count).unwrap_or(u32::MAX))
}

fn jump(comparison: u32, value: u32, if_true: u8, if_false: u8) -> sock_filter {
    sock_filter { jt: if_true, jf: if_false, ..statement(BPF_JMP | comparison | BPF_K, value) }
}

fn statement(code: u32, k: u32) -> sock_filter {
    // Every operation code fits in 16 bits.
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// A check has a dozen instructions at most, which the tests assert.
fn jump_length(count: usize) -> u8 {
    u8::try_from(count).unwrap_or(u8::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use libc::{EAFNOSUPPORT, EPERM};

    use super::*;

    const ALLOWED: Result<(), c_int> = Ok(());

    /// Runs a program on one call, as the kernel does.
    pub(in crate::syscall_filter) fn run(
        program: &[sock_filter],
        arch: u32,
        number: u32,
        arguments: &[u64],
    ) -> Result<(), c_int> {
        let mut data = [number, arch, 0, 0].map(u32::to_ne_bytes).concat();
        for index in 0..6 {
            data.extend(arguments.get(index).copied().unwrap_or_default().to_ne_bytes());
        }
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let code = u32::from(code);
            let branch = |taken: bool| usize::from(if taken { jt } else { jf });
            match code {
                _ if code == BPF_LD | BPF_W | BPF_ABS => {
                    let word = &data[k as usize..k as usize + 4];
                    accumulator = u32::from_ne_bytes(word.try_into().unwrap());
                }
                _ if code == BPF_JMP | BPF_JEQ => at += branch(accumulator == k),
                _ if code == BPF_JMP | BPF_JGE => at += branch(accumulator >= k),
                _ if code == BPF_JMP | BPF_JSET => at += branch(accumulator & k != 0),
                _ if code == BPF_JMP => at += k as usize,
                _ if code == BPF_RET | BPF_K => {
                    return match k {
                        SECCOMP_RET_ALLOW => Ok(()),
                        _ => Err((k & 0xffff) as c_int),
                    };
                }
                _ => panic!("no code {code}"),
            }
        }
    }

    /// Runs a named call on each architecture that has it; all must agree.
    fn verdict(name: &str, arguments: &[u64]) -> Result<(), c_int> {
        let program = compile(&Restriction::ALL);
        let row = TABLE.iter().find(|row| row.name == name).unwrap();
        let runs = ARCHS.into_iter().filter_map(|(arch, code)| {
            row.number(arch).map(|number| run(&program, code, number, arguments))
        });
        let runs: Vec<_> = runs.collect();
        assert!(runs.windows(2).all(|pair| pair[0] == pair[1]), "{name}: {runs:?}");
        runs[0]
    }

    #[test]
    fn io_uring_and_openat2_do_not_exist() {
        for name in ["io_uring_setup", "io_uring_enter", "io_uring_register", "openat2"] {
            assert_eq!(verdict(name, &[]), Err(ENOSYS), "{name}");
        }
    }

    #[test]
    fn four_socket_families_remain() {
        for name in ["socket", "socketpair"] {
            for family in 0..64 {
                let expected = match family {
                    1 | 2 | 10 | 16 => ALLOWED,
                    _ => Err(EAFNOSUPPORT),
                };
                assert_eq!(verdict(name, &[family]), expected, "{name} {family}");
            }
            // The kernel reads an int.
            assert_eq!(verdict(name, &[1 << 32 | 40]), Err(EAFNOSUPPORT));
        }
    }

    #[test]
    fn no_file_gets_the_set_user_id_bit() {
        for (name, mode) in [("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)] {
            let with = |bits: u64| {
                let mut arguments = [0; 6];
                arguments[mode] = bits;
                verdict(name, &arguments)
            };
            assert_eq!(with(0o4755), Err(EPERM), "{name}");
            assert_eq!(with(0o6755), Err(EPERM), "{name}");
            // Directories of a team keep their group.
            assert_eq!(with(0o2775), ALLOWED, "{name}");
            assert_eq!(with(0o1777), ALLOWED, "{name}");
        }
        assert_eq!(verdict("mknodat", &[0, 0, 0o102_755]), Err(EPERM));
        assert_eq!(verdict("mknodat", &[0, 0, 0o104_755]), Err(EPERM));
        assert_eq!(verdict("mknodat", &[0, 0, 0o100_755]), ALLOWED);
    }

    #[test]
    fn a_mode_matters_only_where_a_file_is_created() {
        let openat = |flags: u64, mode: u64| verdict("openat", &[0, 0, flags, mode]);
        assert_eq!(openat(0o100, 0o4755), Err(EPERM));
        assert_eq!(openat(0o102, 0o2755), Err(EPERM));
        assert_eq!(openat(0o20_200_001, 0o4644), Err(EPERM), "O_TMPFILE");
        assert_eq!(openat(0o101, 0o1644), ALLOWED);
        assert_eq!(openat(0, 0o6777), ALLOWED, "without O_CREAT the register is arbitrary");
        assert_eq!(openat(0o200_000, 0o6777), ALLOWED, "O_DIRECTORY");
    }

    #[test]
    fn limits_of_other_processes_are_only_read() {
        let prlimit = |pid: u64, new: u64| verdict("prlimit64", &[pid, 7, new, 0]);
        assert_eq!(prlimit(0, 0xffff_0000), ALLOWED);
        assert_eq!(prlimit(1, 0), ALLOWED);
        assert_eq!(prlimit(1, 0xffff_0000), Err(EPERM));
        assert_eq!(prlimit(1, 0x7fff_0000_0000), Err(EPERM), "the low word is 0");
    }

    #[test]
    fn calls_of_older_architectures() {
        for (name, arguments) in [("chmod", [0, 0o4755]), ("creat", [0, 0o2755])] {
            assert_eq!(verdict(name, &arguments), Err(EPERM), "{name}");
        }
        assert_eq!(verdict("mknod", &[0, 0o104_755]), Err(EPERM));
        assert_eq!(verdict("open", &[0, 0o100, 0o4755]), Err(EPERM));
        assert_eq!(verdict("open", &[0, 0, 0o4755]), ALLOWED);
        // SYS_SOCKET, SYS_SOCKETPAIR, SYS_CONNECT.
        assert_eq!(verdict("socketcall", &[1]), Err(EAFNOSUPPORT));
        assert_eq!(verdict("socketcall", &[8]), Err(EAFNOSUPPORT));
        assert_eq!(verdict("socketcall", &[3]), ALLOWED);
    }

    #[test]
    fn other_abis_do_not_exist() {
        let program = compile(&Restriction::ALL);
        let (_, x86_64) = ARCHS[0];
        assert_eq!(run(&program, 0xc000_0015, 0, &[]), Err(ENOSYS));
        assert_eq!(run(&program, x86_64, X32_BIT | 1, &[]), Err(ENOSYS));
        assert_eq!(run(&compile(&[]), 0xc000_0015, 0, &[]), ALLOWED);
    }

    #[test]
    fn each_restriction_can_be_left_out() {
        for left_out in Restriction::ALL {
            let kept: Vec<_> = Restriction::ALL.into_iter().filter(|it| *it != left_out).collect();
            let program = compile(&kept);
            for row in TABLE.iter().filter(|row| row.restriction == Some(left_out)) {
                for (arch, code) in ARCHS {
                    let Some(number) = row.number(arch) else { continue };
                    let all_bits = [u64::MAX; 6];
                    assert_eq!(run(&program, code, number, &all_bits), ALLOWED, "{}", row.name);
                }
            }
        }
    }

    #[test]
    fn every_jump_ends_in_a_verdict() {
        for row in TABLE {
            assert!(check(row).len() < usize::from(u8::MAX), "{}", row.name);
        }
        let program = compile(&Restriction::ALL);
        assert!(program.len() < 4096, "the kernel's limit");
        for (_, code) in ARCHS {
            for number in 0..600 {
                let _ = run(&program, code, number, &[u64::MAX; 6]);
                let _ = run(&program, code, number, &[]);
            }
        }
    }

    #[test]
    fn names() {
        for restriction in Restriction::ALL {
            assert_eq!(restriction.to_string().parse(), Ok(restriction));
        }
        assert!("io_uring".parse::<Restriction>().is_err());
    }
}
