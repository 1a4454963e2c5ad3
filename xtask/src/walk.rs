//! `cargo xtask walk`: goes a new user's way, and compares the output with snapshots.
//!
//! Each [`Story`] is a row of [`stories`]: commands as a user types them, in a new account. Its output
//! must equal `xtask/walk/NAME.txt`, after [`normal::text`] has replaced the parts that differ in every
//! run.

mod account;
mod normal;
mod stories;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;

use crate::images::Engine;
use crate::{dist, shell};
use account::{Account, Step};
use stories::STORIES;

const USAGE: &str = "usage: cargo xtask walk [--bless] [--archive FILE] [STORY..]";

/// A story: a row of [`STORIES`].
struct Story {
    /// The name, also of the snapshot.
    name: &'static str,
    /// One line for the reader of the snapshot.
    about: &'static str,
    /// The state of the account and its engine before the first command.
    start: Start,
    /// Programs of this machine that the commands call, beside those of every system.
    needs: &'static [&'static str],
    /// Files of the project, before the first command: name and text.
    files: &'static [(&'static str, &'static str)],
    /// The commands, typed one after the other into one shell, in the empty directory `~/project`.
    commands: &'static [&'static str],
}

/// The state before a story.
#[derive(Clone, Copy)]
enum Start {
    /// The archive is in the home directory.
    Downloaded,
    /// aifo is installed, and podman has no image. Docker does not admit the user.
    NoImages,
    /// aifo is installed, and docker has these images.
    Images(&'static [&'static str]),
}

/// Goes all stories, or the named ones. Prints the time of each, and fails if an output differs.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let flags = Flags::parse(args)?;
    let stories = flags.stories()?;
    let archive = match &flags.archive {
        Some(file) => std::path::absolute(file)?,
        None => dist::write_archive(&shell::root().join("target/archive"))?,
    };
    let mut differing = Vec::new();
    for story in stories {
        if let Some(reason) = missing(story) {
            println!("{:<14} skipped: {reason}", story.name);
            continue;
        }
        let start = Instant::now();
        let steps = go(story, &archive).with_context(|| format!("story '{}'", story.name))?;
        let time = start.elapsed();
        let difference = compare(story, &snapshot(story, &steps), flags.bless)?;
        let verdict = if difference.is_some() { "DIFFERS" } else { "ok" };
        println!("{:<14} {verdict:<7} {:>5.1} s{}", story.name, time.as_secs_f64(), slow(&steps));
        differing.extend(difference);
    }
    if !differing.is_empty() {
        bail!(
            "{} stories differ from their snapshots\n\n{}\n\
             hint: `cargo xtask walk --bless` rewrites the snapshots",
            differing.len(),
            differing.join("\n")
        );
    }
    Ok(())
}

/// Goes one story in a new account.
fn go(story: &Story, archive: &Path) -> Result<Vec<Step>> {
    let account = Account::new(archive, matches!(story.start, Start::Images(_)))?;
    if !matches!(story.start, Start::Downloaded) {
        account.install(archive)?;
    }
    for (name, text) in story.files {
        account.write(name, text)?;
    }
    account.type_in(story.commands)
}

/// The reason why a story cannot be gone on this machine.
fn missing(story: &Story) -> Option<String> {
    if let Some(program) = story.needs.iter().find(|it| shell::find_in_path(it).is_none()) {
        return Some(format!("'{program}' is not in PATH"));
    }
    let engine = match story.start {
        Start::Downloaded => return None,
        Start::NoImages if !geteuid().is_root() => {
            return Some("only root can go it as a user without images".to_owned());
        }
        Start::NoImages => Engine::Podman,
        Start::Images(_) => Engine::Docker,
    };
    if let Err(error) = engine.check_available() {
        return Some(format!("{}: {error}", engine.name()));
    }
    let Start::Images(images) = story.start else { return None };
    let is_absent = |image: &&&str| {
        let mut inspect = engine.command(["image", "inspect", "--format", "{{.Id}}", image]);
        !inspect.output().is_ok_and(|output| output.status.success())
    };
    let absent = images.iter().find(is_absent)?;
    Some(format!(
        "{} has no image {absent}: build it with 'aifo-coder images build'",
        engine.name()
    ))
}

/// The text of a snapshot.
fn snapshot(story: &Story, steps: &[Step]) -> String {
    let mut text = format!("# {}\n", story.about);
    for Step { command, output, status, .. } in steps {
        text += &format!("\n$ {}\n{}", command.replace('\n', "\n> "), normal::text(output));
        if *status != 0 {
            text += &format!("[exit {status}]\n");
        }
    }
    text
}

/// Compares with the snapshot, or writes it. Returns the difference as `diff` prints it.
fn compare(story: &Story, text: &str, bless: bool) -> Result<Option<String>> {
    let path = snapshot_path(story.name);
    if bless {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        return Ok(None);
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    Ok((before != text).then(|| format!("{}:\n{}", story.name, difference(&before, text))))
}

/// The lines that differ, with those that are new marked `+`.
fn difference(before: &str, after: &str) -> String {
    let diff = similar::TextDiff::from_lines(before, after);
    diff.unified_diff().context_radius(2).to_string()
}

/// The commands that took more than two seconds, with their times.
fn slow(steps: &[Step]) -> String {
    let slow = steps.iter().filter(|step| step.time > Duration::from_secs(2));
    let line = |step: &Step| {
        let first = step.command.lines().next().unwrap_or_default();
        format!("\n  {:>5.1} s  {first}", step.time.as_secs_f64())
    };
    slow.map(line).collect()
}

fn snapshot_path(name: &str) -> PathBuf {
    shell::root().join(format!("xtask/walk/{name}.txt"))
}

#[derive(Default)]
struct Flags {
    bless: bool,
    archive: Option<PathBuf>,
    names: Vec<String>,
}

impl Flags {
    fn parse(args: &[OsString]) -> Result<Self> {
        let mut flags = Flags::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.to_str().context(USAGE)? {
                "--bless" => flags.bless = true,
                "--archive" => flags.archive = Some(args.next().context(USAGE)?.into()),
                name if !name.starts_with('-') => flags.names.push(name.to_owned()),
                _ => bail!(USAGE),
            }
        }
        Ok(flags)
    }

    fn stories(&self) -> Result<Vec<&'static Story>> {
        if let Some(name) =
            self.names.iter().find(|name| !STORIES.iter().any(|it| it.name == **name))
        {
            let names: Vec<&str> = STORIES.iter().map(|story| story.name).collect();
            bail!("unknown story '{name}'\nhint: the stories are: {}", names.join(" "));
        }
        let is_named = |story: &&Story| {
            self.names.is_empty() || self.names.iter().any(|name| name == story.name)
        };
        Ok(STORIES.iter().filter(is_named).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_story_has_a_snapshot_and_every_snapshot_a_story() {
        let entries = fs::read_dir(shell::root().join("xtask/walk")).unwrap().flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        let mut expected: Vec<_> = STORIES.iter().map(|story| snapshot_path(story.name)).collect();
        files.sort();
        expected.sort();
        assert_eq!(files, expected);
        for story in STORIES {
            let text = fs::read_to_string(snapshot_path(story.name)).unwrap();
            let typed = text.lines().filter(|line| line.starts_with("$ ")).count();
            assert_eq!(typed, story.commands.len(), "{}", story.name);
        }
    }

    #[test]
    fn a_difference_is_shown_with_its_surroundings() {
        let text = difference("a\nb\nc\n", "a\nx\nc\n");
        assert!(text.contains("-b\n+x\n"), "{text}");
    }
}
