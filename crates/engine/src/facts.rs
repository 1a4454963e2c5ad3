//! The properties of an engine, from its `info` command.

use serde::Deserialize;

use crate::flavor::Flavor;

/// The properties of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its version.
    pub version: String,
    /// The system its containers run on.
    pub system: String,
    /// The kernel its containers run on.
    pub kernel: String,
    /// True if it runs as the user, not as root.
    pub rootless: bool,
    /// True if it maps the users of containers to others (docker's `userns-remap`).
    pub remapped: bool,
    /// The cgroup version that limits its containers.
    pub cgroups: CgroupVersion,
    /// The memory of the machine its containers run on, in bytes.
    pub memory: u64,
    /// Further confinement of its containers: AppArmor, SELinux, seccomp.
    pub security: Vec<String>,
    /// The version of runc as reported; `None` for another runtime, or if not reported.
    pub runc: Option<String>,
}

/// The version of the kernel's control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy per resource.
    V1,
    /// One hierarchy for all resources.
    V2,
    /// Not reported.
    Unknown,
}

impl Facts {
    /// Parses the output of `info`.
    pub(crate) fn parse(flavor: Flavor, answer: &[u8]) -> Result<Self, serde_json::Error> {
        match flavor {
            Flavor::Docker => serde_json::from_slice(answer).map(docker),
            Flavor::Podman => serde_json::from_slice(answer).map(podman),
        }
    }

    /// Returns the error in the output of a client without a daemon. docker 20.10 prints it to stdout
    /// and nothing to stderr.
    pub(crate) fn server_error(answer: &[u8]) -> Option<String> {
        let info: DockerInfo = serde_json::from_slice(answer).ok()?;
        info.server_errors.into_iter().next()
    }

