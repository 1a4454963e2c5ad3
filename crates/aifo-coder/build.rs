//! Embeds every file of `help/`, so that the text of a new command is one file.

include!("../embed_files.rs");

fn main() -> std::io::Result<()> {
    embed_files("help", Some("txt"))
}
