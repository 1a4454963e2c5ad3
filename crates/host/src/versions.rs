//! Version of a toolchain that the project files request (`spec/cli.md#versions`).
//!
//! Proves `spec/cli.md#toolchains`.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use aifo_policy::{VersionFormat, kind_spec};
use aifo_process::RootDirectory;
use aifo_types::Kind;

use crate::toolchain::{Version, VersionSource};

/// Result of parsing a file that may name a version.
#[derive(Debug, PartialEq, Eq)]
enum ParsedVersion {
    Version(String),
    /// No single version: a range, or an alias such as `lts/*`.
    Nothing,
    /// Invalid, with the reason.
    Malformed(String),
}

fn parse(format: VersionFormat, names: &[&str], text: &str) -> ParsedVersion {
    match format {
        VersionFormat::Line => plain_line(text),
        VersionFormat::RustToolchain => rust_toolchain(text),
        VersionFormat::RustToolchainToml => toolchain_toml(text),
        VersionFormat::PackageJson => package_json(text),
        VersionFormat::GoMod => go_mod(text),
        VersionFormat::ToolVersions => tool_versions(names, text),
        VersionFormat::MiseToml => mise_toml(names, text),
    }
}

/// A version that the user or the project files request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectVersion {
    /// The version; its source is the file.
    pub version: Version,
    /// True if later versions will do.
    pub is_minimum: bool,
}

/// Returns the version of the first file that names one. Logs a warning for files that cannot be
/// parsed, and skips them.
pub fn project_version(kind: &Kind, workspace: &Path) -> Option<ProjectVersion> {
    let spec = kind_spec(kind)?;
    spec.version_files.iter().find_map(|(file, format)| {
        let path = workspace.join(file);
        let found = match read_text(workspace, file) {
            Ok(None) => ParsedVersion::Nothing,
            Ok(Some(text)) => parse(*format, spec.version_names, &text),
            Err(error) => ParsedVersion::Malformed(error.to_string()),
        };
        let why = match found {
            ParsedVersion::Nothing => return None,
            ParsedVersion::Version(text) => {
                match Version::new(&text, VersionSource::ProjectFile(path.clone())) {
                    Some(version) => {
                        let is_minimum = *format == VersionFormat::GoMod;
                        return Some(ProjectVersion { version, is_minimum });
                    }
                    None => format!("'{}' is not a version", text.escape_debug()),
                }
            }
            ParsedVersion::Malformed(why) => why,
        };
        tracing::warn!("'{}' names no version of {kind}: {why}", path.display());
        None
    })
}

/// Larger than any of these files.
const MAX_BYTES: u64 = 64 * 1024;

/// Reads the workspace file; `None` if it does not exist. An agent can put a link to a file of this
/// machine here, or a FIFO.
fn read_text(workspace: &Path, file: &str) -> io::Result<Option<String>> {
    let file = match RootDirectory::open(workspace)?.open_regular(Path::new(file)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            return Err(io::Error::other("it leads out of the workspace"));
        }
        opened => opened?,
    };
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is larger than 64 KiB"));
    }
    Ok(Some(text))
}

/// The old format is one line. The new format may have the old name.
fn rust_toolchain(text: &str) -> ParsedVersion {
    match first_line(text) {
        Some(line) if !line.contains(['[', '=']) => ParsedVersion::Version(line.to_owned()),
        _ => toolchain_toml(text),
    }
}

fn toolchain_toml(text: &str) -> ParsedVersion {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return ParsedVersion::Malformed(error.message().replace('\n', "; ")),
    };
    match table.get("toolchain").and_then(|toolchain| toolchain.get("channel")) {
        Some(toml::Value::String(channel)) => ParsedVersion::Version(channel.clone()),
        Some(_) => ParsedVersion::Malformed("channel is not a string".to_owned()),
        // It may name a path instead.
        None => ParsedVersion::Nothing,
    }
}

/// Accepts `20`, `v20.11.1` and `3.12`, but not `lts/*` or `pypy3.10`.
fn plain_line(text: &str) -> ParsedVersion {
    first_line(text).map_or(ParsedVersion::Nothing, plain)
}

fn package_json(text: &str) -> ParsedVersion {
    let manifest: serde_json::Value = match serde_json::from_str(text) {
        Ok(manifest) => manifest,
        Err(error) => return ParsedVersion::Malformed(error.to_string()),
    };
    let engine = manifest.get("engines").and_then(|engines| engines.get("node"));
    engine.and_then(serde_json::Value::as_str).map_or(ParsedVersion::Nothing, node_range)
}

