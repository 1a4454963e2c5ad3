//! Tests over the whole table of keys.

mod agents;
mod files;
mod network;
mod page;
mod permissions;
mod rules;
mod sources;

use std::path::Path;

use crate::{Config, File, Flags};

/// The configuration of a user's file and a workspace's.
fn of_files(user: &str, workspace: &str) -> Result<Config, String> {
    let file = |path: &str, text: &str| File::new(Path::new(path), text.to_owned());
    let mut config = Config::builtin();
    let applied = config.apply_user(&file("/u.toml", user));
    let tightened = applied.and_then(|()| config.tighten(&file("/w/.aifo.toml", workspace)));
    tightened.map(|()| config).map_err(|error| error.to_string())
}

fn of_user(text: &str) -> Result<Config, String> {
    of_files(text, "")
}

fn flags(long: &'static str, words: &[&str]) -> Flags {
    Flags::default().with(long, words.iter().map(|word| (*word).to_owned()).collect())
}
