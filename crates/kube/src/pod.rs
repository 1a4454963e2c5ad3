//! The pod of a session.

use std::collections::BTreeSet;

use aifo_types::{container_path, env};

use crate::container::{Container, Presence, secret_variable, variable};
use crate::session_pod::{SessionPod, WorkspaceSource};
use crate::volumes::{Access, Volumes, WORKSPACE_PATH as WORKSPACE};
use crate::yaml::{Entry, Node, list, map};
use crate::{network_policy, security};

const HOME: &str = "/home/coder";
/// Seconds for which runners wait for the launcher, whose image may have to be pulled.
const CONNECT_SECS: &str = "600";
/// Seconds for tools to end by signal escalation.
const GRACE_SECS: u64 = 10;

/// Why a session has no pod.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// A name of a container or volume is not valid.
    #[error("toolchain '{0}' cannot be the name of a container: it is reserved or too long")]
    Name(String),
    /// Pod Security *restricted* forbids root.
    #[error("user 0 is root, which the pod may not be")]
    Root,
    /// A value that would be read as an option.
    #[error("'{0}' is not valid here: it starts with '-'")]
    Option(String),
}

impl SessionPod {
    /// Returns the network policy and the pod, as YAML with comments.
    pub fn render(&self) -> Result<String, RenderError> {
        if self.user == 0 {
            return Err(RenderError::Root);
        }
        if let WorkspaceSource::Git { url, reference, .. } = &self.workspace
            && let Some(word) =
                [Some(url), reference.as_ref()].into_iter().flatten().find(|it| it.starts_with('-'))
        {
            return Err(RenderError::Option(word.clone()));
        }
        let mut volumes = Volumes::new(self);
        let inits = self.init_containers(&mut volumes);
        let containers = self.containers(&mut volumes);
        let mut names: BTreeSet<&str> = RESERVED.into_iter().collect();
        for container in &self.kinds {
            let kind = container.kind.as_str();
            if !names.insert(kind) || kind.ends_with('-') {
                return Err(RenderError::Name(kind.to_owned()));
            }
        }
        if let Some(name) = volumes.names().find(|name| name.len() > MAX_NAME) {
            return Err(RenderError::Name(name));
        }
        let pull = self.pull_secrets.iter().map(|name| map([Entry::new("name", name.as_str())]));
        let pull: Vec<Node> = pull.collect();
        let mut spec = vec![
            Entry::new("restartPolicy", "Never"),
            Entry::new("automountServiceAccountToken", false)
                .comment("Nothing inside can talk to the API."),
            Entry::new("enableServiceLinks", false),
            Entry::new("terminationGracePeriodSeconds", GRACE_SECS),
        ];
        spec.extend(self.deadline_secs.map(|secs| Entry::new("activeDeadlineSeconds", secs)));
        spec.push(
            Entry::new("securityContext", security::of_pod(self.user))
                .comment("Pod Security \"restricted\"."),
        );
        spec.extend((!pull.is_empty()).then(|| Entry::new("imagePullSecrets", list(pull))));
        spec.extend([
            Entry::new("initContainers", list(inits)),
            Entry::new("containers", list(containers)),
            Entry::new("volumes", list(volumes.into_nodes())),
        ]);
        let pod = map([
            Entry::new("apiVersion", "v1"),
            Entry::new("kind", "Pod"),
            Entry::new("metadata", security::metadata(self)),
            Entry::new("spec", map(spec)),
        ]);
        let notes: String = self.notes().iter().map(|line| format!("# {line}\n")).collect();
        let policy = network_policy::of(self);
        Ok(format!("{notes}---\n{}---\n{}", policy.print(), pod.print()))
    }

