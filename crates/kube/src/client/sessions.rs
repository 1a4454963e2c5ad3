//! `sessions` and `cleanup` of a cluster (`spec/kubernetes.md#commands`).

use std::process::ExitCode;

use aifo_host::short;
use aifo_terminal::{console, paint};
use aifo_types::escape_line;
use anyhow::bail;
use serde::Serialize;

use super::cluster::Cluster;
use super::result::Results;
use crate::{PodObject, PodState};

/// A session in JSON.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    backend: &'static str,
    pod: &'a str,
    agent: &'a str,
    toolchains: Vec<&'a str>,
    node: &'a str,
    state: &'static str,
    detail: String,
    created: &'a str,
}

const WAITS_FOR_FETCH: &str = "the agent has ended; get its work with: aifo-coder kube fetch";
const WAITS_FOR_CLIENT: &str = "the agent has ended; see its end with: aifo-coder attach";

impl<'a> Row<'a> {
    fn of(pod: &'a PodObject) -> Self {
        let (state, detail) = match pod.state() {
            _ if pod.is_deleted() => ("deleted", String::new()),
            PodState::Starting(step) | PodState::Delayed(step) => ("starts", step),
            PodState::Running if pod.waits_after_end() => {
                let has_work = pod.has_clone() || pod.has_upload();
                ("waits", if has_work { WAITS_FOR_FETCH } else { WAITS_FOR_CLIENT }.to_owned())
            }
            PodState::Running => ("runs", String::new()),
            PodState::Ended(code) => ("ended", format!("exit code {code}")),
            PodState::Failed(failure) => ("failed", failure.message),
        };
        Row {
            id: pod.session().unwrap_or_default(),
            backend: "kubernetes",
            pod: pod.name(),
            agent: pod.agent(),
            toolchains: pod.kinds(),
            node: pod.node(),
            state,
            detail,
            created: pod.created(),
        }
    }
}

/// Prints the sessions of the cluster.
pub async fn list(cluster: &Cluster, is_json: bool) -> anyhow::Result<ExitCode> {
    let pods = cluster.pods().await?;
    let rows: Vec<_> = pods.iter().map(Row::of).collect();
    if is_json {
        paint::print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    list_results();
    if rows.is_empty() {
        console::say("no sessions in the namespace");
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["ID", "CREATED", "AGENT", "TOOLCHAINS", "NODE", "STATE"].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let state = match row.detail.is_empty() {
            true => row.state.to_owned(),
            false => escape_line(&format!("{}: {}", row.state, row.detail)),
        };
        let (id, created) = (row.id.to_owned(), row.created.to_owned());
        [id, created, row.agent.to_owned(), row.toolchains.join(","), row.node.to_owned(), state]
    });
    let cells: Vec<_> = std::iter::once(head).chain(cells).collect();
    paint::print(&paint::columns(&cells))?;
    Ok(ExitCode::SUCCESS)
}

/// Results that are named.
const MAX_RESULTS: usize = 10;

/// Prints the results that clients of this machine have received, on stderr.
fn list_results() {
    let results = Results::open().map(|results| results.all()).unwrap_or_default();
    for result in results.iter().take(MAX_RESULTS) {
        console::say(format_args!("result of session {}: {}", result.session, result.command()));
    }
    if results.len() > MAX_RESULTS {
        console::say(format_args!("{} more results", results.len() - MAX_RESULTS));
    }
}

/// Removes the results of sessions whose id is given; names the others.
fn clean_results(prefix: &str, options: &str, is_dry: bool) -> anyhow::Result<bool> {
    let mut has_failed = false;
    for result in Results::open().map(|results| results.all()).unwrap_or_default() {
        let id = &result.session;
        if !id.starts_with(prefix) {
            continue;
        }
        if prefix.is_empty() {
            console::say(format_args!(
                "the result of session {id} is kept; fetch it with: {}; remove it with: \
                 aifo-coder clean{options} {id}",
                result.command()
            ));
        } else if is_dry {
            paint::print(&format!("would remove the result of session {id}\n"))?;
        } else if let Err(error) = result.remove() {
            has_failed = true;
            let error = anyhow::Error::from(error);
            console::fail(&error.context(format!("cannot remove '{}'", result.path.display())));
        } else {
            paint::print(&format!("removed the result of session {id}\n"))?;
        }
    }
    Ok(has_failed)
}

/// Errors: a pod has work that only a fetch keeps.
fn reject_waiting(cluster: &Cluster, pod: &PodObject) -> anyhow::Result<()> {
    let row = Row::of(pod);
    if row.state != "waits" || row.detail != WAITS_FOR_FETCH {
        return Ok(());
    }
    let (id, options, kubectl) = (short(row.id), cluster.options(), cluster.kubectl_line());
    bail!(
        "the pod of session {id} is kept: its work may be nowhere else\n\
         hint: fetch it, which deletes the pod, with: aifo-coder kube fetch{options} {id}; or lose it with: \
         {kubectl} delete pod {}",
        row.pod
    )
}

/// Deletes the pods of sessions that have ended or failed, or do not start.
pub async fn cleanup(
    cluster: &Cluster,
    prefix: &str,
    is_dry: bool,
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    let pods = cluster.pods().await?;
    if !prefix.is_empty() {
        pods.iter()
            .filter(|pod| pod.session().is_some_and(|id| id.starts_with(prefix)))
            .try_for_each(|pod| reject_waiting(cluster, pod))?;
    }
    let mut has_failed = match is_json {
        true => false,
        false => clean_results(prefix, &cluster.options(), is_dry)?,
    };
    let mut rows = Vec::new();
    for pod in pods {
        let Some(id) = pod.session().filter(|id| id.starts_with(prefix)) else { continue };
        let row = Row::of(&pod);
        let is_removed = match row.state {
            "deleted" => continue,
            "waits" => {
                console::say(format_args!(
                    "session {id} waits: {}{} {id}",
                    row.detail,
                    cluster.options()
                ));
                continue;
            }
            "runs" => {
                if !prefix.is_empty() {
                    console::say(format_args!(
                        "session {id} is running; end its agent, or: kubectl delete pod {}",
                        pod.name()
                    ));
                }
                continue;
            }
            // Another terminal may be waiting for it.
            "starts" if prefix.is_empty() => {
                console::say(format_args!(
                    "session {id} starts ({}); remove it with its id",
                    escape_line(&row.detail)
                ));
                continue;
            }
            _ => is_dry || cluster.delete(id).await,
        };
        has_failed |= !is_removed;
        if is_removed && !is_json {
            let verb = if is_dry { "would remove" } else { "removed" };
            paint::print(&format!("{verb} pod {} ({})\n", pod.name(), row.state))?;
        }
        let name = pod.name().to_owned();
        rows.push(Removed { pod: name, removed: is_removed && !is_dry });
    }
    if is_json {
        paint::print_json(&rows)?;
    } else if rows.is_empty() {
        console::say("no ended sessions in the namespace");
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A removal in JSON.
#[derive(Serialize)]
struct Removed {
    pod: String,
    removed: bool,
}
