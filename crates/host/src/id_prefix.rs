//! Lookup of a session by a prefix of its id.

/// No session or more than one has such an id.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PrefixError(String);

/// The hint at sessions that this machine has not started.
pub const ELSEWHERE: &str = "for a session in a cluster add --backend kubernetes";
/// The end of the name of sessions in a cluster.
const CLUSTER: &str = " in the cluster";

/// Returns the index of the only id that starts with `prefix`. Errors name the candidates.
pub fn the_one(prefix: &str, ids: &[&str], what: &str) -> Result<usize, PrefixError> {
    let matching: Vec<usize> =
        (0..ids.len()).filter(|at| ids.get(*at).is_some_and(|id| id.starts_with(prefix))).collect();
    let names = |of: &[usize]| {
        of.iter().filter_map(|at| ids.get(*at).copied()).collect::<Vec<_>>().join(", ")
    };
    Err(PrefixError(match matching[..] {
        [only] => return Ok(only),
        [] if prefix.is_empty() => format!("no {what} found"),
        [] if what.ends_with(CLUSTER) && ids.is_empty() => format!("no {what} '{prefix}'"),
        [] => {
            let all: Vec<usize> = (0..ids.len()).collect();
            let available = match ids.is_empty() {
                true => Vec::new(),
                false => vec![format!("available: {}", names(&all))],
            };
            let elsewhere = (!what.ends_with(CLUSTER)).then(|| ELSEWHERE.to_owned());
            let hints: Vec<_> = available.into_iter().chain(elsewhere).collect();
            format!("no {what} '{prefix}'\nhint: {}", hints.join("; "))
        }
        _ => {
            format!(
                "'{prefix}' matches more than one {what}\nhint: candidates: {}",
                names(&matching)
            )
        }
    }))
}

/// Returns a session id in short, for command lines.
pub fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_by_its_beginning() {
        let ids = ["5d0c", "5d1f", "a000"];
        let found = |prefix| the_one(prefix, &ids, "session").map_err(|error| error.to_string());
        assert_eq!(found("a"), Ok(2));
        assert_eq!(found("5d1"), Ok(1));
        let ambiguous = "'5d' matches more than one session\nhint: candidates: 5d0c, 5d1f";
        assert_eq!(found("5d"), Err(ambiguous.to_owned()));
        let unknown = format!("no session 'x'\nhint: available: 5d0c, 5d1f, a000; {ELSEWHERE}");
        assert_eq!(found("x"), Err(unknown));
        let none = the_one("", &[], "session").unwrap_err().to_string();
        assert_eq!(none, "no session found");
        let no_other = |what| the_one("x", &[], what).unwrap_err().to_string();
        assert_eq!(no_other("session"), format!("no session 'x'\nhint: {ELSEWHERE}"));
        assert_eq!(no_other("session in the cluster"), "no session in the cluster 'x'");
    }
}
