//! `images list`: the images an engine has, with size and age.

use anyhow::Result;

use super::engine::Engine;
use crate::{shell, table};

/// The label of every image that xtask builds; its value is the recipe's name.
pub(super) const IMAGE: &str = "dev.aifo.image";

/// Prints the table.
pub(super) fn list(engine: Engine) -> Result<()> {
    let filter = format!("label={IMAGE}");
    let args = ["images", "--filter", &filter, "--filter", "dangling=false", "--format", FORMAT];
    let rows = rows(&shell::read(&mut engine.command(args))?);
    if rows.is_empty() {
        eprintln!(
            "{} has no image built by xtask\nhint: build them with: cargo xtask images build",
            engine.name()
        );
        return Ok(());
    }
    print!("{}", table::layout(["image", "tag", "size", "age"], &rows));
    Ok(())
}

const FORMAT: &str = "{{.Repository}}\t{{.Tag}}\t{{.Size}}\t{{.CreatedSince}}";

fn rows(listing: &str) -> Vec<[String; 4]> {
    let row = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        cells.try_into().ok()
    };
    let mut rows: Vec<[String; 4]> = listing.lines().filter_map(row).collect();
    rows.sort();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_of_their_names() {
        let listing = "b\tlatest\t1 MB\t2 hours ago\na\tlatest\t2 MB\t3 days ago\n";
        let rows = rows(listing);
        assert_eq!(rows[0], ["a", "latest", "2 MB", "3 days ago"]);
        assert_eq!(rows.len(), 2);
    }
}
