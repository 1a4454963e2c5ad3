//! Checks every package's description and licence, and the licence files.

use super::Finding;
use crate::shell;
use crate::workspace::Package;

const LICENSE: &str = "MIT OR Apache-2.0";
const TEXTS: &[&str] = &["LICENSE-MIT", "LICENSE-APACHE"];

/// Checks the manifests and the two licence files.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let absent = TEXTS.iter().filter(|name| !shell::root().join(name).is_file());
    let absent = absent.map(|name| Finding::new(*name, "is missing"));
    packages.iter().flat_map(check_package).chain(absent).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let place = format!("{}/Cargo.toml", package.name);
    let described = package.description.as_deref().is_some_and(|text| !text.trim().is_empty());
    let licensed = package.license.as_deref() == Some(LICENSE);
    let missing = [
        (!described).then(|| "has no description".to_owned()),
        (!licensed).then(|| format!("is not licensed '{LICENSE}'")),
    ];
    missing.into_iter().flatten().map(|what| Finding::new(&place, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_needs_description_and_licence() {
        let mut package = Package { name: "x".into(), ..Package::default() };
        assert_eq!(check_package(&package).len(), 2);
        package.description = Some(" ".into());
        package.license = Some("MIT".into());
        assert_eq!(check_package(&package).len(), 2);
        package.description = Some("What it is".into());
        package.license = Some(LICENSE.into());
        assert_eq!(check_package(&package), []);
    }
}
