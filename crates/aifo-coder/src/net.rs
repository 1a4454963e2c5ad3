//! `aifo-coder net`: the connections of a session network by name (`spec/cli.md#net`).

mod allow;
pub(crate) mod check;
mod line;
mod list;
mod rules;
mod suggest;

use std::process::ExitCode;

pub(crate) use self::line::{connection_line, ended};
use crate::cli::{Net, NetCommand, NetList};
use aifo_kube::client::{self, Cluster, Unusable};

pub(crate) async fn run(flags: &Net) -> anyhow::Result<ExitCode> {
    match &flags.command {
        None => {
            let NetList { session, cluster, .. } = &flags.list;
            if let Some(cluster) = Cluster::given(&cluster.flags(), session.as_deref()).await? {
                let command = Unusable::Connections;
                return Err(client::unusable(&cluster, session.as_deref(), command).await);
            }
            list::list(&flags.list)
        }
        Some(NetCommand::Allow(flags)) => allow::allow(flags),
        Some(NetCommand::Forget(flags)) => allow::forget(flags),
        Some(NetCommand::List { workspace, json }) => rules::list(workspace.existing()?, *json),
        Some(NetCommand::Check(flags)) => check::check(flags),
        Some(NetCommand::Suggest { json, session }) => suggest::suggest(session.as_deref(), *json),
    }
}
