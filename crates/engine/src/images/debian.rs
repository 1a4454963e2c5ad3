//! Base images from Debian packages, for machines that reach a mirror but no container registry.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use crate::images::error::ImageError;
use crate::images::host::{Host, INPUTS_LABEL, Log};
use crate::images::scratch::scratch;

/// The release of sidecars. A program built in a sidecar may run beside the agent, so this C library
/// must not be newer than the agent's.
pub const RELEASE: &str = "bookworm";

/// A root file system from Debian packages.
#[derive(Clone, Copy, Debug)]
pub struct DebianRoot<'a> {
    /// The image name and tag.
    pub image: &'a str,
    /// Debian's release.
    pub release: &'a str,
    /// Packages beyond a minimal system with apt.
    pub packages: &'a [&'a str],
}

impl DebianRoot<'_> {
    /// Returns a digest of the inputs.
    pub fn inputs(&self) -> String {
        digest([self.release].iter().chain(self.packages).chain(SLIM))
    }

    /// Builds the image for every engine that lacks it, or for all if `fresh`; packages are
    /// downloaded once. Writes a line to `out` if it builds.
    pub fn provide(
        &self,
        hosts: &[Host],
        fresh: bool,
        out: &mut dyn Write,
    ) -> Result<(), ImageError> {
        let scratch = scratch()?;
        self.provide_logged(hosts, fresh, &mut Log::new(scratch.path(), out))
    }

    pub(crate) fn provide_logged(
        &self,
        hosts: &[Host],
        fresh: bool,
        log: &mut Log<'_>,
    ) -> Result<(), ImageError> {
        let inputs = self.inputs();
        let lacking = hosts.iter().filter(|host| fresh || !host.has(self.image, &inputs));
        let lacking: Vec<&Host> = lacking.collect();
        let Some(first) = lacking.first() else { return Ok(()) };
        let mut command = first.mmdebstrap().ok_or(ImageError::NoMmdebstrap)?;
        let scratch = scratch()?;
        let tar = scratch.path().join("root.tar");
        command.args(["--quiet", "--variant=minbase"]);
        command.args(SLIM.iter().map(|option| format!("--dpkgopt={option}")));
        if !self.packages.is_empty() {
            command.arg(format!("--include={}", self.packages.join(",")));
        }
        let step = log.step(self.image, command.arg(self.release).arg(&tar));
        step.map_err(|error| match log.text().contains(NO_MODE) {
            true => ImageError::NoUserIds(self.image.to_owned()),
            false => error,
        })?;
        for host in lacking {
            let label = format!("LABEL {INPUTS_LABEL}={inputs}");
            let mut command = host.command(["import", "--change", &label]);
            log.quiet(self.image, command.arg(&tar).arg(self.image))?;
        }
        Ok(())
    }
}

/// mmdebstrap's error if neither root nor a range of user ids is available.
const NO_MODE: &str = "unable to pick chroot mode";

/// Returns a digest of a list of parts. It is compared with an image's label and needs no security:
/// another hash version only rebuilds an image.
pub fn digest(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        part.as_ref().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// As in Debian's slim images: no manuals. Licences are kept.
const SLIM: &[&str] = &[
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
];

#[cfg(test)]
mod tests {
    use crate::Flavor;

    use super::*;
    use crate::images::script::script;

    #[test]
    fn a_user_without_ids_gets_a_hint() {
        let scratch = tempfile::tempdir().unwrap();
        let program = |name: &str, body: &str| script(scratch.path(), name, body);
        let root = DebianRoot { image: "x", release: RELEASE, packages: &[] };
        let failed = |body: &str| {
            let engine = program("docker", "exit 1");
            let mmdebstrap = Some(program("mmdebstrap", body));
            let host = Host { flavor: Flavor::Docker, engine, mmdebstrap };
            root.provide(&[host], false, &mut Vec::new()).unwrap_err()
        };
        let error = failed("echo 'E: unable to pick chroot mode automatically' >&2; exit 25");
        assert!(matches!(error, ImageError::NoUserIds(_)), "{error}");
        assert!(matches!(failed("exit 25"), ImageError::Failed { .. }));
    }

    #[test]
    fn other_packages_are_another_root() {
        let root = |packages| DebianRoot { image: "x", release: RELEASE, packages }.inputs();
        assert_eq!(root(&["make"]), root(&["make"]));
        assert_ne!(root(&["make"]), root(&["make", "gcc"]));
        assert_ne!(root(&["ab"]), root(&["a", "b"]));
    }
}
