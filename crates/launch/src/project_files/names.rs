//! Names of project files, of every agent and toolchain.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

use aifo_policy::{ManifestParts, ProjectNames, VersionFormat, kinds};

use aifo_agents::{AgentProject, known_agents};

/// Further files that programs execute or obey, whatever the project.
const FILES: [&str; 34] = [
    "*.Dockerfile",
    "*.bazel",
    "*.bzl",
    "*.code-workspace",
    "*.gradle",
    "*.gradle.kts",
    "*.local.md",
    "*.nix",
    "*.sbt",
    "*.tf",
    "*.versions.toml",
    "*sproj",
    "AGENT.md",
    "BUILD",
    "BUILD.pants",
    "Directory.*props",
    "Directory.*rsp",
    "Directory.*targets",
    "Dockerfile.*",
    "Kbuild",
    "Makefile.*",
    "Package.swift",
    "SCons*",
    "WORKSPACE",
    "build.zig",
    "compose.*ml",
    "docker-compose.*",
    "gradle-wrapper.*",
    "gradlew",
    "mix.exs",
    "pom.xml",
    "pylintrc",
    "tools/bazel",
    "wscript",
];

/// Extensions of settings, which count in a project directory.
const SETTINGS: [&str; 15] = [
    "ac",
    "cfg",
    "conf",
    "edn",
    "ini",
    "json",
    "json5",
    "jsonc",
    "kdl",
    "lua",
    "properties",
    "sh",
    "toml",
    "yaml",
    "yml",
];

/// Further data. Git ignores the files of other programs' lists, such as `.dockerignore`, too.
const DATA: [&str; 8] = [
    ".*.swp",
    ".*cache",
    ".*ignore",
    ".DS_Store",
    ".editorconfig",
    ".gitkeep",
    ".swe-swe",
    "bazel-*",
];

/// The role of a file in a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A directory of git, or a file that names one.
    Repository,
    /// Output, a cache or a dependency.
    Data,
    /// Programs execute or obey it.
    Obeyed,
    /// Programs execute or obey these parts of it.
    Manifest(ManifestParts),
    Other,
}

/// The names of all rows.
#[derive(Debug)]
pub(super) struct Names {
    exact: HashMap<String, Role>,
    /// Those with a `*` or a `/`, in small letters.
    patterns: Vec<(String, Role)>,
}

impl Names {
    pub(super) fn of_rows() -> Self {
        let has_parts =
            |format| matches!(format, VersionFormat::PackageJson | VersionFormat::GoMod);
        let versions = kinds().iter().flat_map(|kind| kind.version_files);
        let versions = versions.filter(|(_, format)| !has_parts(*format)).map(|(name, _)| name);
        let obeyed = FILES.iter().chain(versions).map(|name| (*name, Role::Obeyed));
        let mut all: Vec<_> = DATA.iter().map(|name| (*name, Role::Data)).chain(obeyed).collect();
        for ProjectNames { files, manifests, data } in kinds().iter().map(|kind| kind.project) {
            all.extend(data.iter().map(|name| (*name, Role::Data)));
            all.extend(manifests.iter().map(|(name, parts)| (*name, Role::Manifest(*parts))));
            all.extend(files.iter().map(|name| (*name, Role::Obeyed)));
        }
        for AgentProject { files, data } in known_agents().iter().map(|agent| &agent.project) {
            all.extend(data.iter().map(|name| (name.as_str(), Role::Data)));
            all.extend(files.iter().map(|name| (name.as_str(), Role::Obeyed)));
        }
        let is_pattern = |(name, _): &(&str, Role)| name.contains(['*', '/']);
        let (patterns, names): (Vec<_>, Vec<_>) = all.into_iter().partition(is_pattern);
        let small = |(name, role): (&str, Role)| (name.to_ascii_lowercase(), role);
        let mut exact: HashMap<_, _> =
            names.iter().map(|(it, role)| (it.to_string(), *role)).collect();
        for (name, role) in names.into_iter().map(small) {
            exact.entry(name).or_insert(role);
        }
        Names { exact, patterns: patterns.into_iter().map(small).collect() }
    }

    /// Returns the role of a file by its path from the workspace root.
    pub(super) fn role(&self, path: &Path) -> Role {
        let written = path.file_name().unwrap_or_default().to_string_lossy();
        let text = path.to_string_lossy().to_ascii_lowercase();
        let name = text.rsplit('/').next().unwrap_or_default();
        let is_match =
            |pattern: &str| matches(pattern, if pattern.contains('/') { &text } else { name });
        // `build` is output, `BUILD` is obeyed, and a source may be in `Build`.
        let in_small = || self.exact.get(name).filter(|role| **role != Role::Data);
        if written == ".git" {
            Role::Repository
        } else if let Some(role) = self.exact.get(&*written).or_else(in_small) {
            *role
        } else if let Some((_, role)) = self.patterns.iter().find(|(it, _)| is_match(it)) {
            *role
        } else if name.starts_with('.') || is_command_file(name) {
            Role::Obeyed
        } else {
            Role::Other
        }
    }

    /// Returns whether a path from the workspace root is data, or below data.
    pub(super) fn is_in_data(&self, path: &Path) -> bool {
        let mut roles = self.roles(path).into_iter();
        let first = roles.find(|role| matches!(role, Role::Repository | Role::Data));
        path.is_relative() && first == Some(Role::Data)
    }

    /// Returns the number of directories above a project file, from the workspace root.
    pub(super) fn depth(&self, path: &Path) -> usize {
        let roles = self.roles(path);
        let above = roles.iter().take_while(|role| **role == Role::Other).count();
        above.min(roles.len().saturating_sub(1))
    }

    /// Returns the roles of the directories above a file and of the file.
    fn roles(&self, path: &Path) -> Vec<Role> {
        let paths = path.ancestors().filter(|path| !path.as_os_str().is_empty());
        let mut roles: Vec<_> = paths.map(|path| self.role(path)).collect();
        roles.reverse();
        roles
    }
}

/// Returns whether an entry makes its directory one of a project.
pub(super) fn is_marker(name: &OsStr) -> bool {
    let mut markers = kinds().iter().flat_map(|kind| kind.markers);
    markers.any(|it| !it.starts_with('.') && name == *it)
}

/// Returns whether a file counts in a project directory: a setting, or code such as `gulpfile.js`.
pub(super) fn is_setting(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let Some((start, extension)) = name.rsplit_once('.') else { return false };
    let is_code = || extension.ends_with("js") || ["go", "py", "ts"].contains(&extension);
    ends_with_file(start) && is_code() || SETTINGS.contains(&extension) && !start.ends_with("lock")
}

/// `Makefile`, `justfile`, `Procfile` and so on, and `x.config.js`: names of files with commands.
fn is_command_file(name: &str) -> bool {
    let (start, extension) = name.split_once('.').unwrap_or((name, ""));
    let start_of_end = name.rsplit_once('.').map(|(start, _)| start).unwrap_or_default();
    // A source such as `profile.rs` has another extension.
    ends_with_file(start) && matches!(extension, "" | "am" | "in" | "local")
        || start_of_end.ends_with(".conf")
        || start_of_end.ends_with(".config")
}

fn ends_with_file(text: &str) -> bool {
    text.len() > 4 && text.ends_with("file")
}

/// Compares a text with a pattern that has at most one `*`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, end)) => text.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
    }
}
