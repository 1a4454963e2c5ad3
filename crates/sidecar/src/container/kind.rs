//! Container specifications of sidecars and agents.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use aifo_engine::{ContainerLimits, ContainerSpec, Mount, Network, Stdio, User, Value};
use aifo_policy::{KindVolume, kind_spec};
use aifo_types::{Kind, container_path};

use super::http_proxies::{ProxyLogin, proxy_variables};
use super::repository::Repository;
use super::{ContainerConfig, Net, Shared};
use crate::caches::{CacheOwner, Caches, ProjectKey};
use crate::local::{Transport, restriction_words};

/// The socket's name.
pub(super) const SOCKET: &str = "control";
/// Second path of the workspace.
pub const WORKSPACE: &str = "/workspace";
/// Second path of the session's temporary directory.
pub const TMP: &str = "/tmp";
/// The tools' home, empty at the start.
pub const HOME: &str = "/home/coder";

const CARGO_HOME: &str = "/home/coder/.cargo";

/// The volumes of a kind that outlive sessions.
fn volumes(kind: &Kind) -> &'static [KindVolume] {
    kind_spec(kind).map_or(&[], |spec| spec.volumes)
}

/// Returns the directories of a kind's caches in containers.
pub fn cache_directories(kind: &Kind) -> impl Iterator<Item = &'static str> {
    volumes(kind).iter().map(|volume| volume.path)
}

/// Returns the variables of a kind's tools in containers.
pub fn variables(kind: &Kind) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
    let spec = kind_spec(kind);
    let of_containers = spec.map_or(&[][..], |spec| spec.container_variables);
    let caches = spec.map_or(&[][..], |spec| spec.caches).iter();
    let caches = caches.filter_map(|cache| Some((cache.variable, cache.container?)));
    let cargo = (kind.as_str() == "rust").then_some(("CARGO_HOME", CARGO_HOME));
    cargo
        .into_iter()
        .chain(spec.map_or(&[][..], |spec| spec.variables).iter().copied())
        .chain(of_containers.iter().copied())
        .chain(caches)
}

/// Returns the owner of a volume, if it is a cache of this kind and user.
pub fn cache_volume_owner(kind: &Kind, volume: &str) -> Option<CacheOwner> {
    volumes(kind).iter().find_map(|cache| {
        let rest = volume.strip_prefix(&users_volume(cache))?;
        match rest.strip_prefix('-') {
            Some(key) => ProjectKey::parse(key).map(CacheOwner::Project),
            None => rest.is_empty().then_some(CacheOwner::User),
        }
    })
}

/// Returns the name of a cache's volume. It contains the owner, since other projects and users are not
/// trusted.
fn volume(cache: &KindVolume, owner: &CacheOwner) -> String {
    let name = users_volume(cache);
    match owner {
        CacheOwner::Project(key) => format!("{name}-{key}"),
        CacheOwner::User => name,
    }
}

fn users_volume(cache: &KindVolume) -> String {
    format!("{}-{}", cache.name, nix::unistd::getuid())
}

/// Paths of the runner in a container.
pub(super) struct RunnerPlace {
    /// The program.
    pub(super) program: &'static str,
    /// The mount that provides it.
    pub(super) mount: Mount,
    /// The directory of its socket.
    pub(super) sockets: &'static str,
}

/// Returns the base specification of all containers of a session.
pub(super) fn container(shared: &Shared, name: String, kind: &str, image: String) -> ContainerSpec {
    let mount = Mount::bind(&shared.config.runner_program, container_path::RUNNER, true);
    container_with(
        shared,
        name,
        kind,
        image,
        RunnerPlace { program: container_path::RUNNER, mount, sockets: container_path::SOCKET_DIR },
    )
}