    fn notes(&self) -> Vec<String> {
        let session = &self.session;
        let mut notes = vec![
            format!("aifo session {session}: {}", self.agent.name),
            "start it with: kubectl apply -f FILE (or: podman kube play FILE)".to_owned(),
        ];
        if self.terminal {
            notes.push(format!("its terminal: kubectl attach -it aifo-{session} -c aifo"));
        }
        notes.extend(self.warnings.iter().map(|warning| {
            let line: String =
                warning.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
            format!("WARNING: {line}")
        }));
        notes
    }

    fn init_containers(&self, volumes: &mut Volumes<'_>) -> Vec<Node> {
        let links = ["aifo-runner", "aifo-agent"].into_iter();
        let links = links.chain(self.further_tools.iter().map(String::as_str));
        let in_place = (!self.in_place.is_empty()).then_some("--in-place").into_iter();
        let links = links.chain(in_place).chain(self.in_place.iter().map(String::as_str));
        let install = ["/usr/local/bin/aifo-shim", "--install", container_path::SHIM_DIR];
        let install = Container {
            name: "install",
            image: &self.launcher_image,
            comment: "Copies the static program, which is runner and shim, for all containers.",
            command: list(install.into_iter().chain(links)),
            mounts: vec![volumes.mount("bin", container_path::SHIM_DIR, Access::Write)],
            limits: self.limits,
            ..Container::default()
        };
        let install = [install.node(Vec::new())].into_iter();
        let upload = self.upload_container(volumes);
        install.chain(upload).chain(self.clone_containers(volumes)).collect()
    }

    /// Waits for the workspace files, which the client writes by `kubectl exec`.
    fn upload_container(&self, volumes: &mut Volumes<'_>) -> Option<Node> {
        (self.workspace == WorkspaceSource::Upload).then(|| {
            let upload = Container {
                name: "upload",
                image: &self.launcher_image,
                comment: "Waits until the client has uploaded the workspace.",
                command: list(["/usr/local/bin/aifo-coder", "_workspace", "wait"]),
                mounts: vec![
                    volumes.workspace(Access::Write),
                    volumes.mount("tmp-upload", "/tmp", Access::Write),
                ],
                limits: self.limits,
                ..Container::default()
            };
            upload.node(vec![variable("HOME", "/tmp")])
        })
    }

    /// Clones the repository and creates the session branch.
    fn clone_containers(&self, volumes: &mut Volumes<'_>) -> Vec<Node> {
        let WorkspaceSource::Git { url, reference, secret, is_pushed } = &self.workspace else {
            return Vec::new();
        };
        // It runs git again while the network does not work yet.
        let mut words = vec!["/usr/local/bin/aifo-coder", "_clone", "git"];
        let helper = format!("credential.helper={CREDENTIAL_HELPER}");
        if secret.is_some() {
            words.extend(["-c", &helper]);
        }
        words.push("clone");
        words.extend(reference.iter().flat_map(|reference| ["--branch", reference.as_str()]));
        words.extend(["--", url.as_str(), WORKSPACE]);
        let mut variables = vec![variable("HOME", "/tmp"), variable("GIT_TERMINAL_PROMPT", "0")];
        variables.extend(login(secret.as_deref()));
        let clone = Container {
            name: "clone",
            image: &self.launcher_image,
            comment: match is_pushed {
                true => {
                    "Only this container and aifo, which pushes, have the credential of the repository."
                }
                false => "Only this container has the credential of the repository.",
            },
            command: list(words),
            mounts: vec![
                volumes.workspace(Access::Write),
                volumes.mount("tmp-clone", "/tmp", Access::Write),
            ],
            limits: self.limits,
            ..Container::default()
        };
        let branch = format!("aifo/{}", self.session);
        let switch = ["git", "-C", WORKSPACE, "switch", "--create", &branch];
        let switch = Container {
            name: "branch",
            image: &self.launcher_image,
            command: list(switch),
            mounts: vec![volumes.workspace(Access::Write)],
            limits: self.limits,
            ..Container::default()
        };
        let of_switch = [variable("HOME", "/tmp")].into_iter().chain(git_variables(&[]));
        vec![clone.node(variables), switch.node(of_switch.collect())]
    }

