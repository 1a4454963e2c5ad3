//! The cluster of a run: its checks, its namespace, and their removal.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::kubectl::{kubectl, last_line};
use super::options::Options;
use crate::images::Engine;
use crate::shell;

/// The suites' image of agent and tools.
const BASE: &str = "aifo-test-base:latest";
/// The name of objects of the checks.
const NAME: &str = "aifo-test";
/// The time for the first pod, whose image is pulled.
const PULL_TIME: Duration = Duration::from_secs(300);
const ACCOUNT_TIME: Duration = Duration::from_secs(30);

/// The rights of a session, as `kubectl auth can-i` takes them.
const RIGHTS: [&str; 9] = [
    "create pods",
    "get pods",
    "list pods",
    "watch pods",
    "delete pods",
    "create pods/exec",
    "get pods/log",
    "create networkpolicies.networking.k8s.io",
    "delete networkpolicies.networking.k8s.io",
];

/// Waits until this process has ended, then deletes what the run has created.
const REMOVAL: &str = r#"trap '' INT TERM HUP QUIT
cat >/dev/null
if [ -n "$CREATED" ]; then
    kubectl delete namespace "$NAMESPACE" --wait=false >/dev/null || echo "left: namespace $NAMESPACE" >&2
else
    kubectl get pods --selector=app.kubernetes.io/managed-by=aifo --output=jsonpath="$LIST" |
        while read -r pod images; do
            case $images in *"$PREFIX"aifo-test-launcher:*)
                kubectl delete pod,networkpolicy "$pod" --ignore-not-found --wait=false >/dev/null ;;
            esac
        done
    kubectl delete pod,pvc "$NAME" --ignore-not-found --wait=false >/dev/null
fi
rm -rf "$DIRECTORY""#;
/// Prints the name and the images of each pod.
const LIST: &str = r#"{range .items[*]}{.metadata.name} {.spec.containers[*].image}{"\n"}{end}"#;

/// A checked cluster with a namespace for the run. What the run creates is deleted when this process
/// ends, in any way.
#[derive(Debug)]
pub(super) struct TestCluster {
    /// The directory with the run's kubeconfig.
    directory: PathBuf,
    namespace: String,
    is_created: bool,
    claim: Option<String>,
    pull_secret: Option<String>,
    load: Option<String>,
    remover: Option<(Child, ChildStdin)>,
}