/// The same, with other paths of the runner.
pub(super) fn container_with(
    shared: &Shared,
    name: String,
    kind: &str,
    image: String,
    runner: RunnerPlace,
) -> ContainerSpec {
    let config = &shared.config;
    let mut mounts = vec![runner.mount];
    let mut args = vec![OsString::from("serve")];
    args.extend(restriction_words(&config.restrictions));
    let stdio = match config.transport {
        Transport::Descriptors => {
            mounts.push(Mount::bind(&config.sockets.join(kind), runner.sockets, true));
            args.extend(["--connect".into(), Path::new(runner.sockets).join(SOCKET).into()]);
            Stdio::Detached
        }
        Transport::Stream => {
            args.push("--stream".into());
            Stdio::Attached
        }
    };
    ContainerSpec {
        name,
        image,
        labels: config.labels.clone(),
        kind: kind.to_owned(),
        entrypoint: runner.program.into(),
        args,
        mounts,
        variables: Vec::new(),
        network: Network::None,
        hostname: None,
        sysctls: Vec::new(),
        publish: Vec::new(),
        // Podman raises limits of processes that are not given, which not every host permits.
        limits: ContainerLimits {
            ulimits: config.limits.ulimits.clone(),
            ..ContainerLimits::default()
        },
        stdio,
        user: User::Caller,
        capabilities: Vec::new(),
    }
}

/// Adds workspace and variables, for containers of tools and agents.
pub(super) fn working(shared: &Shared, mut spec: ContainerSpec) -> ContainerSpec {
    let config = &shared.config;
    spec.network = match config.net {
        // The agent always has a stack of its own: tools must not reach what listens there.
        Net::Names | Net::Learn if shared.holds_stack(&spec.kind) => Network::None,
        Net::Shared | Net::Names | Net::Learn => {
            Network::Of(shared.pod_name(&shared.stack_of(&spec.kind)))
        }
        Net::Separate => Network::Named(shared.network_name()),
        Net::None => Network::None,
        Net::Host => Network::Host,
    };
    if config.net == Net::Separate {
        shared.isolate_network(&mut spec);
    }
    let is_served = shared.is_served(&spec);
    if is_served {
        shared.resolve_names(&mut spec);
    }
    spec.limits = config.limits.clone();
    spec.mounts.extend([
        Mount::bind(&config.workspace, WORKSPACE, false),
        Mount::bind(&config.workspace, &config.workspace, false),
        Mount::bind(&config.tmp, TMP, false),
    ]);
    spec.mounts.extend(pinned_in_tmp(config));
    spec.mounts
        .extend([Mount::bind(&config.tmp, &config.tmp, false), Mount::Scratch { to: HOME.into() }]);
    let private = config.agent.iter().flat_map(|agent| agent.private.iter().cloned());
    spec.mounts.extend(private.map(|to| Mount::Scratch { to }));
    let identity = [("HOME", HOME), ("USER", "coder"), ("LOGNAME", "coder")];
    spec.variables.extend(identity.map(plain));
    if !is_served {
        let host = |name: &str| std::env::var_os(name);
        spec.variables.extend(proxy_variables(ProxyLogin::Removed, host));
    }
    spec
}

/// Directories in `/tmp` above other mounts, each mounted at itself. A mount point cannot be renamed in
/// its own container, so no tool puts another workspace in the agent's way.
fn pinned_in_tmp(config: &ContainerConfig) -> impl Iterator<Item = Mount> {
    let linked = config.linked.as_ref().map(|linked| &linked.common);
    let places = [&config.workspace, &config.tmp].into_iter().chain(linked);
    let above = places.flat_map(|place| place.ancestors().skip(1));
    let in_tmp = |path: &Path| Some(path.strip_prefix(TMP).ok()?.to_owned());
    let pinned: BTreeSet<_> =
        above.filter_map(in_tmp).filter(|path| path != Path::new("")).collect();
    pinned
        .into_iter()
        .map(|path| Mount::bind(&config.tmp.join(&path), Path::new(TMP).join(path), false))
}

fn plain((name, value): (&str, &str)) -> (OsString, Value) {
    (OsString::from(name), Value::Plain(value.into()))
}

/// Variables by which tools know how many processors they have: a limit of a container is none that they count.
/// A caller's own values override them.
const JOBS: [&str; 4] = ["CARGO_BUILD_JOBS", "GOMAXPROCS", "OMP_NUM_THREADS", "PYTHON_CPU_COUNT"];

