//! Embeds every file of `tools/`, so that a new table is one file.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let dir = Path::new(&root).join("tools");
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut paths: Vec<_> =
        fs::read_dir(&dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let rows = paths.iter().map(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("    ({name:?}, include_str!({:?})),\n", path.display().to_string())
    });
    let table = format!("&[\n{}]\n", rows.collect::<String>());
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("tools.rs"), table)
}
