//! `aifo-coder publish`: opens a port of a running session's tools on this machine.

use std::process::ExitCode;

use aifo_config::UsageError;
use aifo_kube::client::{self, Cluster, Unusable};
use aifo_network::PublishedPort;
use aifo_terminal::paint;

use crate::cli::Publish;
use crate::sessions;

pub(crate) async fn publish(flags: &Publish) -> anyhow::Result<ExitCode> {
    let port: PublishedPort = flags.port.parse().map_err(|error| UsageError(format!("{error}")))?;
    let given = flags.session.as_deref();
    if let Some(cluster) = Cluster::given(&flags.cluster.flags(), given).await? {
        return Err(client::unusable(&cluster, given, Unusable::Publish).await);
    }
    let session = sessions::running(given)?;
    let address = aifo_network::publish(&session.directory, port).map_err(anyhow::Error::msg)?;
    paint::print(&format!("http://{address}\n"))?;
    Ok(ExitCode::SUCCESS)
}
