use std::os::unix::fs::symlink;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::*;

/// A repository `main` with a linked worktree `linked`, as git creates them, and a hostile
/// workspace `evil`.
struct Repositories(TempDir);

impl Repositories {
    fn new() -> Self {
        let repositories = Repositories(tempfile::tempdir().unwrap());
        for directory in ["main/.git/worktrees/linked", "linked", "evil"] {
            fs::create_dir_all(repositories.at(directory)).unwrap();
        }
        let entry = repositories.entry();
        repositories.write("linked/.git", &format!("gitdir: {}\n", entry.display()));
        let back = repositories.at("linked/.git");
        fs::write(entry.join("gitdir"), format!("{}\n", back.display())).unwrap();
        repositories
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn entry(&self) -> PathBuf {
        self.at("main/.git/worktrees/linked")
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.at(path), text).unwrap();
    }

    #[track_caller]
    fn check(&self, workspace: &str, root: &str, what: &str) {
        let project = Project::of(&self.at(workspace));
        assert_eq!(project.root, self.at(root), "{what}");
    }
}

#[test]
fn a_key_is_the_beginning_of_the_paths_sha256() {
    // printf %s /home/me/project | sha256sum
    assert_eq!(key_of(Path::new("/home/me/project")).as_str(), "225df3094012a213");
    assert_ne!(key_of(Path::new("/home/me/project")), key_of(Path::new("/home/me/project/")));
    let binary = PathBuf::from(OsString::from_vec(b"/home/\xff".to_vec()));
    assert_ne!(key_of(&binary), key_of(Path::new("/home/\u{fffd}")));
}

#[test]
fn a_linked_worktree_belongs_to_its_main_repository() {
    let it = Repositories::new();
    it.check("linked", "main", "absolute");
    it.check("main", "main", "itself");
    it.check("evil", "evil", "no repository");

    it.write("linked/.git", "gitdir: ../main/.git/worktrees/linked");
    fs::write(it.entry().join("gitdir"), "../../../../linked/.git\n").unwrap();
    it.check("linked", "main", "relative, as git 2.48 can write it");
}

/// Otherwise `evil` would share the caches of `main`.
#[test]
fn a_forged_worktree_has_caches_of_its_own() {
    let it = Repositories::new();
    let claim = format!("gitdir: {}\n", it.entry().display());
    it.write("evil/.git", &claim);
    it.check("evil", "evil", "the repository names another workspace");

    symlink(it.entry(), it.at("evil/entry")).unwrap();
    it.write("evil/.git", "gitdir: entry\n");
    it.check("evil", "evil", "through a link");

    // An entry that it can create itself, in its own directory.
    let own = it.at("evil/sub/.git/worktrees/linked");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("gitdir"), format!("{}\n", it.at("evil/.git").display())).unwrap();
    it.write("evil/.git", "gitdir: sub/.git/worktrees/linked\n");
    it.check("evil", "evil/sub", "a directory of its own, and no other project");
    fs::remove_dir_all(it.at("evil/sub/.git")).unwrap();
    symlink(it.at("main/.git"), it.at("evil/sub/.git")).unwrap();
    it.check("evil", "evil", "the entry is in the repository again");

    fs::remove_file(it.at("evil/.git")).unwrap();
    symlink(it.at("linked/.git"), it.at("evil/.git")).unwrap();
    it.check("evil", "evil", "a link to the file of a true worktree");
    fs::remove_file(it.at("evil/.git")).unwrap();
    fs::hard_link(it.at("linked/.git"), it.at("evil/.git")).unwrap();
    it.check("evil", "evil", "the file of a true worktree");
}

/// A repository cannot claim a workspace that does not name it.
#[test]
fn a_repository_claims_no_workspace() {
    let it = Repositories::new();
    fs::create_dir(it.at("evil/.git")).unwrap();
    fs::write(it.entry().join("gitdir"), format!("{}\n", it.at("evil/.git").display())).unwrap();
    it.check("evil", "evil", "a repository of its own");
    it.check("linked", "linked", "no longer named");
}

#[test]
fn invalid_worktree_files_are_ignored() {
    let it = Repositories::new();
    let long = format!("gitdir: {}", "x/".repeat(8 << 10));
    let entry = it.entry();
    let twice = format!("gitdir: {0}\n{0}\n", entry.display());
    let module = format!("gitdir: {}\n", it.at("main/.git/modules/linked").display());
    let texts = ["", "gitdir: ", "gitdir:\n", "gitdir: /", "gitdir: \0", &long, &twice, &module];
    for text in texts {
        it.write("linked/.git", text);
        it.check("linked", "linked", text);
    }
    let claim = format!("gitdir: {}\n", entry.display());
    for text in ["", "\n", "/", ".git", &long, "\0"] {
        it.write("linked/.git", &claim);
        fs::write(entry.join("gitdir"), text).unwrap();
        it.check("linked", "linked", text);
    }
}

/// Reading never blocks and is bounded.
#[test]
fn pipes_and_devices_are_not_read() {
    let it = Repositories::new();
    let back = it.entry().join("gitdir");
    let all = Mode::S_IRUSR | Mode::S_IWUSR;
    fs::remove_file(&back).unwrap();
    mkfifo(&back, all).unwrap();
    it.check("linked", "linked", "a pipe in the repository");

    let file = it.at("linked/.git");
    fs::remove_file(&file).unwrap();
    mkfifo(&file, all).unwrap();
    it.check("linked", "linked", "a pipe");
    fs::remove_file(&file).unwrap();
    symlink("/dev/zero", &file).unwrap();
    it.check("linked", "linked", "a link to a device");
    assert_eq!(read_small(Path::new("/dev/zero")), None);
}
