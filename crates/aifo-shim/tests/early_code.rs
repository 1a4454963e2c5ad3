//! The code that runs before the C library starts needs nothing of it
//! (`spec/shim.md#early-start`): no thread-local storage, and none of the functions that the C library
//! selects at its start.
//!
//! The test follows all calls and all addresses of functions from the entry in a disassembled static
//! build. Calls that end a process by a panic are left out, and so is the system's allocator, which the
//! arena uses after the start.
#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]

mod static_shim;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Range;
use std::process::Command;

use static_shim::static_shim;

#[derive(Debug, Default)]
struct Function {
    name: String,
    /// The addresses that its instructions call, jump to or load.
    targets: BTreeSet<u64>,
    /// An instruction that reads or writes thread-local storage.
    thread_local: Option<String>,
}

type Functions = BTreeMap<u64, Function>;

/// Functions that no early code may run; a part of the mangled name.
const LEFT_OUT: &[&str] = &[
    "panic",
    "handle_alloc_error",
    "handle_error",
    "capacity_overflow",
    "unwrap_failed",
    "expect_failed",
    "_fail",
    "_Unwind_Resume",
    "std..alloc..System",
];

/// Runs a program of the binutils; `None` without it.
fn run(program: &str, args: &[&str]) -> Option<String> {
    match Command::new(program).args(args).arg(static_shim()).output() {
        Ok(output) => {
            assert!(output.status.success(), "{program}: {}", output.status);
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{program}: {error}"),
    }
}

fn parse(code: &str) -> Functions {
    let mut functions = Functions::new();
    let mut current = None;
    for line in code.lines() {
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        if let Some((address, name)) =
            line.strip_suffix(">:").and_then(|line| line.split_once(" <"))
        {
            current = number(address);
            let function = functions.entry(current.unwrap_or_default()).or_default();
            function.name = name.to_owned();
            continue;
        }
        let function = current.and_then(|address| functions.get_mut(&address));
        let (Some(function), Some((_, instruction))) = (function, line.split_once(":\t")) else {
            continue;
        };
        if instruction.contains("%fs:") {
            function.thread_local = Some(line.trim().to_owned());
        }
        // `call 4d8c90 <name>`, `lea 0x1234(%rip),%rax  # 4d8c90 <name>`, `mov $0x4d8c90,%edi`
        let words = instruction.split(|c: char| c.is_whitespace() || ",$".contains(c));
        let numbers = words.filter_map(|word| number(word.strip_prefix("0x").unwrap_or(word)));
        function.targets.extend(numbers);
    }
    functions
}

/// Returns the addresses of the stubs of functions that the C library selects.
fn selected_functions(sections: &str) -> Range<u64> {
    let row =
        sections.lines().find(|line| line.contains(" .iplt ")).expect("a static glibc has it");
    let mut fields = row.split(" .iplt ").nth(1).unwrap().split_whitespace().skip(1);
    let mut next = || u64::from_str_radix(fields.next().unwrap(), 16).unwrap();
    let (address, _offset, size) = (next(), next(), next());
    address..address + size
}

/// Finds functions that early code must not run, each with its callers.
fn violations(functions: &Functions, first: &str, selected: &Range<u64>) -> (usize, Vec<String>) {
    let start = functions.iter().find(|(_, function)| function.name == first);
    let (start, _) = start.expect("the function exists");
    let mut callers = BTreeMap::from([(*start, None)]);
    let mut queue = vec![*start];
    let mut found = Vec::new();
    while let Some(address) = queue.pop() {
        let Some(function) = functions.get(&address) else { continue };
        let uses_selected = function.targets.iter().any(|target| selected.contains(target));
        if uses_selected || function.thread_local.is_some() {
            let mut path = format!("{:?}", function.thread_local);
            let mut next = Some(address);
            while let Some(at) = next {
                path += &format!("\n  in {}", functions[&at].name);
                next = callers[&at];
            }
            found.push(path);
        }
        for target in &function.targets {
            let is_code = functions
                .get(target)
                .is_some_and(|it| !LEFT_OUT.iter().any(|part| it.name.contains(part)));
            if is_code && !callers.contains_key(target) {
                callers.insert(*target, Some(address));
                queue.push(*target);
            }
        }
    }
    (callers.len(), found)
}

#[test]
fn code_before_the_c_library_needs_nothing_of_it() {
    let code = run("objdump", &["-d", "--no-show-raw-insn"]);
    let (Some(code), Some(sections)) = (code, run("readelf", &["-SW"])) else {
        eprintln!("skipped: no objdump or readelf");
        return;
    };
    let (functions, selected) = (parse(&code), selected_functions(&sections));
    let (count, found) = violations(&functions, "aifo_before_c_library", &selected);
    assert!(count > 500, "only {count} functions are reached");
    assert!(found.is_empty(), "{} of {count}:\n{}", found.len(), found.join("\n"));
    // The usual start uses both.
    let (_, found) = violations(&functions, "main", &selected);
    assert!(found.iter().any(|path| path.contains("%fs:")));
    assert!(found.iter().any(|path| path.starts_with("None")));
}