    /// Returns whether its containers run on this machine's kernel, judged by the kernel's release.
    pub fn shares_host_kernel(&self) -> bool {
        nix::sys::utsname::uname()
            .is_ok_and(|host| host.release().to_str() == Some(self.kernel.as_str()))
            && !self.system.contains("Docker Desktop")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerInfo {
    #[serde(default)]
    server_version: String,
    #[serde(default)]
    operating_system: String,
    #[serde(default)]
    kernel_version: String,
    #[serde(default)]
    cgroup_version: String,
    #[serde(default)]
    mem_total: u64,
    #[serde(default)]
    security_options: Vec<String>,
    /// Errors of requests to the daemon.
    #[serde(default)]
    server_errors: Vec<String>,
    runc_commit: Option<DockerCommit>,
}

/// A version, such as `1.1.5+ds1-1+deb12u1`, or `v1.2.5-0-g59923ef`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerCommit {
    #[serde(default, rename = "ID")]
    id: String,
}

fn docker(info: DockerInfo) -> Facts {
    // `name=seccomp,profile=default`
    let names = info.security_options.iter().filter_map(|option| {
        option.split(',').find_map(|part| part.strip_prefix("name=")).map(str::to_owned)
    });
    let security: Vec<String> = names.collect();
    let has = |name: &str| security.iter().any(|option| option == name);
    Facts {
        // A client without a daemon reports no version of the engine.
        version: if info.server_errors.is_empty() { info.server_version } else { String::new() },
        system: info.operating_system,
        kernel: info.kernel_version,
        rootless: has("rootless"),
        remapped: has("userns"),
        cgroups: cgroups(&info.cgroup_version),
        memory: info.mem_total,
        security,
        runc: info.runc_commit.map(|commit| commit.id).filter(|id| !id.is_empty()),
    }
}

#[derive(Deserialize)]
struct PodmanInfo {
    host: PodmanHost,
    version: PodmanVersion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodmanHost {
    distribution: PodmanDistribution,
    kernel: String,
    cgroup_version: String,
    mem_total: u64,
    security: PodmanSecurity,
    oci_runtime: Option<PodmanRuntime>,
}

#[derive(Deserialize)]
struct PodmanRuntime {
    #[serde(default)]
    name: String,
    /// `runc_1.1.5+ds1-1+deb12u1_amd64`
    #[serde(default)]
    package: String,
    /// The output of `--version`.
    #[serde(default)]
    version: String,
}

impl PodmanRuntime {
    fn runc(self) -> Option<String> {
        if self.name != "runc" {
            return None;
        }
        let of_package = self.package.split('_').nth(1).map(str::to_owned);
        of_package.or_else(|| self.version.split_whitespace().nth(2).map(str::to_owned))
    }
}

#[derive(Deserialize)]
struct PodmanDistribution {
    distribution: String,
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodmanSecurity {
    apparmor_enabled: bool,
    rootless: bool,
    seccomp_enabled: bool,
    selinux_enabled: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PodmanVersion {
    version: String,
}

fn podman(info: PodmanInfo) -> Facts {
    let PodmanHost { distribution, kernel, cgroup_version, mem_total, security, oci_runtime } =
        info.host;
    let named = [
        ("apparmor", security.apparmor_enabled),
        ("seccomp", security.seccomp_enabled),
        ("selinux", security.selinux_enabled),
    ];
    Facts {
        version: info.version.version,
        system: format!("{} {}", distribution.distribution, distribution.version).trim().to_owned(),
        kernel,
        rootless: security.rootless,
        remapped: false,
        cgroups: cgroups(&cgroup_version),
        memory: mem_total,
        security: named.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()).collect(),
        runc: oci_runtime.and_then(PodmanRuntime::runc),
    }
}

fn cgroups(version: &str) -> CgroupVersion {
    match version.trim_start_matches('v') {
        "1" => CgroupVersion::V1,
        "2" => CgroupVersion::V2,
        _ => CgroupVersion::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_docker_and_podman() {
        let docker = br#"{"ServerVersion":"20.10.24","OperatingSystem":"Debian GNU/Linux 12",
            "KernelVersion":"6.1.0","CgroupVersion":"2","MemTotal":1024,
            "RuncCommit":{"ID":"v1.1.5-0-gf19387a"},
            "SecurityOptions":["name=apparmor","name=seccomp,profile=default","name=rootless"]}"#;
        let facts = Facts::parse(Flavor::Docker, docker).unwrap();
        assert_eq!(facts.version, "20.10.24");
        assert_eq!(facts.cgroups, CgroupVersion::V2);
        assert_eq!(facts.security, ["apparmor", "seccomp", "rootless"]);
        assert!(facts.rootless && !facts.remapped);
        assert_eq!(facts.runc.as_deref(), Some("v1.1.5-0-gf19387a"));

        let podman = br#"{"host":{"distribution":{"distribution":"debian","version":"12"},
            "ociRuntime":{"name":"runc","package":"runc_1.1.5+ds1-1+deb12u1_amd64",
            "version":"runc version 1.1.5+ds1"},"kernel":"6.1.0","cgroupVersion":"v1","memTotal":2048,"security":{"apparmorEnabled":false,
            "rootless":false,"seccompEnabled":true,"selinuxEnabled":false}},
            "version":{"Version":"4.3.1"}}"#;
        let facts = Facts::parse(Flavor::Podman, podman).unwrap();
        assert_eq!((facts.version.as_str(), facts.system.as_str()), ("4.3.1", "debian 12"));
        assert_eq!((facts.cgroups, facts.memory), (CgroupVersion::V1, 2048));
        assert_eq!(facts.security, ["seccomp"]);
        assert_eq!(facts.runc.as_deref(), Some("1.1.5+ds1-1+deb12u1"));
    }

    #[test]
    fn output_without_a_daemon_is_an_error() {
        let docker = br#"{"ServerVersion":"","ServerErrors":["Cannot connect"]}"#;
        assert_eq!(Facts::parse(Flavor::Docker, docker).unwrap().version, "");
        assert_eq!(Facts::server_error(docker).as_deref(), Some("Cannot connect"));
        assert_eq!(Facts::server_error(b"{}"), None);
        assert!(Facts::parse(Flavor::Podman, b"{}").is_err());
    }
}
