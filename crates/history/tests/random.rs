//! Random scripts of calls, and undo of any of them (`spec/history.md#undo`).
//!
//! `AIFO_TEST_ROUNDS` sets how many undos are tried, `AIFO_TEST_SEED` the first seed; both are printed. The expectation knows nothing of
//! the crate: it compares the whole workspace before and after a call, before and after the undo.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use aifo_history::{Call, History, HistoryConfig, Selection, Store, UndoReport, UndoRequest};

/// A directory entry with everything that must come back.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    File(Vec<u8>, u32),
    Link(PathBuf),
    Directory(u32),
    /// The repository directory of a repository below the workspace's, which is not covered.
    Nested,
}

type Snapshot = BTreeMap<PathBuf, Entry>;

fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(root.join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            let metadata = entry.path().symlink_metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            let is_git = entry.file_name() == ".git";
            let value = match () {
                () if path == Path::new(".git") || is_background(&path) => continue,
                () if is_git => Entry::Nested,
                () if metadata.is_symlink() => Entry::Link(fs::read_link(entry.path()).unwrap()),
                () if metadata.is_dir() => {
                    pending.push(path.clone());
                    Entry::Directory(mode)
                }
                () => Entry::File(fs::read(entry.path()).unwrap(), mode),
            };
            found.insert(path, value);
        }
    }
    found
}

/// References, HEAD and index, as git tells them.
fn repository(root: &Path) -> String {
    ["for-each-ref", "symbolic-ref HEAD", "ls-files -s", "stash list"]
        .map(|words| git(root, words))
        .join("\n--\n")
}

fn git(root: &Path, words: &str) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a", "-c", "commit.gpgsign=false"]);
    git.args(words.split(' ')).current_dir(root);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true");
    let output = git.output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A generator of its own: a seed gives the same script everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        match from.len() {
            0 => None,
            count => from.get(self.below(count)),
        }
    }
}

struct Script {
    root: PathBuf,
    random: Random,
    serial: u32,
    log: Vec<String>,
}

impl Script {
    fn say(&mut self, text: String) {
        self.log.push(text);
    }

    /// A new line that is nowhere else.
    fn line(&mut self) -> String {
        self.serial += 1;
        format!("line {} {}\n", self.serial, self.random.next() % 1000)
    }

    fn entries(&self, is_kind: impl Fn(&Entry) -> bool) -> Vec<PathBuf> {
        let all = snapshot(&self.root);
        all.into_iter().filter(|(_, entry)| is_kind(entry)).map(|(path, _)| path).collect()
    }

    fn new_path(&mut self) -> PathBuf {
        let mut directories = self.entries(|entry| matches!(entry, Entry::Directory(_)));
        directories.push(PathBuf::new());
        let directory = self.random.pick(&directories).unwrap().clone();
        self.serial += 1;
        let names = ["f", "g.rs", "a b", "ü", "-x", "=", "~", "%41", "\\n", "n.ign"];
        let name = names[self.random.below(names.len())];
        // The same names again and again: objects of other kinds come to the same paths.
        directory.join(match self.random.below(3) {
            0 => name.to_owned(),
            _ => format!("{name}{}", self.serial % 7),
        })
    }

