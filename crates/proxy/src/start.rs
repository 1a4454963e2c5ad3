//! Starts a call in the first routed sidecar that has the tool.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use aifo_policy::{AskedCall, Route};
use aifo_sidecar::Exec;
use aifo_types::{ExecRequest, Kind, Refusal};
use aifo_wire::{ClientHandover, OutsideDirectory, Program, Start};

use crate::record::CallRecord;
use crate::sidecar_lease::{self, Caller};
use crate::state::ProxyState;
use crate::tool_start::start_on;

pub(crate) fn log_start(record: &CallRecord, kind: &Kind) {
    tracing::debug!(
        tool = record.tool,
        %kind,
        exec_id = record.exec_id,
        argv = record.argv,
        cwd = record.cwd,
        "exec"
    );
}

pub(crate) fn start_frame(
    state: &ProxyState,
    request: ExecRequest,
    client: Option<ClientHandover>,
) -> Start {
    let mut start = Start::new(request);
    if aifo_policy::asks_only_for_version(&start.request.args) {
        start.outside_directory = OutsideDirectory::UseRoot;
    }
    if let Some(path) = &state.config.program {
        start.program = Program::File(path.as_os_str().as_bytes().to_vec());
    }
    start.client = client;
    start
}

pub(crate) struct StartedExec {
    pub(crate) exec: Exec,
    pub(crate) route: Route,
}

/// Starts the tool in the first of these sidecars that has it; `None` if none has. A sidecar that does
/// not run is started when the ones before it do not have the tool. `asked` is the call if a user was asked.
pub(crate) async fn start_in_first(
    state: &ProxyState,
    (routes, asked): (Vec<Route>, Option<&AskedCall>),
    start: &Start,
    fds: &[OwnedFd],
    caller: Caller<'_>,
) -> Result<Option<StartedExec>, Refusal> {
    for route in routes {
        let lease = sidecar_lease::lease(state, &route.kind, caller).await?;
        state.config.approvals.check(asked)?;
        let duplicates: io::Result<Vec<_>> = fds.iter().map(OwnedFd::try_clone).collect();
        let duplicates = duplicates.map_err(|error| Refusal::Internal(error.to_string()))?;
        if let Some(exec) = start_on(lease, start.clone(), duplicates).await? {
            return Ok(Some(StartedExec { exec, route }));
        }
    }
    Ok(None)
}
