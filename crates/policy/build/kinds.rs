//! The table of built-in kinds, from files of `kinds/`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::files;

/// A file of `kinds/`, whose name is that of the kind. The fields are those of `KindSpec`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindFile {
    rank: u32,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    interpreters: Vec<String>,
    markers: Vec<String>,
    #[serde(default)]
    version_names: Vec<String>,
    official_image: Option<String>,
    #[serde(default)]
    version_files: Vec<VersionFile>,
    #[serde(default)]
    caches: Vec<Cache>,
    #[serde(default)]
    volumes: Vec<Volume>,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    container_variables: BTreeMap<String, String>,
    project: Project,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionFile {
    file: String,
    format: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cache {
    variable: String,
    local: String,
    container: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Volume {
    name: String,
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Project {
    files: Vec<String>,
    #[serde(default)]
    data: Vec<String>,
    #[serde(default)]
    manifests: BTreeMap<String, Parts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Parts {
    Only(Vec<String>),
    AllBut(Vec<String>),
}

/// Returns an expression: a slice of `KindSpec`, by rank.
pub(super) fn table() -> Result<String, Box<dyn Error>> {
    let mut kinds = Vec::new();
    for path in files("kinds")? {
        kinds.push(read(&path)?);
    }
    kinds.sort_by_key(|(_, kind)| kind.rank);
    let rows: String = kinds.iter().map(|(name, kind)| row(name, kind)).collect();
    Ok(format!("&[\n{rows}]\n"))
}

fn read(path: &Path) -> Result<(String, KindFile), Box<dyn Error>> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let kind = toml::from_str(&fs::read_to_string(path)?);
    Ok((name, kind.map_err(|error| format!("{}: {error}", path.display()))?))
}

/// Returns the expression of a `KindSpec`. Strings and their lists are written as Rust's `Debug` does.
fn row(name: &str, kind: &KindFile) -> String {
    let list = |items: &[String]| format!("&{items:?}");
    let version_files = kind.version_files.iter().map(|VersionFile { file, format }| {
        format!("({file:?}, VersionFormat::{})", camel_case(format))
    });
    let caches = kind.caches.iter().map(|Cache { variable, local, container }| {
        format!(
            "KindCache {{ variable: {variable:?}, local: {local:?}, container: {container:?} }}"
        )
    });
    let volumes = kind.volumes.iter();
    let volumes = volumes
        .map(|Volume { name, path }| format!("KindVolume {{ name: {name:?}, path: {path:?} }}"));
    let manifests = kind.project.manifests.iter().map(|(file, parts)| match parts {
        Parts::Only(keys) => format!("({file:?}, ManifestParts::Only(&{keys:?}))"),
        Parts::AllBut(keys) => format!("({file:?}, ManifestParts::AllBut(&{keys:?}))"),
    });
    let pairs = |variables: &BTreeMap<String, String>| {
        format!("&{:?}", variables.iter().collect::<Vec<_>>())
    };
    let project = format!(
        "ProjectNames {{ files: {}, manifests: {}, data: {} }}",
        list(&kind.project.files),
        slice(manifests),
        list(&kind.project.data)
    );
    let fields = [
        ("name", format!("{name:?}")),
        ("aliases", list(&kind.aliases)),
        ("tools", list(&kind.tools)),
        ("interpreters", list(&kind.interpreters)),
        ("markers", list(&kind.markers)),
        ("version_files", slice(version_files)),
        ("project", project),
        ("version_names", list(&kind.version_names)),
        ("official_image", format!("{:?}", kind.official_image)),
        ("caches", slice(caches)),
        ("volumes", slice(volumes)),
        ("variables", pairs(&kind.variables)),
        ("container_variables", pairs(&kind.container_variables)),
    ];
    let fields = fields.map(|(name, value)| format!("    {name}: {value},\n"));
    format!("KindSpec {{\n{}}},\n", fields.concat())
}

fn slice(items: impl Iterator<Item = String>) -> String {
    format!("&[{}]", items.collect::<Vec<_>>().join(", "))
}

/// `rust-toolchain-toml` becomes `RustToolchainToml`.
fn camel_case(word: &str) -> String {
    let capital = |part: &str| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    word.split('-').map(capital).collect()
}
