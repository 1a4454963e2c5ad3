//! Certificates that this machine has beyond its distribution's (`spec/containers.md#certificates`).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Variables that name certificates. With most of them, they replace a program's usual ones.
pub const CERTIFICATE_VARIABLES: [&str; 7] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "GIT_SSL_CAINFO",
];

/// Directories of certificates that an administrator adds to the system's.
const ADDED: [&str; 2] = ["/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"];

/// The system's certificates in one file, those of the administrator among them.
const BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Returns the variables and directories by which this machine has certificates beyond the
/// distribution's.
pub fn own_certificates(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<&'static str> {
    let named = CERTIFICATE_VARIABLES.into_iter().filter(|name| {
        let path = variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        path.is_some_and(|path| path.is_file() && !is_systems(&path))
    });
    named.chain(ADDED.into_iter().filter(|added| has_files(Path::new(added), MAX_DEPTH))).collect()
}

/// Returns the system's bundle, if an administrator added certificates to it.
pub fn extended_system_bundle() -> Option<PathBuf> {
    ADDED.iter().find(|added| has_files(Path::new(added), MAX_DEPTH))?;
    BUNDLES.iter().map(PathBuf::from).find(|bundle| bundle.is_file())
}

/// Returns whether a file is the system's bundle. With added certificates, the directory that has them is
/// found as well.
fn is_systems(path: &Path) -> bool {
    let Ok(real) = path.canonicalize() else { return false };
    BUNDLES.iter().any(|bundle| Path::new(bundle).canonicalize().is_ok_and(|it| it == real))
}

fn has_files(directory: &Path, depth: usize) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| match path.is_dir() {
        true => depth > 0 && has_files(&path, depth - 1),
        false => true,
    })
}

/// Levels of directories below an administrator's.
const MAX_DEPTH: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_own_bundle_is_no_further_certificate() {
        let base = std::env::temp_dir().join(format!("aifo-certificates-{}", std::process::id()));
        fs::create_dir_all(base.join("a/b")).unwrap();
        let file = base.join("company.pem");
        fs::write(&file, "").unwrap();
        let of = |name: &'static str, path: &Path| {
            let path = path.to_owned();
            let found = own_certificates(&|asked| (asked == name).then(|| path.clone().into()));
            found.contains(&name)
        };
        for name in CERTIFICATE_VARIABLES {
            assert!(of(name, &file), "{name}");
        }
        assert!(!of("SSL_CERT_FILE", &base.join("absent")) && !of("PIP_CERT", Path::new("")));
        if let Some(bundle) = BUNDLES.iter().find(|bundle| Path::new(bundle).is_file()) {
            let link = base.join("link");
            std::os::unix::fs::symlink(bundle, &link).unwrap();
            assert!(!of("SSL_CERT_FILE", Path::new(bundle)) && !of("SSL_CERT_FILE", &link));
        }
        assert!(has_files(&base, 0) && !has_files(&base.join("a"), 2));
        fs::write(base.join("a/b/x.crt"), "").unwrap();
        assert!(has_files(&base.join("a"), 1) && !has_files(&base.join("a"), 0));
        fs::remove_dir_all(&base).unwrap();
    }
}