    fn containers(&self, volumes: &mut Volumes<'_>) -> Vec<Node> {
        let mut containers = vec![self.launcher(volumes), self.agent(volumes)];
        containers.extend(self.kinds.iter().map(|container| {
            let kind = container.kind.as_str();
            let mut mounts = self.shared_mounts(volumes, kind);
            mounts.push(volumes.mount(&back(kind), container_path::SOCKET_DIR, Access::Read));
            let mut writable = Vec::new();
            for (index, cache) in container.caches.iter().enumerate() {
                mounts.push(volumes.mount(&format!("cache-{kind}-{index}"), cache, Access::Write));
                writable.extend(["--writable", cache.as_str()]);
            }
            let comment = format!("The tools of {kind}.");
            let runner = Container {
                name: kind,
                image: &container.image,
                comment: &comment,
                command: self.runner(container_path::SOCKET_DIR, &writable),
                mounts,
                limits: self.limits,
                ..Container::default()
            };
            runner.node(identity(&[], &container.variables))
        }));
        containers
    }

    /// The launcher: the proxy of tool calls, and the reverse proxy that adds the model's key.
    fn launcher(&self, volumes: &mut Volumes<'_>) -> Node {
        let below = |name: &str| format!("{}/{name}", container_path::POD_DIR);
        let to_workspace = if self.serves_files { Access::Write } else { Access::Read };
        let mut mounts = vec![
            volumes.workspace(to_workspace),
            volumes.mount("front", &below("front"), Access::Write),
            volumes.mount("tmp", &below("tmp"), Access::Write),
            volumes.mount("tmp-aifo", "/tmp", Access::Write),
            volumes.mount("home-aifo", HOME, Access::Write),
        ];
        for kind in ["agent"].into_iter().chain(self.kinds.iter().map(|it| it.kind.as_str())) {
            mounts.push(volumes.mount(&back(kind), &below(&format!("back/{kind}")), Access::Write));
        }
        let mut variables = vec![
            variable("HOME", HOME),
            variable(env::POD_SESSION, &self.session),
            variable(env::POD_CLIENT, &self.client),
        ];
        if !self.settings.is_empty() {
            variables.push(variable(env::POD_SETTINGS, &self.settings));
        }
        match &self.workspace {
            WorkspaceSource::Upload => variables.push(variable(env::POD_UPLOAD, "1")),
            WorkspaceSource::Git { url, secret, is_pushed, .. } => {
                variables.push(variable(env::POD_GIT, "1"));
                if *is_pushed {
                    variables.push(variable(env::POD_PUSH, url));
                    variables.extend(login(secret.as_deref()));
                }
            }
            WorkspaceSource::Claim(_) => {}
        }
        variables.extend(self.agent_variables.iter().map(|(name, value)| variable(name, value)));
        if let Some(keys) = &self.keys {
            variables.extend(
                keys.variables
                    .iter()
                    .map(|name| secret_variable(name, &keys.secret, name, Presence::Optional)),
            );
        }
        let program = ["/usr/local/bin/aifo-coder"].into_iter();
        let launcher = Container {
            name: "aifo",
            image: &self.launcher_image,
            comment: "The proxy of tool calls, which judges them, and of the model's API. Only it has keys.",
            command: list(program.chain(self.arguments.iter().map(String::as_str))),
            mounts,
            terminal: self.terminal,
            is_launcher: true,
            limits: self.limits,
        };
        launcher.node(variables)
    }

    /// Returns the command of a runner.
    fn runner(&self, sockets: &str, options: &[&str]) -> Node {
        let socket = format!("{sockets}/control");
        let restrictions = self.restrictions.join(",");
        let mut words = vec![container_path::RUNNER, "serve"];
        if !restrictions.is_empty() {
            words.extend(["--restrict", &restrictions]);
        }
        words.extend(["--connect", &socket, "--connect-secs", CONNECT_SECS]);
        words.extend(options);
        list(words)
    }