    /// One random change of the workspace; what the system refuses is no change.
    fn change(&mut self, with_git: bool) {
        let root = self.root.clone();
        let files = self.entries(|entry| matches!(entry, Entry::File(..)));
        let any = self.entries(|entry| *entry != Entry::Nested);
        let new = self.new_path();
        let what = self.random.below(if with_git { 21 } else { 12 });
        let file = self.random.pick(&files).cloned();
        let other = self.random.pick(&any).cloned();
        self.say(format!("  change {what} file {file:?} any {other:?} new {new:?}"));
        match what {
            0 | 1 => {
                let lines: String = (0..self.random.below(12)).map(|_| self.line()).collect();
                if root.join(&new).symlink_metadata().is_err() {
                    let _ = fs::write(root.join(&new), lines);
                }
            }
            2..=4 => {
                let line = self.line();
                if let Some(file) = file {
                    let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
                    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
                    let at = self.random.below(lines.len() + 1);
                    if self.random.below(3) == 0 && at < lines.len() {
                        lines.remove(at);
                    }
                    lines.insert(at.min(lines.len()), &line);
                    let _ = fs::write(root.join(&file), lines.concat());
                }
            }
            5 => {
                if let Some(file) = file {
                    let _ = fs::remove_file(root.join(file));
                }
            }
            6 => {
                if let Some(other) = other {
                    let _ = fs::rename(root.join(other), root.join(new));
                }
            }
            7 => {
                let mode = [0o644, 0o755, 0o600, 0o640, 0o444][self.random.below(5)];
                if let Some(file) = file {
                    let _ = fs::set_permissions(root.join(file), Permissions::from_mode(mode));
                }
            }
            8 => {
                let target = ["f", "../outside", "../outside/file", "ü", "."][self.random.below(5)];
                let _ = symlink(target, root.join(new));
            }
            9 => {
                let mode = [0o755, 0o700, 0o775][self.random.below(3)];
                // Not through a link that has the name already.
                if fs::create_dir(root.join(&new)).is_ok() {
                    fs::create_dir(root.join(&new).join("sub")).unwrap();
                    let _ = fs::set_permissions(root.join(&new), Permissions::from_mode(mode));
                }
            }
            10 => {
                if let Some(other) = other {
                    let at = root.join(other);
                    if at.symlink_metadata().is_ok_and(|it| it.is_dir()) {
                        let _ = fs::remove_dir_all(at);
                    }
                }
            }
            11 => {
                let nested = root.join(&new);
                if nested.symlink_metadata().is_err() && fs::create_dir(&nested).is_ok() {
                    git(&nested, "init -q");
                    fs::write(nested.join("inner"), self.line()).unwrap();
                    git(&nested, "add .");
                    git(&nested, "commit -q -m inner");
                }
            }
            12 => drop(git(&root, "add -A .")),
            13 => drop(git(&root, &format!("commit -q --allow-empty -m m{}", self.serial))),
            14 => drop(git(&root, "reset -q --hard HEAD~1")),
            15 => drop(git(&root, "clean -ffdxq")),
            16 => drop(git(&root, "stash -q -u")),
            17 => drop(git(&root, "rebase -q --onto HEAD~2 HEAD~1")),
            18 => drop(git(&root, "rebase --abort")),
            19 => drop(git(&root, "stash drop -q")),
            _ => drop(git(&root, &format!("checkout -q -B b{}", self.serial % 4))),
        }
    }
}

struct Session {
    history: History,
    ids: u32,
}

impl Session {
    fn start(workspace: &Path, store: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap();
        let git =
            std::env::split_paths(&path).map(|it| it.join("git")).find(|it| it.exists()).unwrap();
        let config = HistoryConfig {
            store: Store::new(git, path, store.to_owned()),
            session: "0123456789abcdef".to_owned(),
            workspace: workspace.to_owned(),
            with_secrets: false,
        };
        let history = History::start(config, |line| eprintln!("{line}")).unwrap();
        Session { history, ids: 0 }
    }

    fn begin(&mut self) -> String {
        self.ids += 1;
        let id = format!("call-{}", self.ids);
        let call = Call { id: id.clone(), tool: "sh".to_owned(), argv: String::new(), exit: None };
        let (sender, receiver) = channel();
        if self.history.call_starts(call, move || sender.send(()).unwrap()) {
            receiver.recv().unwrap();
        }
        id
    }

    fn end(&self, id: &str) {
        self.history.call_ended(id, 0);
    }

    fn settle(&self) {
        let (sender, receiver) = channel();
        self.history.query(move |answer| sender.send(answer).unwrap());
        receiver.recv().unwrap().unwrap();
    }

    fn undo(&self, id: &str) -> Result<UndoReport, String> {
        self.undo_of(Selection::Call(id.to_owned()))
    }