impl TestCluster {
    /// Checks all that the suites need, and creates a namespace.
    pub(super) fn prepare(options: &Options, prefix: &str, engine: Engine) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("aifo-test-kube-").tempdir()?.keep();
        let mut cluster = TestCluster {
            directory,
            namespace: String::new(),
            is_created: false,
            claim: None,
            pull_secret: options.pull_secret.clone(),
            load: options.load.clone(),
            remover: None,
        };
        let prepared = cluster.choose(options, prefix).and_then(|()| {
            cluster.check_rights()?;
            cluster.provide_image(prefix, engine)?;
            cluster.check_pull(prefix)?;
            cluster.provide_claim()
        });
        match prepared {
            Ok(()) => Ok(cluster),
            Err(error) => {
                // The error of the check is the one to report.
                let _ = cluster.remove();
                Err(error)
            }
        }
    }

    /// The variables of the tests.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            ("KUBECONFIG", self.kubeconfig().display().to_string()),
            ("KUBERC", "off".to_owned()),
        ];
        let optional = [
            ("AIFO_TEST_CLAIM", &self.claim),
            ("AIFO_TEST_PULL_SECRET", &self.pull_secret),
            ("AIFO_TEST_LOAD", &self.load),
        ];
        variables.extend(optional.into_iter().filter_map(|(name, it)| Some((name, it.clone()?))));
        variables
    }

    /// Deletes what the run has created.
    pub(super) fn remove(mut self) -> Result<()> {
        let Some((mut remover, stdin)) = self.remover.take() else {
            fs::remove_dir_all(&self.directory)?;
            return Ok(());
        };
        drop(stdin);
        let status = remover.wait()?;
        match status.success() {
            true => Ok(()),
            false => bail!("cannot delete what the run created in namespace '{}'", self.namespace),
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.join("config")
    }

    fn kubectl<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = kubectl();
        command.env("KUBECONFIG", self.kubeconfig()).args(args).stdin(Stdio::null());
        command
    }

    /// Runs kubectl. Errors: the last line of its stderr.
    fn output(&self, args: &[&str], input: &str) -> Result<String> {
        let mut kubectl = self.kubectl(args.iter().copied());
        kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = kubectl.spawn().context("cannot run kubectl")?;
        if let Some(mut stdin) = child.stdin.take() {
            // A kubectl that has failed reads no more; its stderr has the reason.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => bail!("{}", last_line(&output.stderr)),
        }
    }

    /// Writes the kubeconfig of the run, and chooses or creates its namespace.
    fn choose(&mut self, options: &Options, prefix: &str) -> Result<()> {
        let mut view = kubectl();
        view.args(options.context.iter().map(|name| format!("--context={name}")));
        let view = shell::read(view.args(["config", "view", "--raw", "--minify", "--flatten"]))?;
        let mut file = fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(self.kubeconfig())?;
        file.write_all(view.as_bytes())?;
        let template = "{.current-context} {.clusters[0].cluster.server} {..namespace}";
        let seen =
            self.output(&["config", "view", &format!("--output=jsonpath={template}")], "")?;
        let mut seen = seen.split(' ');
        let mut word = || seen.next().filter(|it| !it.is_empty()).unwrap_or("default").to_owned();
        let (context, server, home) = (word(), word(), word());
        eprintln!("cluster: context '{context}', {server}");
        match &options.namespace {
            Some(name) => {
                name.clone_into(&mut self.namespace);
                self.check_namespace()?;
                eprintln!(
                    "namespace: '{name}'; the run deletes its pods, policies and claim there"
                );
            }
            None => self.create_namespace(&home)?,
        }
        let namespace = format!("--namespace={}", self.namespace);
        self.output(&["config", "set-context", "--current", &namespace], "")?;
        let mut remover = Command::new("sh");
        remover.args(["-c", REMOVAL]).stdin(Stdio::piped());
        remover.env("KUBECONFIG", self.kubeconfig()).env("KUBERC", "off");
        remover.env("DIRECTORY", &self.directory);
        remover.env("NAMESPACE", &self.namespace).env("NAME", NAME).env("LIST", LIST);
        remover.env("PREFIX", prefix).env("CREATED", if self.is_created { "1" } else { "" });
        let mut remover = remover.spawn().context("cannot run sh")?;
        self.remover = remover.stdin.take().map(|stdin| (remover, stdin));
        if self.is_created {
            self.wait_for_account()?;
            self.copy_pull_secret(&home)?;
        }
        Ok(())
    }

    fn check_namespace(&self) -> Result<()> {
        let name = &self.namespace;
        match self.output(&["get", "pods", "--namespace", name, "--output=name"], "") {
            Ok(_) => Ok(()),
            Err(error) => bail!(
                "cannot use namespace '{name}': {error}\n\
                 hint: create it, or omit --namespace to let the run create one"
            ),
        }
    }

    /// Creates a namespace that enforces Pod Security *restricted*. Without the right to, that of the
    /// context is used.
    fn create_namespace(&mut self, home: &str) -> Result<()> {
        let time = UNIX_EPOCH.elapsed().map(|since| since.subsec_nanos()).unwrap_or_default();
        let name = format!("aifo-test-{:x}{time:x}", std::process::id());
        let label =
            |mode: &str| (format!("pod-security.kubernetes.io/{mode}"), json!("restricted"));
        let labels: serde_json::Map<String, Value> =
            ["enforce", "warn", "audit"].map(label).into_iter().collect();
        let metadata = json!({"name": name, "labels": labels});
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        match self.output(&["create", "--filename=-"], &object.to_string()) {
            Ok(_) => {
                (self.namespace, self.is_created) = (name, true);
                eprintln!(
                    "namespace: '{}', created with Pod Security \"restricted\"; the run deletes it",
                    self.namespace
                );
                Ok(())
            }
            Err(error) if error.to_string().contains("orbidden") => {
                home.clone_into(&mut self.namespace);
                eprintln!(
                    "namespace: '{home}'; the run deletes its pods, policies and claim there. It cannot create one \
                     ({error})"
                );
                self.check_namespace()
            }
            Err(error) => Err(error.context("cannot create a namespace")),
        }
    }

    /// Pods are rejected until a controller has created the account.
    fn wait_for_account(&self) -> Result<()> {
        let deadline = Instant::now() + ACCOUNT_TIME;
        while let Err(error) = self.output(&["get", "serviceaccount", "default"], "") {
            if Instant::now() >= deadline {
                bail!("the new namespace has no service account 'default': {error}");
            }
            sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn copy_pull_secret(&self, home: &str) -> Result<()> {
        let Some(name) = &self.pull_secret else { return Ok(()) };
        let copied = || -> Result<()> {
            let args = ["get", "secret", name, "--namespace", home, "--output=json"];
            let secret: Value = serde_json::from_str(&self.output(&args, "")?)?;
            let copy = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                "type": secret["type"], "data": secret["data"]});
            self.output(&["create", "--filename=-"], &copy.to_string()).map(drop)
        };
        copied().with_context(|| {
            format!(
                "cannot copy the secret '{name}' of namespace '{home}'\n\
                 hint: create it there with: kubectl create secret docker-registry {name} .."
            )
        })
    }

    fn check_rights(&self) -> Result<()> {
        let is_missing = |right: &&&str| {
            let words = ["auth", "can-i", "--quiet"].into_iter().chain(right.split(' '));
            !self.kubectl(words).status().is_ok_and(|status| status.success())
        };
        let missing: Vec<&str> = RIGHTS.iter().filter(is_missing).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let namespace = &self.namespace;
        bail!(
            "your role in namespace '{namespace}' lacks: {}\n\
             hint: print the role for its administrator: aifo-coder kube rbac --namespace {namespace} --user USER",
            missing.join(", ")
        )
    }

    /// Pushes the image of agent and tools, or loads it into the cluster.
    fn provide_image(&self, prefix: &str, engine: Engine) -> Result<()> {
        let image = format!("{prefix}{BASE}");
        shell::run(&mut engine.command(["tag", BASE, &image]))?;
        match &self.load {
            Some(load) => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("{load} \"$0\""), &image]);
                shell::run(&mut command).context("cannot load an image into the cluster")
            }
            None => shell::run(&mut engine.command(["push", &image])).with_context(|| {
                let (engine, registry) = (engine.name(), prefix.split('/').next().unwrap_or_default());
                format!(
                    "cannot push '{image}'\n\
                     hint: log in with: {engine} login {registry}; a prefix of a registry ends with '/'"
                )
            }),
        }
    }

    /// Runs a pod with the image, under the rules of sessions.
    fn check_pull(&self, prefix: &str) -> Result<()> {
        let image = format!("{prefix}{BASE}");
        eprintln!("image: '{image}' stays in the registry; checking that the cluster can pull it");
        let secrets = self.pull_secret.iter().map(|name| json!({"name": name}));
        let secrets: Vec<Value> = secrets.collect();
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME},
            "spec": {
                "restartPolicy": "Never", "automountServiceAccountToken": false,
                "imagePullSecrets": secrets,
                "securityContext": {"runAsNonRoot": true, "runAsUser": 1000,
                    "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{"name": NAME, "image": image, "imagePullPolicy": "IfNotPresent",
                    "command": ["true"], "securityContext": {"allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]}}}],
            },
        });
        self.output(&["create", "--filename=-"], &object.to_string())
            .with_context(|| format!("namespace '{}' does not admit a pod", self.namespace))?;
        let deadline = Instant::now() + PULL_TIME;
        let mut cause = String::new();
        while Instant::now() < deadline {
            let pod: Value =
                serde_json::from_str(&self.output(&["get", "pod", NAME, "--output=json"], "")?)?;
            let status = &pod["status"];
            if status["phase"] == "Succeeded" {
                self.output(&["delete", "pod", NAME, "--wait=false"], "")?;
                return Ok(());
            }
            let state = &status["containerStatuses"][0]["state"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let scheduled = text(&status["conditions"][0]["message"]);
            let waiting = &state["waiting"];
            cause = [text(&waiting["reason"]), text(&waiting["message"]), scheduled].join(" ");
            if cause.starts_with("ImagePullBackOff") || status["phase"] == "Failed" {
                break;
            }
            sleep(Duration::from_millis(300));
        }
        bail!(
            "the cluster cannot run image '{image}': {}\n\
             hint: name a registry that its nodes reach with --images, the registry's secret with \
             --image-pull-secret, or see: kubectl describe pod",
            cause.trim()
        )
    }

    /// Creates a claim of the default storage class, if there is one.
    fn provide_claim(&mut self) -> Result<()> {
        let given = std::env::var("AIFO_TEST_CLAIM").ok().filter(|claim| !claim.is_empty());
        if let Some(claim) = given {
            self.claim = Some(claim);
            return Ok(());
        }
        let classes = self.output(&["get", "storageclasses", "--output=json"], "");
        let classes: Value = serde_json::from_str(&classes.unwrap_or_default()).unwrap_or_default();
        let is_default = |class: &&Value| {
            class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"]
                == "true"
        };
        let class = classes["items"].as_array().into_iter().flatten().find(is_default);
        let Some(class) = class.and_then(|class| class["metadata"]["name"].as_str()) else {
            eprintln!(
                "claim: none, as the cluster has no default storage class; the test of a claim is skipped. \
                 AIFO_TEST_CLAIM names one of the namespace"
            );
            return Ok(());
        };
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": NAME},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        self.output(&["create", "--filename=-"], &object.to_string())
            .context("cannot create a claim\nhint: name an existing one with AIFO_TEST_CLAIM")?;
        eprintln!("claim: '{NAME}' of the default storage class '{class}', created");
        self.claim = Some(NAME.to_owned());
        Ok(())
    }
}
