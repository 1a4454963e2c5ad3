//! A static build of the shim.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A static shim at a fixed address, as `cargo xtask dist` builds it.
pub(crate) fn static_shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let target = "x86_64-unknown-linux-gnu";
        let default = Path::new(env!("CARGO_BIN_EXE_aifo-shim"));
        let directory = default.ancestors().nth(2).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "aifo-shim", "--target", target, "--target-dir"]);
        let flags = "-C target-feature=+crt-static -C relocation-model=static";
        cargo.arg(directory).env("RUSTFLAGS", flags).stdin(Stdio::null());
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(status.is_ok_and(|status| status.success()), "the static shim is not built");
        directory.join(target).join("debug/aifo-shim")
    })
}
