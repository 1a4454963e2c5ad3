//! Starts a call in the first routed sidecar that has the tool.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use aifo_policy::{AskedCall, Route};
use aifo_sidecar::{Exec, Lease};
use aifo_types::{ExecRequest, Kind, Refusal, ToolName};
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
    /// The refusals of the sidecars before.
    pub(crate) before: NoImages,
}

/// The first sidecar without an image among those that were tried.
#[derive(Default)]
pub(crate) struct NoImages(Option<Refusal>);

impl NoImages {
    /// Leaves a sidecar without an image out. Errors: every other failure.
    pub(crate) fn or_lease(
        &mut self,
        leased: Result<Lease, Refusal>,
    ) -> Result<Option<Lease>, Refusal> {
        match leased {
            Err(refusal @ Refusal::NoImage { .. }) => {
                self.0.get_or_insert(refusal);
                Ok(None)
            }
            leased => leased.map(Some),
        }
    }

    /// Returns the refusal of a tool that none of the sidecars with an image has.
    pub(crate) fn refusal(self, state: &ProxyState, tool: &ToolName) -> Refusal {
        self.0.unwrap_or_else(|| state.unavailable(tool))
    }
}

/// Starts the tool in the first of these sidecars that has it; the inner error is what is left if none has. A
/// sidecar that does not run is started when the ones before it do not have the tool. `asked` is the call if a
/// user was asked.
pub(crate) async fn start_in_first(
    state: &ProxyState,
    (routes, asked): (Vec<Route>, Option<&AskedCall>),
    start: &Start,
    fds: &[OwnedFd],
    caller: Caller<'_>,
) -> Result<Result<StartedExec, NoImages>, Refusal> {
    let mut before = NoImages::default();
    for route in routes {
        let leased = sidecar_lease::lease(state, (&start.request.tool, &route.kind), caller).await;
        let Some(lease) = before.or_lease(leased)? else { continue };
        state.config.approvals.check(asked)?;
        let duplicates: io::Result<Vec<_>> = fds.iter().map(OwnedFd::try_clone).collect();
        let duplicates = duplicates.map_err(|error| Refusal::Internal(error.to_string()))?;
        if let Some(exec) = start_on(lease, start.clone(), duplicates).await? {
            return Ok(Ok(StartedExec { exec, route, before }));
        }
    }
    Ok(Err(before))
}
