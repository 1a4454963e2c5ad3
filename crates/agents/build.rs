//! Embeds every file of `known/`, so that a new agent is one file.

include!("../embed_files.rs");

fn main() -> std::io::Result<()> {
    embed_files("known", Some("toml"))
}