/// Accepts a number, and the ranges that one tag of an image satisfies: `^22.3` is `22`, `~22.3.1` is
/// `22.3`, `22.x` is `22`.
fn node_range(text: &str) -> ParsedVersion {
    let text = text.trim();
    let (number, parts) = match (text.strip_prefix('^'), text.strip_prefix('~')) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 2),
        _ => (text, 3),
    };
    // A leading zero changes the meaning of both signs.
    if parts < 3 && number.starts_with('0') {
        return ParsedVersion::Nothing;
    }
    let number = number.trim_end_matches(".x").trim_end_matches(".*");
    match plain(number) {
        ParsedVersion::Version(number) => {
            let kept: Vec<_> = number.split('.').take(parts).collect();
            ParsedVersion::Version(kept.join("."))
        }
        other => other,
    }
}

/// `nodejs 22.11.0 20.1.0`: the first version.
fn tool_versions(names: &[&str], text: &str) -> ParsedVersion {
    let line = text.lines().find_map(|line| {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        words.next().filter(|name| names.contains(name))?;
        words.next()
    });
    line.map_or(ParsedVersion::Nothing, plain)
}

/// `node = "22"`, `node = ["22", "20"]` or `node = { version = "22" }`.
fn mise_toml(names: &[&str], text: &str) -> ParsedVersion {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return ParsedVersion::Malformed(error.message().replace('\n', "; ")),
    };
    let tools = table.get("tools");
    let tool = names.iter().find_map(|name| tools?.get(*name));
    let tool = match tool {
        Some(toml::Value::Array(tools)) => tools.first(),
        tool => tool,
    };
    let version = match tool {
        Some(toml::Value::Table(tool)) => tool.get("version"),
        tool => tool,
    };
    version.and_then(toml::Value::as_str).map_or(ParsedVersion::Nothing, plain)
}

/// `toolchain go1.22.3` takes precedence over `go 1.22`.
fn go_mod(text: &str) -> ParsedVersion {
    let directive = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(name)).then(|| words.next()).flatten()
        })
    };
    let toolchain = directive("toolchain").and_then(|named| named.strip_prefix("go"));
    toolchain
        .or(directive("go"))
        .map_or(ParsedVersion::Nothing, |text| ParsedVersion::Version(text.to_owned()))
}

fn plain(text: &str) -> ParsedVersion {
    let number = text.trim();
    let number = number.strip_prefix('v').unwrap_or(number);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if number.split('.').count() <= 3 && number.split('.').all(is_number) {
        ParsedVersion::Version(number.to_owned())
    } else {
        ParsedVersion::Nothing
    }
}

