//! Embeds every file of `recipes/`, so that a new recipe is one file.

include!("../embed_files.rs");

fn main() -> std::io::Result<()> {
    embed_files("recipes", None)
}
