//! The workspace as `cargo metadata` describes it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell;

/// A workspace member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Package {
    /// The package's name, for example `aifo-wire`.
    pub(crate) name: String,
    /// The manifest's directory.
    pub(crate) dir: PathBuf,
    /// The manifest's description.
    pub(crate) description: Option<String>,
    /// The manifest's licence expression.
    pub(crate) license: Option<String>,
    /// Names of its normal dependencies, without dev- and build-dependencies.
    pub(crate) dependencies: Vec<String>,
    /// Kind (`lib`, `bin`, `test`) and name of each target.
    pub(crate) targets: Vec<(String, String)>,
}

impl Package {
    /// The names of its targets of one kind.
    pub(crate) fn targets_of(&self, kind: &str) -> Vec<&str> {
        self.targets.iter().filter(|target| target.0 == kind).map(|t| t.1.as_str()).collect()
    }

    /// Returns whether the manifest is below `crates/`.
    pub(crate) fn is_product(&self) -> bool {
        self.dir.starts_with(shell::root().join("crates"))
    }
}

/// Returns the workspace's members.
pub(crate) fn packages() -> Result<Vec<Package>> {
    packages_of("Cargo.toml")
}

/// Returns the members of the workspace of a manifest, given by its path below the root.
pub(crate) fn packages_of(manifest: &str) -> Result<Vec<Package>> {
    let args = ["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest];
    let text = shell::read(&mut shell::cargo(args))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    Ok(list(&metadata["packages"]).iter().map(package).collect())
}

fn package(value: &Value) -> Package {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let manifest = PathBuf::from(text("manifest_path").unwrap_or_default());
    let normal = list(&value["dependencies"]).iter().filter(|dep| dep["kind"].is_null());
    let target = |target: &Value| {
        let kind = target["kind"][0].as_str()?;
        Some((kind.to_owned(), target["name"].as_str()?.to_owned()))
    };
    Package {
        name: text("name").unwrap_or_default(),
        dir: manifest.parent().map(PathBuf::from).unwrap_or_default(),
        description: text("description"),
        license: text("license"),
        dependencies: normal.filter_map(|dep| dep["name"].as_str()).map(str::to_owned).collect(),
        targets: list(&value["targets"]).iter().filter_map(target).collect(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_workspace() {
        let packages = packages().unwrap();
        let xtask = packages.iter().find(|package| package.name == "xtask").unwrap();
        assert_eq!(xtask.dir, shell::root().join("xtask"));
        assert!(xtask.dependencies.contains(&"anyhow".to_owned()));
        assert_eq!(xtask.targets_of("bin"), ["xtask"]);
        assert!(!xtask.is_product());
    }
}