    fn undo_of(&self, selection: Selection) -> Result<UndoReport, String> {
        let (sender, receiver) = channel();
        let request = UndoRequest { selection, paths: Vec::new(), apply: true };
        self.history.undo(request, move |answer| sender.send(answer).unwrap());
        receiver.recv().unwrap().map_err(|error| error.to_string())
    }
}

#[test]
fn every_undo_restores_what_nothing_newer_changed() {
    let number = |name: &str, default| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (rounds, seed) = (number("AIFO_TEST_ROUNDS", 40), number("AIFO_TEST_SEED", 1));
    println!("{rounds} rounds from seed {seed}");
    let mut done = 0;
    let mut at = seed;
    while done < rounds {
        done += script(at, rounds - done);
        at += 1;
    }
    println!("{done} rounds, seeds {seed} to {}", at - 1);
}

/// A file to which a process of nobody appends lines with numbers, all the time.
const BACKGROUND: &str = "background.log";

fn is_background(path: &Path) -> bool {
    path.to_string_lossy().starts_with(BACKGROUND)
}

/// Appends until it is dropped.
struct Background {
    written: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    fn start(root: &Path) -> Self {
        let (written, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (number, over, path) = (written.clone(), ends.clone(), root.join(BACKGROUND));
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let next = number.load(Ordering::Relaxed) + 1;
                // An undo can exchange the file: then the line is in the old one, which the undo finds.
                let mut file = fs::File::options().append(true).create(true).open(&path).unwrap();
                writeln!(file, "background {next}").unwrap();
                number.store(next, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(700));
            }
        });
        Background { written, ends, thread: Some(thread) }
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns a line after this one that is neither in the file nor beside it.
    fn lost(&self, root: &Path, after: u64, until: u64) -> Option<u64> {
        let text = fs::read_to_string(root.join(BACKGROUND)).unwrap_or_default();
        let lines: std::collections::HashSet<&str> = text.lines().collect();
        (after + 1..=until).find(|number| !lines.contains(format!("background {number}").as_str()))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Undos of one session.
const PER_SESSION: u64 = 12;

fn script(seed: u64, most: u64) -> u64 {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("work");
    fs::create_dir(&root).unwrap();
    let outside = scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "outside").unwrap();
    let untouched = snapshot(&outside);
    let mut script =
        Script { root: root.clone(), random: Random(seed), serial: 0, log: Vec::new() };
    git(&root, "init -q");
    fs::write(root.join(".gitignore"), "*.ign\n").unwrap();
    for _ in 0..script.random.below(20) {
        script.change(false);
    }
    git(&root, "add -A .");
    git(&root, "commit -q -m first");
    let mut session = Session::start(&root, &scratch.path().join("store"));
    session.settle();
    // git would remove its file.
    let background = (script.random.below(4) == 0).then(|| Background::start(&root));
    let rounds = PER_SESSION.min(most);
    for round in 0..rounds {
        script.say(format!("round {round}"));
        let with_git = background.is_none() && script.random.below(3) == 0;
        match script.random.below(4) {
            0 => overlapping(&mut script, &mut session, with_git, seed),
            1 if background.is_none() => turn(&mut script, &mut session, with_git, seed),
            2 if background.is_none() => all_of(&mut script, &mut session, with_git, seed),
            _ => one_round(&mut script, &mut session, with_git, background.as_ref(), seed),
        }
    }
    drop(background);
    session.history.close();
    assert_eq!(snapshot(&outside), untouched, "seed {seed}");
    rounds
}

/// Two calls, of which the second begins before the first ends; one is undone.
fn overlapping(script: &mut Script, session: &mut Session, with_git: bool, seed: u64) {
    let root = script.root.clone();
    let changes = |script: &mut Script| {
        for _ in 0..=script.random.below(3) {
            script.change(with_git);
        }
    };
    let starts = [snapshot(&root)];
    let first = session.begin();
    changes(script);
    session.settle();
    let [first_before] = starts;
    let second_before = snapshot(&root);
    let second = session.begin();
    changes(script);
    session.end(&first);
    session.settle();
    let first_after = snapshot(&root);
    changes(script);
    session.end(&second);
    session.settle();
    let second_after = snapshot(&root);
    let (id, before, after) = match script.random.below(2) {
        0 => (first, first_before, first_after),
        _ => (second, second_before, second_after),
    };
    let current = snapshot(&root);
    script.say(format!(" undo {id}, which overlaps another"));
    let report = session.undo(&id);
    let result = snapshot(&root);
    if report.is_ok() {
        check(&before, &after, &current, &result).unwrap_or_else(|why| {
            panic!("seed {seed}: {why}\n{}\n{report:#?}", script.log.join("\n"))
        });
    } else {
        assert_eq!(current, result, "seed {seed}: {report:?}");
    }
}

