//! One connection, formatted as a line.

use aifo_network::{ConnectionOutcome, ConnectionState, LoggedConnection, PortUse};
use aifo_terminal::clock::{Moment, duration};
use aifo_terminal::paint::Paint;
use aifo_types::escape_line;

/// The head of the columns of [`connection_line`].
pub(super) const HEAD: &str = "TIME                  VERDICT    STACK         TOOL              SENT    RECEIVED     \
     \x20DURATION  NAME\n";

/// Returns a line with time, verdict, stack, tool, bytes, duration, name, and the cause of a refusal or
/// failure.
pub(crate) fn connection_line(logged: &LoggedConnection, paint: Paint) -> String {
    let verdict = format!("{:<9}", verdict(logged));
    let verdict = if logged.has_failed() { paint.bad(verdict) } else { paint.good(verdict) };
    let time = paint.faint(Moment::from_unix_ms(logged.time));
    let (stack, tool) = (escape_line(&logged.stack), logged.tool.as_deref().unwrap_or("-"));
    let tool = escape_line(tool);
    let is_counted = logged.state == ConnectionState::Closed
        && logged.verdict != ConnectionOutcome::Refused
        || logged.sent > 0;
    let [sent, received] = [logged.sent, logged.received]
        .map(|count| if is_counted { bytes(count) } else { String::new() });
    let wall = if is_counted { duration(logged.wall_ms) } else { String::new() };
    let name = escape_line(&logged.subject()) + &port_use(logged);
    let mut line = format!(
        "{time}  {verdict}  {stack:<12}  {tool:<10}  {sent:>10}  {received:>10}  {wall:>12}  {name}"
    );
    if let Some(error) = &logged.error {
        line += &paint.faint(format!("  # {}", escape_line(error)));
    }
    line + "\n"
}

/// Returns when a connection ended, in milliseconds since 1970.
pub(crate) fn ended(logged: &LoggedConnection) -> u64 {
    logged.time.saturating_add(logged.wall_ms)
}

fn verdict(logged: &LoggedConnection) -> &'static str {
    match (logged.state, logged.verdict) {
        (ConnectionState::Open, _) => "open",
        (_, ConnectionOutcome::Refused) => "refused",
        _ if logged.has_failed() => "failed",
        (_, ConnectionOutcome::Allowed) => "allowed",
        (_, ConnectionOutcome::Learnt) => "learnt",
    }
}

/// Returns the use of the session port, in parentheses.
fn port_use(logged: &LoggedConnection) -> String {
    let port_use = match logged.relay {
        None => return String::new(),
        Some(PortUse::Mirror) => "mirror",
        Some(PortUse::HostPort) => "host port",
        Some(PortUse::AgentPort) => "agent port",
        Some(PortUse::Published) => "published",
    };
    match (logged.relay, &logged.to) {
        (Some(PortUse::Mirror | PortUse::Published), Some(to)) => {
            format!(" ({port_use}, {})", escape_line(to))
        }
        _ => format!(" ({port_use})"),
    }
}

/// Formats a number of bytes: `900 B`, `1.2 KiB`, `34 MiB`.
fn bytes(count: u64) -> String {
    let (mut tenths, mut unit) = (count.saturating_mul(10), "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if tenths < 10_240 {
            break;
        }
        (tenths, unit) = (tenths / 1024, larger);
    }
    match unit {
        "B" => format!("{count} B"),
        _ if tenths < 100 => format!("{}.{} {unit}", tenths / 10, tenths % 10),
        _ => format!("{} {unit}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(verdict: ConnectionOutcome) -> LoggedConnection {
        LoggedConnection {
            stack: "tools".to_owned(),
            name: "a.example".to_owned(),
            port: Some(443),
            verdict,
            ..LoggedConnection::default()
        }
    }

    #[test]
    fn a_line_for_each_verdict() {
        let allowed = LoggedConnection {
            tool: Some("cargo".to_owned()),
            sent: 517,
            received: 5 << 20,
            wall_ms: 1234,
            ..connection(ConnectionOutcome::Allowed)
        };
        let failed = LoggedConnection {
            error: Some("cannot connect: x\u{1b}".to_owned()),
            ..allowed.clone()
        };
        let open = LoggedConnection { state: ConnectionState::Open, sent: 0, ..allowed.clone() };
        let refused = LoggedConnection {
            port: None,
            error: Some("no rule permits it".to_owned()),
            ..connection(ConnectionOutcome::Refused)
        };
        let rows = [
            (
                allowed,
                "allowed    tools         cargo            517 B     5.0 MiB        1.23 s  a.example:443\n",
            ),
            (failed, "failed     tools         cargo            517 B     5.0 MiB        1.23 s  "),
            (
                open,
                "open       tools         cargo                                             a.example:443\n",
            ),
            (
                connection(ConnectionOutcome::Learnt),
                "learnt     tools         -                  0 B         0 B          0 ms  a.example:443\n",
            ),
            (
                refused,
                "refused    tools         -                                                 a.example  \
                 # no rule permits it\n",
            ),
        ];
        for (logged, expected) in rows {
            let line = connection_line(&logged, Paint::Plain);
            let start = format!("1970-01-01 00:00:00Z  {expected}");
            assert!(line.starts_with(&start), "{line}{start}");
        }
        let columns = |line: &str| line.find("NAME").unwrap();
        let line = connection_line(&connection(ConnectionOutcome::Learnt), Paint::Plain);
        assert_eq!(line.find("a.example"), Some(columns(HEAD)));
    }

    #[test]
    fn a_port_of_the_session_has_its_use() {
        let rows = [
            (PortUse::Mirror, "tools:go", "localhost:3000 (mirror, tools:go)"),
            (PortUse::Published, "tools", "localhost:3000 (published, tools)"),
            (PortUse::HostPort, "host", "localhost:3000 (host port)"),
            (PortUse::AgentPort, "agent", "localhost:3000 (agent port)"),
        ];
        for (port_use, to, expected) in rows {
            let logged = LoggedConnection {
                name: "localhost".to_owned(),
                port: Some(3000),
                relay: Some(port_use),
                to: Some(to.to_owned()),
                ..connection(ConnectionOutcome::Allowed)
            };
            let line = connection_line(&logged, Paint::Plain);
            assert!(line.ends_with(&format!("  {expected}\n")), "{line}");
        }
    }

    #[test]
    fn numbers_of_bytes() {
        let rows = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (10 * 1024, "10 KiB"),
            (1024 * 1024 - 1, "1023 KiB"),
            (u64::MAX, "1677721 TiB"),
        ];
        for (count, expected) in rows {
            assert_eq!(bytes(count), expected);
        }
    }
}
