use super::*;
use crate::images::recipes::{find, recipes};

const COMMAND: &str = "aifo-coder images";

#[test]
fn every_recipe_is_locked() {
    let lock = Lock::embedded().unwrap();
    for recipe in recipes() {
        lock.packages(recipe, None, COMMAND).unwrap();
    }
    for base in ["debian:bookworm-slim", "debian:trixie-slim"] {
        let digest = lock.digest(base).unwrap().strip_prefix("sha256:").unwrap();
        assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()), "{base}");
    }
}

#[test]
fn a_missing_entry_is_an_error_with_the_command_that_adds_it() {
    let codex = find("codex").unwrap();
    let error = Lock::default().packages(codex, None, COMMAND).unwrap_err();
    let expected = "agent-codex: @openai/codex is not in the lock file\n\
                    hint: aifo-coder images update codex";
    assert_eq!(error.to_string(), expected);

    let lock = Lock::embedded().unwrap();
    let error = lock.packages(codex, Some("9.9.9"), COMMAND).unwrap_err().to_string();
    assert!(error.contains("@openai/codex 9.9.9 is not in the lock file, which has "), "{error}");
    assert!(error.ends_with("hint: aifo-coder images update codex@9.9.9"), "{error}");
    let version = lock.version(codex).unwrap();
    assert!(lock.packages(codex, Some(version), COMMAND).is_ok());
}

#[test]
fn the_newer_of_two_entries_applies() {
    let base = |time, digest: &str| LockedBase { time, digest: digest.to_owned() };
    let lock = |time, digest| {
        let bases = BTreeMap::from([("debian:x".to_owned(), base(time, digest))]);
        Lock { bases, ..Lock::default() }
    };
    assert_eq!(lock(1, "old").with(lock(2, "new")).digest("debian:x"), Some("new"));
    assert_eq!(lock(2, "new").with(lock(1, "old")).digest("debian:x"), Some("new"));
    assert_eq!(Lock::default().with(lock(1, "old")).digest("debian:x"), Some("old"));
}

#[test]
fn npms_lock_file_keeps_versions_and_hashes() {
    let codex = find("codex").unwrap();
    let text = |integrity: &str| {
        format!(
            r#"{{"packages": {{
                "": {{"dependencies": {{}}}},
                "node_modules/@openai/codex":
                    {{"version": "1.0.0", "integrity": "sha512-a", "license": "MIT", "bin": {{}},
                      "optionalDependencies": {{"l": "1", "d": "1", "none": "1"}}}},
                "node_modules/l": {{"version": "1", "integrity": "sha512-l", "os": ["linux"]}},
                "node_modules/d": {{"version": "1", "integrity": "sha512-d", "os": ["darwin"]}},
                "node_modules/@zed-industries/codex-acp":
                    {{"version": "0.16.0", "resolved": "https://x", "integrity": "{integrity}"}}
            }}}}"#
        )
    };
    let locked = LockedPackages::from_npm(codex, &text("sha512-b")).unwrap();
    assert_eq!(locked.versions["@openai/codex"], "1.0.0");
    assert_eq!(locked.count(), 3, "without the package of another system");
    let files = locked.files(&codex.packages);
    let [("package.json", manifest), ("package-lock.json", lock)] = &files[..] else { panic!() };
    let manifest: Value = serde_json::from_str(manifest).unwrap();
    let lock: Value = serde_json::from_str(lock).unwrap();
    assert_eq!(manifest["dependencies"], lock["packages"][""]["dependencies"]);
    let package = &lock["packages"]["node_modules/@openai/codex"];
    let expected = json!({
        "version": "1.0.0", "integrity": "sha512-a", "bin": {}, "optionalDependencies": {"l": "1"},
    });
    assert_eq!(package, &expected);

    let error = LockedPackages::from_npm(codex, &text("sha1-b")).unwrap_err().to_string();
    assert!(error.contains("'node_modules/@zed-industries/codex-acp' has no SHA-512"), "{error}");
    assert!(LockedPackages::from_npm(codex, r#"{"packages": {}}"#).is_err());
}

#[test]
fn hashes_of_wheels_are_those_of_all_platforms() {
    let recipe = find("python").unwrap();
    let platform = |hash: &str| {
        format!(
            "[[packages]]\nname = 'uv'\nversion = '1.0'\n\
             sdist = {{ url = 'x', hashes = {{ sha256 = 's' }} }}\n\
             wheels = [{{ url = 'y', hashes = {{ sha256 = '{hash}' }} }}]\n"
        )
    };
    let locked =
        LockedPackages::from_pylock(recipe, &[platform("b"), platform("a"), platform("b")]);
    let files = locked.unwrap().files(&recipe.packages);
    let expected = "uv==1.0 --hash=sha256:a --hash=sha256:b\n";
    assert_eq!(files, [("requirements.txt", expected.to_owned())]);
    // A package without wheels is built from its source.
    let source = "[[packages]]\nname = 'uv'\nversion = '1'\nsdist = { hashes = { sha256 = 's' } }";
    let locked = LockedPackages::from_pylock(recipe, &[source.to_owned()]).unwrap();
    let files = locked.files(&recipe.packages);
    assert_eq!(files[0].1, "uv==1 --hash=sha256:s\n");
    for text in ["", "[[packages]]\nname = 'uv'\nversion = '1'", "[[packages]]\nname = 'other'"] {
        assert!(LockedPackages::from_pylock(recipe, &[text.to_owned()]).is_err(), "{text}");
    }
}

#[test]
fn a_written_lock_file_is_read_back() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("below/images.lock");
    assert_eq!(Lock::read(&path).unwrap(), Lock::default());
    let lock = Lock::embedded().unwrap();
    lock.write(&path).unwrap();
    assert_eq!(Lock::read(&path).unwrap(), lock);
    fs::write(&path, "{").unwrap();
    assert!(Lock::read(&path).unwrap_err().to_string().contains("images.lock' is malformed"));
}
