//! Names of project files, of every agent and toolchain.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use aifo_policy::{ManifestParts, ProjectNames, VersionFormat, kinds};

use crate::agents::known_agents;

/// Further files that programs execute or obey, whatever the project.
const FILES: [&str; 39] = [
    "*.bazel",
    "*.bzl",
    "*.code-workspace",
    "*.csproj",
    "*.fsproj",
    "*.gradle",
    "*.gradle.kts",
    "*.local.md",
    "*.nix",
    "*.sbt",
    "*.tf",
    "AGENT.md",
    "BUILD",
    "BUILD.*",
    "CONTEXT.md",
    "Directory.Build.*",
    "Dockerfile.*",
    "Kbuild",
    "Makefile.*",
    "Package.swift",
    "SConscript",
    "SConstruct",
    "WORKSPACE",
    "autogen.sh",
    "build.ninja",
    "build.zig",
    "compose.*",
    "configure.ac",
    "docker-compose.*",
    "gradle/wrapper/*",
    "gradlew",
    "mix.exs",
    "mvnw",
    "pom.xml",
    "pylintrc",
    "tools/bazel",
    "waf",
    "wscript",
    "xmake.lua",
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
    /// By [`key`].
    exact: HashMap<String, Role>,
    /// Those with a `*` or a `/`.
    patterns: Vec<(&'static str, Role)>,
}

impl Names {
    pub(super) fn of_rows() -> Self {
        let of_agents = known_agents().into_iter().map(|agent| agent.project);
        let has_parts =
            |format| matches!(format, VersionFormat::PackageJson | VersionFormat::GoMod);
        let versions = kinds().iter().flat_map(|kind| kind.version_files);
        let versions = versions.filter(|(_, format)| !has_parts(*format)).map(|(name, _)| name);
        let obeyed = FILES.iter().chain(versions).map(|name| (*name, Role::Obeyed));
        let mut all: Vec<_> = DATA.iter().map(|name| (*name, Role::Data)).chain(obeyed).collect();
        for ProjectNames { files, manifests, data } in
            kinds().iter().map(|kind| kind.project).chain(of_agents)
        {
            all.extend(data.iter().map(|name| (*name, Role::Data)));
            all.extend(manifests.iter().map(|(name, parts)| (*name, Role::Manifest(*parts))));
            all.extend(files.iter().map(|name| (*name, Role::Obeyed)));
        }
        let is_pattern = |(name, _): &(&str, Role)| name.contains(['*', '/']);
        let (patterns, exact): (Vec<_>, Vec<_>) = all.into_iter().partition(is_pattern);
        let exact = exact.into_iter().map(|(name, role)| (key(name).into_owned(), role));
        Names { exact: exact.collect(), patterns }
    }

    /// Returns the role of a file by its path from the workspace's root.
    pub(super) fn role(&self, path: &Path) -> Role {
        let text = path.to_string_lossy();
        let name = text.rsplit('/').next().unwrap_or_default();
        let is_match =
            |pattern: &str| matches(pattern, if pattern.contains('/') { &text } else { name });
        if name == ".git" {
            Role::Repository
        } else if let Some(role) = self.exact.get(&*key(name)) {
            *role
        } else if let Some((_, role)) = self.patterns.iter().find(|(it, _)| is_match(it)) {
            *role
        } else if name.starts_with('.') || is_command_file(name) {
            Role::Obeyed
        } else {
            Role::Other
        }
    }

    /// Returns whether a path from the workspace's root is data, or below data.
    pub(super) fn is_in_data(&self, path: &Path) -> bool {
        let mut roles = self.roles(path).into_iter();
        let first = roles.find(|role| matches!(role, Role::Repository | Role::Data));
        path.is_relative() && first == Some(Role::Data)
    }

    /// Returns the number of directories above a project file, from the workspace's root.
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

/// Agents differ in the case of the letters that they accept in the names of their texts.
fn key(name: &str) -> Cow<'_, str> {
    let is_text =
        name.get(name.len().saturating_sub(3)..).is_some_and(|end| end.eq_ignore_ascii_case(".md"));
    if is_text { name.to_ascii_lowercase().into() } else { name.into() }
}

/// Returns whether this is the name of a configuration, such as `tsconfig.json` or `uv.toml`, in the
/// workspace's root or beside a manifest. Lists of resolved versions are data.
pub(super) fn is_configuration(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    CONFIGURATION.contains(&extension) && !stem.contains("lock") && stem != "npm-shrinkwrap"
}

const CONFIGURATION: [&str; 11] =
    ["cfg", "conf", "ini", "json", "json5", "jsonc", "kdl", "properties", "toml", "yaml", "yml"];

/// `Makefile`, `justfile`, `Dockerfile`, `Procfile` and so on: names of files with commands.
fn is_command_file(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let end = stem.len().saturating_sub(4);
    let is_named = end > 0 && stem.get(end..).is_some_and(|end| end.eq_ignore_ascii_case("file"));
    // A source such as `profile.rs` has another extension.
    is_named && matches!(&name[stem.len()..], "" | ".am" | ".in" | ".local")
}

/// Compares a text with a pattern that has at most two `*`.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    text.strip_prefix(start).is_some_and(|text| match rest.split_once('*') {
        None => text.ends_with(rest),
        Some((middle, end)) => text.split_once(middle).is_some_and(|(_, rest)| rest.ends_with(end)),
    })
}
