//! Embeds every file of `tools/`, so that a new table is one file.

include!("../embed_files.rs");

fn main() -> std::io::Result<()> {
    embed_files("tools", Some("toml"))
}
