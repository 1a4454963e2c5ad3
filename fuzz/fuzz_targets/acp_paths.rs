//! An agent's paths in a real directory tree with many links.
//!
//! An input is a mode byte and a path: literal, or one byte per component.

#![no_main]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use aifo_acp_io::{Files, MissingFile, Workspace, Writing};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| {
    let Some((how, rest)) = data.split_first() else { return };
    let path = match how % 2 {
        0 => String::from_utf8_lossy(rest).into_owned(),
        _ => spelled(rest),
    };
    let place = PLACE.get_or_init(Place::new);
    if how & 2 == 0 {
        place.read(&path);
    } else {
        place.write(&path);
    }
});

/// A path inside or outside the workspace.
fn spelled(components: &[u8]) -> String {
    let names = components.iter().map(|byte| NAMES[usize::from(*byte) % NAMES.len()]);
    let names: Vec<_> = ["/ws"].into_iter().chain(names).collect();
    names.join("/")
}

const NAMES: [&str; 18] = [
    "..", ".", "", "ws", "a", "f", "link", "up", "out", "absolute", "dangling", "loop", "socket",
    "hard", "outside", "secret", "new", "proc",
];

static PLACE: OnceLock<Place> = OnceLock::new();

/// A workspace, and a directory beside it that must not be accessed.
struct Place {
    ws: PathBuf,
    outside: PathBuf,
    files: Files,
}

impl Place {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("aifo-fuzz-paths-{}", std::process::id()));
        let (ws, outside) = (folder.join("ws"), folder.join("outside"));
        fs::create_dir_all(&ws).expect("a workspace");
        fs::create_dir_all(&outside).expect("a folder beside it");
        fs::write(outside.join("secret"), SECRET).expect("a secret");
        fs::write(outside.join("linked"), LINKED).expect("a file to be linked");
        let ws = ws.canonicalize().expect("a real path");
        let workspace = Workspace::open(ws.clone(), [PathBuf::from("/ws")]).expect("it opens");
        let files = Files::new(Arc::new(workspace), MissingFile::Error, Writing::Served);
        let place = Place { ws, outside, files };
        place.plant();
        place
    }

    /// Recreates the tree.
    fn plant(&self) {
        for entry in fs::read_dir(&self.ws).expect("it is there").flatten() {
            let path = entry.path();
            let gone = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => fs::remove_dir_all(path),
                false => fs::remove_file(path),
            };
            gone.expect("it goes");
        }
        let at = |name: &str| self.ws.join(name);
        fs::create_dir_all(at("a/a")).expect("folders");
        for file in ["f", "a/f", "a/a/f"] {
            fs::write(at(file), INSIDE).expect("a file");
        }
        let absolute = self.outside.as_path();
        let links: [(&Path, &str); 8] = [
            ("a".as_ref(), "link"),
            ("..".as_ref(), "up"),
            ("..".as_ref(), "a/up"),
            ("../outside".as_ref(), "out"),
            ("../../outside/secret".as_ref(), "a/out"),
            (absolute, "absolute"),
            ("../outside/new".as_ref(), "dangling"),
            ("loop".as_ref(), "loop"),
        ];
        for (to, name) in links {
            symlink(to, at(name)).expect("a link");
        }
        fs::hard_link(self.outside.join("linked"), at("hard")).expect("a hard link");
        let socket = std::os::unix::net::UnixListener::bind(at("socket"));
        drop(socket.expect("something that is no file"));
    }

    fn read(&self, path: &str) {
        let Ok(answer) = self.files.read(&json!({"path": path})) else { return };
        let content = answer["content"].as_str().expect("a text");
        assert!([INSIDE, LINKED].contains(&content), "{path:?} was read: {content:?}");
        assert!(self.real(path).starts_with(&self.ws), "{path:?}");
    }

    fn write(&self, path: &str) {
        let written = self.files.write(&json!({"path": path, "content": WRITTEN}));
        if written.is_ok() {
            assert!(self.real(path).starts_with(&self.ws), "{path:?}");
            assert_eq!(fs::read_to_string(self.real(path)).ok().as_deref(), Some(WRITTEN));
        }
        let mut names: Vec<_> = fs::read_dir(&self.outside)
            .expect("it is there")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["linked", "secret"], "after {path:?}");
        for (name, content) in [("linked", LINKED), ("secret", SECRET)] {
            let found = fs::read_to_string(self.outside.join(name)).expect("it is there");
            assert_eq!(found, content, "after {path:?}");
        }
        // Directories may have been created before the refusal.
        self.plant();
    }

    /// Resolves a served path.
    fn real(&self, path: &str) -> PathBuf {
        let path = Path::new(path);
        let here = path.strip_prefix("/ws").map_or(path.to_owned(), |rest| self.ws.join(rest));
        here.canonicalize().expect("what was served is there")
    }
}

const INSIDE: &str = "inside";
const LINKED: &str = "linked";
const SECRET: &str = "secret";
const WRITTEN: &str = "written";