    /// Mounts of the containers of agent and tools. The containers of a pod would share `/dev/shm`.
    fn shared_mounts(&self, volumes: &mut Volumes<'_>, container: &str) -> Vec<Node> {
        let mut mounts = vec![
            volumes.mount("bin", container_path::SHIM_DIR, Access::Read),
            volumes.workspace(Access::Write),
            volumes.mount("tmp", "/tmp", Access::Write),
            volumes.mount(&format!("home-{container}"), HOME, Access::Write),
            volumes.mount(&format!("shm-{container}"), "/dev/shm", Access::Write),
        ];
        for (index, path) in self.agent.private.iter().enumerate() {
            mounts.push(volumes.mount(&format!("own-{container}-{index}"), path, Access::Write));
        }
        mounts
    }

    fn agent(&self, volumes: &mut Volumes<'_>) -> Node {
        let mut mounts = self.shared_mounts(volumes, "agent");
        let own = container_path::AGENT_SOCKET_DIR;
        mounts.push(volumes.mount("front", container_path::SOCKET_DIR, Access::Read));
        mounts.push(volumes.mount(&back("agent"), own, Access::Read));
        let agent = Container {
            name: "agent",
            image: &self.agent.image,
            comment: "The agent. It has the shims, and the socket of the proxy.",
            command: self.runner(own, &[]),
            mounts,
            limits: self.limits,
            ..Container::default()
        };
        agent.node(identity(&self.agent.git, &self.agent.variables))
    }
}

/// Names that no kind can have.
const RESERVED: [&str; 6] = ["aifo", "agent", "install", "clone", "branch", "upload"];
/// A DNS label.
const MAX_NAME: usize = 63;

/// Returns the variables of the repository's login.
fn login(secret: Option<&str>) -> impl Iterator<Item = Node> {
    let keys = [(env::GIT_USERNAME, "username"), (env::GIT_PASSWORD, "password")];
    secret.into_iter().flat_map(move |secret| {
        keys.map(|(name, key)| secret_variable(name, secret, key, Presence::Required))
    })
}

/// A credential helper of git; `git` runs it by the shell of the launcher image.
pub const CREDENTIAL_HELPER: &str = "!f() { test \"$1\" = get && printf \
     'username=%s\\npassword=%s\\n' \"$AIFO_GIT_USERNAME\" \"$AIFO_GIT_PASSWORD\"; }; f";

fn back(kind: &str) -> String {
    format!("back-{kind}")
}

fn identity(git: &[(String, String)], further: &[(String, String)]) -> Vec<Node> {
    let identity = [("HOME", HOME), ("USER", "coder"), ("LOGNAME", "coder")];
    let identity = identity.into_iter().map(|(name, value)| variable(name, value));
    identity
        .chain(git_variables(git))
        .chain(API_SERVER_VARIABLES.into_iter().map(|name| variable(name, "")))
        .chain(further.iter().map(|(name, value)| variable(name, value)))
        .collect()
}

/// Variables by which programs find the API server, which Kubernetes sets in every container. They are empty, so
/// that programs do not try it: they have no token, and the network policy refuses the connection.
const API_SERVER_VARIABLES: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/// Returns the variables with settings of git, and the one by which it accepts the workspace: a volume's root
/// belongs to root.
fn git_variables(settings: &[(String, String)]) -> impl Iterator<Item = Node> {
    let safe = ("safe.directory", WORKSPACE);
    let given = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let count = variable("GIT_CONFIG_COUNT", &(settings.len() + 1).to_string());
    let entries = [safe].into_iter().chain(given).enumerate().flat_map(|(index, (key, value))| {
        [
            variable(&format!("GIT_CONFIG_KEY_{index}"), key),
            variable(&format!("GIT_CONFIG_VALUE_{index}"), value),
        ]
    });
    [count].into_iter().chain(entries)
}
