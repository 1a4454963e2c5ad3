use std::fs;

use super::{ProjectFiles, write};

#[test]
fn settings_and_files_of_builds_are_named() {
    let names = [
        "AGENT.md",
        "BUILD",
        "BUILD.pants",
        "CONTEXT.md",
        "Cargo.toml",
        "Cross.toml",
        "Directory.Build.props",
        "Kbuild",
        "Makefile.inc",
        "Makefile.toml",
        "Package.swift",
        "QWEN.local.md",
        "SConstruct",
        "android/gradlew",
        "angular.json",
        "autogen.sh",
        "app/build.gradle",
        "build.gradle.kts",
        "build.sbt",
        "build.zig",
        "claude.md",
        "composer.json",
        "configure",
        "configure.ac",
        "deno.jsonc",
        "deps.edn",
        "docker/Dockerfile.dev",
        "docker/compose.yaml",
        "docker/web.Dockerfile",
        "e2e/karma.conf.js",
        "gradle.properties",
        "gradle/libs.versions.toml",
        "gradle/wrapper/gradle-wrapper.jar",
        "gradlew",
        "hie.yaml",
        "infra/main.tf",
        "lefthook-local.yml",
        "magefile.go",
        "mix.exs",
        "mypy.ini",
        "nx.json",
        "packages/a/.eslintrc",
        "packages/a/gulpfile.js",
        "packages/a/project.json",
        "pnpmfile.cjs",
        "pylintrc",
        "pytest.ini",
        "src/App/App.csproj",
        "src/B/B.fsproj",
        "src/SConscript",
        "tools/bazel",
        "tui.json",
        "vite.config.ts",
        "waf",
        "wscript",
        "x/.git/config",
        "x/agents.md",
        "x/mise.local.toml",
        "xmake.lua",
    ];
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, &[("packages/a/package.json", "{}")]);
    for name in names {
        let before = ProjectFiles::read_earlier(dir);
        let text = if name == "Cargo.toml" { "[profile.dev]\nopt-level = 1\n" } else { "#!x" };
        write(dir, &[(name, text)]);
        let expected = match name {
            "Cargo.toml" => "Cargo.toml (profile)",
            "x/.git/config" => "x/.git",
            name => name,
        };
        assert_eq!(before.changed(), [expected], "{name}");
        let before = ProjectFiles::read_earlier(dir);
        write(dir, &[(name, "y")]);
        assert_eq!(before.changed().len(), 1, "{name}");
    }
}

#[test]
fn parts_of_manifests_are_named() {
    let cargo =
        "[package]\nmetadata.x = 1\n[patch.crates-io]\nx.path = \"x\"\n[workspace]\nmembers = []\n";
    let go = "module x\n\ngo 1.22\ntool x/y\nrequire (\n\tx v2 // indirect\n)\nreplace(\n\tx => ../x\n) // x\ntoolchain go1\n";
    let rows = [
        ("Cargo.toml", cargo, "Cargo.toml (package.metadata, patch)"),
        ("Cargo.toml", "", "Cargo.toml (package.metadata, patch)"),
        ("go.mod", go, "go.mod (replace, tool, toolchain)"),
        ("go.mod", "module x\n\ngo 1.22\nrequire x v1\n", "go.mod (replace, tool, toolchain)"),
        ("pyproject.toml", "[tool.mypy]\nplugins = \"x\"\n", "pyproject.toml (tool.mypy)"),
        (
            "tsconfig.json",
            r#"{"compilerOptions": {"strict": true, "plugins": []}}"#,
            "tsconfig.json (compilerOptions.plugins)",
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for name in ["Cargo.toml", "go.mod", "pyproject.toml"] {
        write(dir, &[(name, "")]);
    }
    write(dir, &[("tsconfig.json", "{}")]);
    for (name, text, expected) in rows {
        let before = ProjectFiles::read(dir);
        write(dir, &[(name, text)]);
        assert_eq!(before.changed(), [expected], "{text}");
    }
}

#[test]
fn data_and_sources_of_a_project_are_not_named() {
    let names = [
        "Build/x.json",
        "Cargo.lock",
        "LICENSE",
        "a.out",
        "build/CMakeFiles/x.json",
        "docs/x.toml",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "pnpm-lock.yaml",
        "profile.rs",
        "program",
        "src/app/compose.ts",
        "src/directory.rs",
        "src/fixtures/x.json",
        "src/program",
        "src/profile.ts",
        "tests/data/x.ini",
    ];
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(dir, &[("package.json", "{}"), ("go.mod", "module x\n")]);
    let before = ProjectFiles::read(dir);
    for name in names {
        write(dir, &[(name, "\0")]);
    }
    write(dir, &[("notes", "a text")]);
    fs::write(dir.join("tsconfig.json"), r#"{"compilerOptions": {"strict": true}}"#).unwrap();
    write(dir, &[("go.mod", "module x\nrequire y v1\n"), ("Cargo.toml", "[workspace]\n")]);
    assert_eq!(before.changed(), [""; 0]);
}
