//! Flags of `web`.

use std::net::SocketAddr;

use clap::Args;

use crate::cli::AcpAgent;

// The proxy's own address keeps its environment variables, and makes way for the page's.
#[derive(Debug, Args)]
#[command(mut_arg("listen", |arg| arg.long("proxy-listen").hide(true)))]
pub(crate) struct Web {
    /// Agent (see `aifo-coder agents`), unless --agent-command or --watch is given
    #[arg(value_name = "AGENT", required_unless_present_any = ["agent_command", "watch"])]
    pub(crate) name: Option<String>,
    /// Address of the page [default: 127.0.0.1:8440, or any free port]
    #[arg(id = "page", long = "listen", value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Origin that browsers use, if your own proxy adds TLS: https://HOST or https://HOST:PORT
    #[arg(long, value_name = "URL", value_parser = parse_origin)]
    pub(crate) origin: Option<String>,
    /// Show the running sessions of this user, without an agent
    #[arg(long, conflicts_with_all = ["name", "agent_command"])]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) agent: AcpAgent,
}

/// Checks an origin: a scheme and a host, no path.
fn parse_origin(text: &str) -> Result<String, &'static str> {
    let host = text.strip_prefix("https://").ok_or("expected https://HOST or https://HOST:PORT")?;
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_host) {
        return Err("expected https://HOST or https://HOST:PORT without a path");
    }
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_https_and_have_no_path() {
        assert_eq!(parse_origin("https://Aifo.example:8443").unwrap(), "https://aifo.example:8443");
        for bad in ["http://a", "https://", "https://a/b", "https://a?b", "a", "https://u@a"] {
            assert!(parse_origin(bad).is_err(), "{bad}");
        }
    }
}