/// A turn with calls and edits of the agent, and its undo.
fn turn(script: &mut Script, session: &mut Session, with_git: bool, seed: u64) {
    let root = script.root.clone();
    session.settle();
    session.history.turn_started();
    session.settle();
    let before = snapshot(&root);
    for _ in 0..=script.random.below(3) {
        let id = session.begin();
        for _ in 0..=script.random.below(4) {
            script.change(with_git);
        }
        session.end(&id);
        session.settle();
        script.change(false);
    }
    session.history.turn_ended();
    session.settle();
    let after = snapshot(&root);
    if before == after {
        return;
    }
    for _ in 0..script.random.below(3) {
        script.change(false);
    }
    session.settle();
    let current = snapshot(&root);
    script.say(" undo of the turn".to_owned());
    let report = session.undo_of(Selection::Turn);
    let result = snapshot(&root);
    // Files that no call has created may stay, as if they had been there before.
    let mut expected = before.clone();
    for (path, entry) in &after {
        let stays = current.get(path) == Some(entry) && result.get(path) == Some(entry);
        if stays && !before.contains_key(path) {
            expected.insert(path.clone(), entry.clone());
        }
    }
    if report.is_ok() {
        check(&expected, &after, &current, &result).unwrap_or_else(|why| {
            panic!("seed {seed}: {why}\n{}\n{report:#?}", script.log.join("\n"))
        });
    }
}

/// Calls that follow each other, and the undo of all, from the last to the first.
fn all_of(script: &mut Script, session: &mut Session, with_git: bool, seed: u64) {
    let root = script.root.clone();
    session.settle();
    let (before, repository_before) = (snapshot(&root), repository(&root));
    let mut ids = Vec::new();
    for _ in 0..=script.random.below(3) {
        ids.push(session.begin());
        for _ in 0..=script.random.below(5) {
            script.change(with_git);
        }
        session.end(&ids[ids.len() - 1]);
        session.settle();
    }
    script.say(format!(" undo of all: {ids:?}"));
    let after = snapshot(&root);
    let reports: Vec<_> = ids.iter().rev().map(|id| session.undo(id)).collect();
    let context = || format!("seed {seed}\n{}\n{reports:#?}", script.log.join("\n"));
    let result = snapshot(&root);
    // Else a call may have moved one, so that new objects stay.
    let is_lost =
        |(path, it): (&PathBuf, &Entry)| *it == Entry::Nested && !result.contains_key(path);
    if !before.iter().any(is_lost) {
        check(&before, &after, &after, &result)
            .unwrap_or_else(|why| panic!("{why}\n{}", context()));
    }
    assert_eq!(repository(&root), repository_before, "{}", context());
}