fn first_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn versions_of_project_files() {
        let base = std::env::temp_dir().join(format!("aifo-versions-{}", std::process::id()));
        let check = |kind: &str, files: &[(&str, &str)], expected: Option<(&str, &str)>| {
            fs::create_dir_all(&base).unwrap();
            for (file, text) in files {
                fs::write(base.join(file), text).unwrap();
            }
            let found = project_version(&Kind::parse(kind).unwrap(), &base);
            let expected = expected.map(|(text, file)| {
                Version::new(text, VersionSource::ProjectFile(base.join(file))).unwrap()
            });
            assert_eq!(found.map(|it| it.version), expected, "{kind}: {files:?}");
            fs::remove_dir_all(&base).unwrap();
        };
        let toml = "rust-toolchain.toml";
        check("rust", &[], None);
        check("rust", &[(toml, "[toolchain]\nchannel = \"1.95\"\n")], Some(("1.95", toml)));
        check("rust", &[(toml, "[toolchain]\nchannel = 'stable'")], Some(("stable", toml)));
        check("rust", &[(toml, "[toolchain]\npath = \"/x\"")], None);
        check("rust", &[(toml, "[toolchain]\nchannel = 1")], None);
        check("rust", &[(toml, "channel 1.95")], None);
        check("rust", &[(toml, "[toolchain]\nchannel = '1.95:x'")], None);
        let old = "rust-toolchain";
        let both = [(old, "nightly-2026-01-01\n"), (toml, "[toolchain]\nchannel = '1.95'")];
        check("rust", &both, Some(("nightly-2026-01-01", old)));
        check("rust", &[(old, "[toolchain]\nchannel = '1.95'")], Some(("1.95", old)));

        check("node", &[(".nvmrc", "v20.11.1\n")], Some(("20.11.1", ".nvmrc")));
        check("node", &[(".nvmrc", "20")], Some(("20", ".nvmrc")));
        check("node", &[(".nvmrc", "lts/*")], None);
        check(
            "node",
            &[(".nvmrc", "lts/*"), (".node-version", "22")],
            Some(("22", ".node-version")),
        );
        let package = "package.json";
        check("node", &[(package, r#"{"engines":{"node":"24"}}"#)], Some(("24", package)));
        check("node", &[(package, r#"{"engines":{"node":">=18"}}"#)], None);
        check("node", &[(package, r#"{"name":"x"}"#)], None);
        check("node", &[(package, "{")], None);

        check(
            "python",
            &[(".python-version", "# ours\n3.12\n3.11\n")],
            Some(("3.12", ".python-version")),
        );
        check("python", &[(".python-version", "pypy3.10")], None);
        check("python", &[(".python-version", "")], None);

        check("go", &[("go.mod", "module x\n\ngo 1.22\n")], Some(("1.22", "go.mod")));
        let pinned = "module x\ngo 1.22\ntoolchain go1.22.3\n";
        check("go", &[("go.mod", pinned)], Some(("1.22.3", "go.mod")));
        check("go", &[("go.mod", "go 1.22\ntoolchain default")], Some(("1.22", "go.mod")));
        check("c-cpp", &[("Makefile", "all:")], None);

        let engines = |range: &str| format!(r#"{{"engines":{{"node":"{range}"}}}}"#);
        for (range, expected) in [
            ("^22.3.1", Some("22")),
            ("~22.3.1", Some("22.3")),
            ("22.x", Some("22")),
            ("22.*", Some("22")),
            ("22.x.x", Some("22")),
            ("^0.12", None),
            (">=18", None),
            ("20 || 22", None),
            ("*", None),
        ] {
            let expected = expected.map(|version| (version, package));
            check("node", &[(package, &engines(range))], expected);
        }

        let (asdf, mise) = (".tool-versions", "mise.toml");
        let text =
            "# tools\nnodejs 22.11.0 20.1.0 # both\npython 3.13.1\ngolang ref:main\nrust system\n";
        check("node", &[(asdf, text)], Some(("22.11.0", asdf)));
        check("node", &[(asdf, text), (".nvmrc", "20")], Some(("20", ".nvmrc")));
        check("node", &[(asdf, text), (package, &engines("24"))], Some(("22.11.0", asdf)));
        check("python", &[(asdf, text)], Some(("3.13.1", asdf)));
        check("rust", &[(asdf, text)], None);
        check("go", &[(asdf, text), ("go.mod", "go 1.22\n")], Some(("1.22", "go.mod")));
        let text = "[tools]\nnode = '22'\npython = ['3.13', '3.12']\ngo = { version = '1.23.4' }\n\
                    rust = 'latest'\n";
        check("node", &[(mise, text)], Some(("22", mise)));
        check("python", &[(mise, text)], Some(("3.13", mise)));
        check("go", &[(mise, text), ("go.mod", "go 1.22\n")], Some(("1.23.4", mise)));
        check("rust", &[(mise, text)], None);
        check("node", &[(mise, "[tools")], None);
    }

    #[test]
    fn only_of_go_mod_a_later_version_will_do() {
        let base = std::env::temp_dir().join(format!("aifo-versions-m-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let is_minimum = || project_version(&Kind::parse("go").unwrap(), &base).unwrap().is_minimum;
        fs::write(base.join("go.mod"), "go 1.22\n").unwrap();
        assert!(is_minimum());
        fs::write(base.join(".tool-versions"), "golang 1.22.1\n").unwrap();
        assert!(!is_minimum());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn large_files_and_fifos_are_rejected() {
        let base = std::env::temp_dir().join(format!("aifo-versions-b-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let path = base.join(".nvmrc");
        fs::write(&path, format!("20\n{}", "#".repeat(64 * 1024))).unwrap();
        assert!(read_text(&base, ".nvmrc").is_err());
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read_text(&base, ".nvmrc").is_err(), "a pipe is not waited for");
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn no_file_outside_of_the_workspace_is_read() {
        let base = tempfile::tempdir().unwrap();
        let workspace = base.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        for file in [base.path().join("secret"), workspace.join("own")] {
            fs::write(file, "token-1\n").unwrap();
        }
        let version = || project_version(&Kind::parse("rust").unwrap(), &workspace);
        for (target, expected) in [
            (base.path().join("secret"), None),
            ("../secret".into(), None),
            ("own".into(), Some("token-1")),
        ] {
            std::os::unix::fs::symlink(&target, workspace.join("rust-toolchain")).unwrap();
            let found = version().map(|found| found.version.as_str().to_owned());
            assert_eq!(found.as_deref(), expected, "{}", target.display());
            fs::remove_file(workspace.join("rust-toolchain")).unwrap();
        }
    }
}