/// A sidecar container.
pub(super) fn sidecar(shared: &Shared, kind: &Kind, repository: &Repository) -> ContainerSpec {
    let config = &shared.config;
    let image = config.images.of(kind);
    let spec = container(shared, shared.container_name(kind), kind.as_str(), image);
    let mut spec = working(shared, spec);
    add_repository(shared, &mut spec, repository);
    if config.net == Net::Separate {
        spec.publish.clone_from(&config.publish);
    }
    spec.variables.extend(variables(kind).map(plain));
    if let Some(cpus) = config.limits.cpus {
        let share = format!("{:.0}", cpus.ceil());
        spec.variables.extend(JOBS.map(|name| plain((name, &share))));
    }
    if kind.as_str() == "rust" {
        // Otherwise the engine creates it as root for the mounts below.
        spec.mounts.push(Mount::Scratch { to: CARGO_HOME.into() });
    }
    for cache in volumes(kind) {
        let to = PathBuf::from(cache.path);
        spec.args.extend(["--writable".into(), to.clone().into()]);
        spec.mounts.push(match &config.caches {
            Caches::Of(owner) => Mount::Volume { name: volume(cache, owner), to },
            Caches::None => Mount::Scratch { to },
        });
    }
    if config.lacks_certificates {
        spec.args.push("--lacks-certificates".into());
    }
    let admitted = config.admitted.iter();
    for admitted in admitted.filter(|it| it.kind.as_ref().is_none_or(|of| of == kind)) {
        spec.mounts.extend(admitted.mount.clone());
        spec.variables.extend(admitted.variables.iter().cloned());
    }
    spec
}

/// Adds the mounts of a repository, and the runner's checks of them.
pub(super) fn add_repository(shared: &Shared, spec: &mut ContainerSpec, repository: &Repository) {
    let (alias, workspace) = (Path::new(WORKSPACE), &shared.config.workspace);
    spec.mounts.extend(repository.mounts(alias, workspace));
    spec.args.extend(repository.expectations(alias, workspace));
}

/// The container that changes the owner of another's volumes to the caller.
pub(super) fn owner(shared: &Shared, of: &ContainerSpec) -> ContainerSpec {
    let kind = format!("{}-owner", of.kind);
    let name = format!("{}-owner", of.name);
    let mut spec = container(shared, name, &kind, of.image.clone());
    // No socket needed.
    spec.mounts.truncate(1);
    let ids = format!("{}:{}", nix::unistd::getuid(), nix::unistd::getgid());
    spec.args = vec!["chown".into(), ids.into()];
    for mount in of.mounts.iter().filter(|mount| matches!(mount, Mount::Volume { .. })) {
        if let Mount::Volume { to, .. } = mount {
            spec.args.push(to.clone().into());
        }
        spec.mounts.push(mount.clone());
    }
    spec.stdio = Stdio::Detached;
    spec.user = User::Root;
    spec.capabilities = vec!["CHOWN", "DAC_READ_SEARCH"];
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projects_volumes_have_its_key_and_an_owner_is_read_from_a_name() {
        let uid = nix::unistd::getuid();
        let project = CacheOwner::Project(ProjectKey::parse("0123456789abcdef").unwrap());
        let mut names = Vec::new();
        for kind in ["rust", "node", "python", "go", "c-cpp", "java"].map(Kind::parse) {
            let kind = kind.unwrap();
            for cache in volumes(&kind) {
                for owner in [&project, &CacheOwner::User] {
                    let name = volume(cache, owner);
                    assert_eq!(cache_volume_owner(&kind, &name).as_ref(), Some(owner), "{name}");
                    names.push(name);
                }
                let own = volume(cache, &project);
                assert_eq!(own, format!("{}-{uid}-0123456789abcdef", cache.name));
            }
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), count), (12, 12), "no two caches share a volume");

        let go = Kind::parse("go").unwrap();
        for other in ["aifo-go", "aifo-go-x", "aifo-ccache-0"] {
            assert_eq!(cache_volume_owner(&go, other), None, "{other}");
        }
        for rest in ["0", "-", "-0123", "-0123456789ABCDEF", "-0123456789abcdef-0"] {
            let other = format!("aifo-go-{uid}{rest}");
            assert_eq!(cache_volume_owner(&go, &other), None, "{other}");
        }
    }
}
