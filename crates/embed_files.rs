// Included by the build scripts of crates that embed every file of a directory.

/// Writes `NAME.rs` for the directory NAME of the crate: a slice of pairs of a file's name and its text, by
/// name. Skips files with another extension.
fn embed_files(name: &str, extension: Option<&str>) -> std::io::Result<()> {
    use std::path::Path;
    use std::{env, fs, io};

    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let dir = Path::new(&root).join(name);
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut paths: Vec<_> =
        fs::read_dir(&dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| extension.is_none() || path.extension() == extension.map(str::as_ref));
    paths.sort();
    let rows = paths.iter().map(|path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        format!("    ({file:?}, include_str!({:?})),\n", path.display().to_string())
    });
    let table = format!("&[\n{}]\n", rows.collect::<String>());
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join(name).with_extension("rs"), table)
}
