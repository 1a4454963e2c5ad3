//! Checks of an engine: availability and features.

use aifo_types::Finding;

use crate::{CgroupVersion, EngineStatus, Facts, Flavor};

impl EngineStatus {
    /// Checks the engine's features.
    pub fn findings(&self) -> Vec<Finding> {
        let name = self.flavor.to_string();
        match &self.result {
            Err(reason) => vec![Finding::failure(name, reason, remedy(self.flavor))],
            Ok(engine) => {
                let facts = engine.facts();
                let mut findings = vec![
                    Finding::ok(&name, summary(facts)),
                    judge_kernel(&name, facts),
                    judge_cgroups(&name, facts),
                ];
                findings.extend(facts.runc.as_deref().map(|version| judge_runc(&name, version)));
                findings
            }
        }
    }
}

fn remedy(flavor: Flavor) -> &'static str {
    match flavor {
        Flavor::Docker => {
            "start its daemon (systemctl start docker), and check access to its socket (group \
             docker)"
        }
        Flavor::Podman => "run: podman info",
    }
}

fn summary(facts: &Facts) -> String {
    let rights = if facts.rootless { "rootless" } else { "as root" };
    let security = match facts.security[..] {
        [] => "no further confinement of containers".to_owned(),
        _ => format!("containers are confined by {}", facts.security.join(", ")),
    };
    format!("{} on {}, {rights}; {security}", facts.version, facts.system)
}

fn judge_kernel(name: &str, facts: &Facts) -> Finding {
    let check = format!("{name} kernel");
    if facts.shares_host_kernel() {
        return Finding::ok(
            check,
            "containers share this machine's kernel, so descriptors can be passed to them",
        );
    }
    Finding::warn(
        check,
        format!("containers run on another kernel, {}: all tool output is relayed", facts.kernel),
        "run the engine on this machine for faster calls",
    )
}

fn judge_cgroups(name: &str, facts: &Facts) -> Finding {
    let check = format!("{name} cgroups");
    match (facts.cgroups, facts.rootless) {
        (CgroupVersion::V2, _) => Finding::ok(check, "version 2"),
        (CgroupVersion::V1, false) => Finding::ok(check, "version 1"),
        (CgroupVersion::V1, true) => Finding::warn(
            check,
            "version 1: a rootless engine cannot limit containers",
            "boot with systemd.unified_cgroup_hierarchy=1",
        ),
        (CgroupVersion::Unknown, _) => Finding::warn(
            check,
            "the engine reports no version; limits may not be enforced",
            "run the engine's 'info' command",
        ),
    }
}

/// Distributions fix an old version under the same number.
fn judge_runc(name: &str, version: &str) -> Finding {
    let check = format!("{name} runc");
    let numbers = version.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u32> = numbers.take(3).map_while(|number| number.parse().ok()).collect();
    let is_distributions =
        ["deb", "ubuntu", ".el", ".fc"].iter().any(|mark| version.contains(mark));
    if numbers.len() < 3 || numbers.as_slice() >= FIXED_RUNC.as_slice() {
        return Finding::ok(check, version);
    }
    if is_distributions {
        return Finding::ok(check, format!("{version}, with the fixes of the distribution"));
    }
    Finding::warn(
        check,
        format!("{version}: before 1.1.12 a container can escape to this machine (CVE-2024-21626)"),
        "update runc, or the engine that contains it",
    )
}

/// The first version that fixes CVE-2024-21626.
const FIXED_RUNC: [u32; 3] = [1, 1, 12];

#[cfg(test)]
mod tests {
    use super::*;
    use aifo_types::FindingStatus as Status;

    #[test]
    fn an_old_runc_is_reported() {
        let rows = [
            ("v1.1.5-0-gf19387a", Status::Warn),
            ("1.0.0-rc10", Status::Warn),
            ("1.1.5+ds1-1+deb12u1", Status::Ok),
            ("v1.1.12-0-g51d5e94", Status::Ok),
            ("1.3.0", Status::Ok),
            ("f19387a", Status::Ok),
        ];
        for (version, expected) in rows {
            assert_eq!(judge_runc("docker", version).status, expected, "{version}");
        }
    }

    #[test]
    fn limits_need_cgroups() {
        let facts = |cgroups, rootless| Facts {
            version: "1".to_owned(),
            system: "Debian".to_owned(),
            kernel: "none".to_owned(),
            rootless,
            remapped: false,
            cgroups,
            memory: 0,
            security: vec!["seccomp".to_owned()],
            runc: None,
        };
        let rows = [
            (CgroupVersion::V2, true, Status::Ok),
            (CgroupVersion::V1, false, Status::Ok),
            (CgroupVersion::V1, true, Status::Warn),
            (CgroupVersion::Unknown, false, Status::Warn),
        ];
        for (cgroups, rootless, expected) in rows {
            assert_eq!(judge_cgroups("docker", &facts(cgroups, rootless)).status, expected);
        }
        let other = facts(CgroupVersion::V2, false);
        assert_eq!(judge_kernel("docker", &other).status, Status::Warn);
        assert_eq!(summary(&other), "1 on Debian, as root; containers are confined by seccomp");
    }
}