fn one_round(
    script: &mut Script,
    session: &mut Session,
    with_git: bool,
    background: Option<&Background>,
    seed: u64,
) {
    let root = script.root.clone();
    let written = || background.map_or(0, Background::written);
    // Some calls before, of which one is undone.
    let mut calls = Vec::new();
    for _ in 0..=script.random.below(3) {
        let (before, repository_before) = (snapshot(&root), repository(&root));
        let id = session.begin();
        script.say(format!(" {id}"));
        for _ in 0..=script.random.below(6) {
            script.change(with_git);
        }
        session.end(&id);
        session.settle();
        let after = (snapshot(&root), repository(&root), written());
        calls.push((id, before, repository_before, after));
        if script.random.below(2) == 0 {
            script.say(" user".to_owned());
            for _ in 0..script.random.below(3) {
                script.change(false);
            }
            session.settle();
        }
    }
    let (id, before, repository_before, (after, repository_after, written_after)) =
        script.random.pick(&calls).unwrap().clone();
    let written_before_undo = written();
    let (current, repository_current) = (snapshot(&root), repository(&root));
    script.say(format!(" undo {id}"));
    let report = session.undo(&id);
    let result = snapshot(&root);
    let said = script.log.join("\n");
    let context = || format!("seed {seed}, undo of {id}\n{said}\n{report:#?}");
    if let Some(background) = background {
        let lost = background.lost(&root, written_after, written_before_undo);
        assert_eq!(lost, None, "{}", context());
    }
    let Ok(report) = &report else {
        assert_eq!((&before, &result), (&after, &current), "{}", context());
        return;
    };
    check(&before, &after, &current, &result).unwrap_or_else(|why| panic!("{why}\n{}", context()));
    if repository_current == repository_after {
        assert_eq!(repository(&root), repository_before, "{}", context());
    }
    let Some(undo) = &report.id else { return };
    if script.random.below(2) == 0 {
        script.say(format!(" undo {undo}"));
        let again = session.undo(undo);
        let back = snapshot(&root);
        if current != result && background.is_none() {
            let covered = |mut tree: Snapshot| {
                tree.retain(|_, entry| *entry != Entry::Nested);
                tree
            };
            assert_eq!(
                covered(back),
                covered(current),
                "undo of the undo {again:#?}\n{}",
                context()
            );
        }
        assert_eq!(
            repository(&root),
            repository_current,
            "undo of the undo {again:#?}\n{}",
            context()
        );
    }
}

/// Compares the workspace before and after a call, before the undo and after it.
fn check(
    before: &Snapshot,
    after: &Snapshot,
    current: &Snapshot,
    result: &Snapshot,
) -> Result<(), String> {
    let paths = [before, after, current, result].into_iter().flat_map(Snapshot::keys);
    let paths: std::collections::BTreeSet<&PathBuf> = paths.collect();
    for path in paths {
        let [b, a, c, r] = [before, after, current, result].map(|tree| tree.get(path));
        let wrong = |what: &str| {
            Err(format!(
                "{what} at {path:?}\nbefore {b:?}\nafter {a:?}\ncurrent {c:?}\nresult {r:?}"
            ))
        };
        let is_nested = [b, a, c, r].contains(&Some(&Entry::Nested));
        if is_nested || (path.to_string_lossy().ends_with(".undo-conflict") && c.is_none()) {
            continue;
        }
        if a == b || c == b {
            if r != c {
                return wrong("a path that the call left was changed");
            }
        } else if c == a {
            // A newer object can stand in the way: in a directory that would go, or in place of one that is needed.
            let has_newer = current.keys().any(|other| {
                other.starts_with(path) && other != path && after.get(other) != current.get(other)
            }) || result
                .keys()
                .any(|other| other.starts_with(path) && other != path);
            let is_blocked = path.ancestors().skip(1).any(|above| {
                !above.as_os_str().is_empty()
                    && !matches!(result.get(above), Some(Entry::Directory(_)))
            });
            // A new object may be one that was moved from a name that is not covered.
            let has_lost_nested =
                before.iter().any(|(path, it)| *it == Entry::Nested && !current.contains_key(path));
            let may_stay = has_newer || is_blocked || (b.is_none() && has_lost_nested);
            if r != b && !(r == c && may_stay) {
                return wrong("not restored");
            }
        } else {
            let lost = match (a, c, r) {
                (Some(Entry::File(a, _)), Some(Entry::File(c, _)), Some(Entry::File(r, _))) => {
                    let has = |text: &[u8], line: &[u8]| {
                        text.split(|it| *it == b'\n').any(|it| it == line)
                    };
                    c.split(|it| *it == b'\n').any(|line| !has(a, line) && !has(r, line))
                }
                (_, c, r) => r != c,
            };
            if lost {
                return wrong("a newer change was lost");
            }
        }
    }
    Ok(())
}
