//! Benchmark tools with known behaviour: this binary under another name.
//!
//! `write N` writes N zero bytes; `wait` prints `ready` and sleeps until a signal ends it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Runs a fixture if `name` is one.
pub(crate) fn run(name: &str, args: &[OsString]) -> Option<ExitCode> {
    let result = match (name, args) {
        ("write", [count]) => {
            count.to_str()?.parse().map_err(io::Error::other).and_then(write_output)
        }
        ("wait", []) => wait(),
        _ => return None,
    };
    Some(if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_output(mut count: usize) -> io::Result<()> {
    // Not `Stdout`, which searches every block for a newline.
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let zeros = [0; 64 * 1024];
    while count > 0 {
        let block = &zeros[..zeros.len().min(count)];
        out.write_all(block)?;
        count -= block.len();
    }
    Ok(())
}

fn wait() -> io::Result<()> {
    println!("ready");
    thread::sleep(Duration::from_secs(600));
    Ok(())
}
