//! Writes tables as constant data, from files: kinds from `kinds/`, the tools of `tools/`, the rules of
//! `rules.toml`. A session pays for those that it reads.

mod judge;
mod kinds;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("kinds.rs"), kinds::table()?)?;
    fs::write(out.join("tools.rs"), judge::tools()?)?;
    fs::write(out.join("rules.rs"), judge::rules()?)?;
    Ok(())
}

/// Returns the files of a directory of this crate, by name.
fn files(directory: &str) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let directory = of_crate(directory)?;
    let paths = fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Returns a path below this crate, and has this script run again when it changes.
fn of_crate(path: &str) -> Result<PathBuf, Box<dyn Error>> {
    let path = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join(path);
    println!("cargo::rerun-if-changed={}", path.display());
    Ok(path)
}
