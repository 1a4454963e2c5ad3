//! Makes `aifo_entry` the entry of the ELF file (`spec/shim.md#early-start`).

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |part: &str, value: &str| {
        env::var(format!("CARGO_CFG_TARGET_{part}")).is_ok_and(|found| found == value)
    };
    // The condition of `aifo_process::entry!`.
    if is("ARCH", "x86_64") && is("OS", "linux") && is("ENV", "gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,--entry=aifo_entry");
    }
}
