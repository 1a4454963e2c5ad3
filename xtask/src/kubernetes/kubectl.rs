//! The user's kubectl.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// Returns a kubectl without the user's preferences, which change the defaults of options.
pub(super) fn kubectl() -> Command {
    let mut command = Command::new("kubectl");
    command.env("KUBERC", "off");
    command
}

/// Errors: the reason why kubectl does not reach a cluster.
pub(super) fn reach(context: Option<&str>) -> Result<()> {
    let mut kubectl = kubectl();
    kubectl.args(context.map(|name| format!("--context={name}")));
    kubectl.args(["get", "--raw=/version", "--request-timeout=10s"]).stdin(Stdio::null());
    match kubectl.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => bail!("{}", last_line(&output.stderr)),
        Err(error) => bail!("kubectl: {error}"),
    }
}

/// Returns the last line of a stderr.
pub(super) fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.trim().lines().last().unwrap_or("it printed no reason").to_owned()
}
