//! Reads the head of a push: its ref updates, before the pack (`spec/forges.md#pushes`).

use std::collections::BTreeSet;

use crate::oid::Oid;
use crate::pkt_line::{self, Packet};
use crate::push::{OPTIONS, Push, REPORT, RefUpdate};

/// The longest head of a push in bytes: some thousand refs.
pub const MAX_PUSH_HEAD: usize = 1 << 20;

/// The longest name of a ref, as of a file, and of an option.
const MAX_NAME: usize = 1024;

/// A body is no push that can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// More than [`MAX_PUSH_HEAD`] bytes.
    #[error("its list of refs is longer than 1 MiB")]
    TooLong,
    /// It is not in the form of git.
    #[error("its list of refs is malformed")]
    Malformed,
    /// A name that git does not allow, or that is there twice.
    #[error("it has an invalid or repeated name of a ref")]
    Name,
    /// A certificate, whose signature covers what is written anew here.
    #[error("it is signed\nhint: push with --no-signed")]
    Signed,
    /// The client would take a refusal for success.
    #[error("its client asks for no report")]
    NoReport,
    /// There are bytes behind a probe, which has no updates.
    #[error("it has a pack without a ref")]
    PackOnly,
}

/// Collects the head of a push.
#[derive(Debug, Default)]
pub struct PushReader {
    bytes: Vec<u8>,
    /// Where the first line begins that is not whole yet.
    at: usize,
}

impl PushReader {
    /// Takes the next bytes of a body. Returns the push and the beginning of its pack once the head is whole.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Option<(Push, Vec<u8>)>, PushError> {
        self.bytes.extend_from_slice(bytes);
        while let Some((packet, rest)) = take(self.bytes.get(self.at..).unwrap_or_default())? {
            self.at = self.bytes.len() - rest.len();
            // The end of the refs, or of the options behind them.
            if packet == Packet::Flush
                && let Some((push, pack)) = parse(&self.bytes)?
            {
                return Ok(Some((push, pack.to_vec())));
            }
        }
        if self.bytes.len() > MAX_PUSH_HEAD { Err(PushError::TooLong) } else { Ok(None) }
    }
}

fn parse(bytes: &[u8]) -> Result<Option<(Push, &[u8])>, PushError> {
    let (mut updates, mut shallow, mut capabilities) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = bytes;
    loop {
        let Some((packet, behind)) = take(rest)? else { return Ok(None) };
        rest = behind;
        let Packet::Data(line) = packet else { break };
        if line.starts_with(b"push-cert\0") {
            return Err(PushError::Signed);
        }
        if let Some(id) = line.strip_prefix(b"shallow ") {
            if !updates.is_empty() {
                return Err(PushError::Malformed);
            }
            shallow.push(Oid::parse(without_end(id)).ok_or(PushError::Malformed)?);
            continue;
        }
        let mut line = line;
        if updates.is_empty() {
            let end = line.iter().position(|&byte| byte == 0);
            let (update, list) = line.split_at(end.ok_or(PushError::NoReport)?);
            line = update;
            capabilities = capabilities_of(list.get(1..).unwrap_or_default())?;
        }
        updates.push(update(line)?);
    }
    let mut push = Push { updates, shallow, capabilities, options: Vec::new() };
    check(&push)?;
    if push.has(OPTIONS) {
        loop {
            let Some((packet, behind)) = take(rest)? else { return Ok(None) };
            rest = behind;
            let Packet::Data(option) = packet else { break };
            push.options.push(text(without_end(option))?);
        }
    }
    if push.updates.is_empty() && !rest.is_empty() {
        return Err(PushError::PackOnly);
    }
    Ok(Some((push, rest)))
}

fn take(bytes: &[u8]) -> Result<Option<(Packet<'_>, &[u8])>, PushError> {
    pkt_line::take(bytes).map_err(|_| PushError::Malformed)
}

/// Checks what no line shows alone.
fn check(push: &Push) -> Result<(), PushError> {
    if push.updates.is_empty() {
        return if push.shallow.is_empty() { Ok(()) } else { Err(PushError::Malformed) };
    }
    if !REPORT.iter().any(|report| push.has(report)) {
        return Err(PushError::NoReport);
    }
    let digits = match push.capabilities.iter().find_map(|it| it.strip_prefix("object-format=")) {
        None | Some("sha1") => 40,
        Some("sha256") => 64,
        Some(_) => return Err(PushError::Malformed),
    };
    let ids = push.updates.iter().flat_map(|update| [&update.old, &update.new]);
    if ids.chain(&push.shallow).any(|id| id.as_str().len() != digits) {
        return Err(PushError::Malformed);
    }
    let names: BTreeSet<&str> = push.updates.iter().map(|update| update.name.as_str()).collect();
    if names.len() != push.updates.len() {
        return Err(PushError::Name);
    }
    Ok(())
}

/// `OLD NEW NAME`
fn update(line: &[u8]) -> Result<RefUpdate, PushError> {
    let mut parts = without_end(line).splitn(3, |&byte| byte == b' ');
    let mut id = || parts.next().and_then(Oid::parse).ok_or(PushError::Malformed);
    let (old, new) = (id()?, id()?);
    if old.is_zero() && new.is_zero() {
        return Err(PushError::Malformed);
    }
    let name = parts.next().ok_or(PushError::Malformed)?;
    let name = std::str::from_utf8(name).ok().filter(|name| is_ref_name(name));
    Ok(RefUpdate { old, new, name: name.ok_or(PushError::Name)?.to_owned() })
}

/// The rules of git-check-ref-format(1) for a full name.
fn is_ref_name(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    let is_allowed = |character: char| !character.is_control() && !" ~^:?*[\\".contains(character);
    name.len() <= MAX_NAME
        && name.starts_with("refs/")
        && name.split('/').all(is_part)
        && name.chars().all(is_allowed)
        && !name.contains("..")
        && !name.contains("@{")
}

fn capabilities_of(list: &[u8]) -> Result<Vec<String>, PushError> {
    let words = without_end(list).split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    words.map(text).collect()
}

/// Text without control characters.
fn text(bytes: &[u8]) -> Result<String, PushError> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_NAME);
    let text = text.filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or(PushError::Malformed)
}

fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::push::RefChange;

    /// A head with ids that repeat a digit.
    pub(crate) fn body(updates: &[(&str, &str, &str)], capabilities: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (index, (old, new, name)) in updates.iter().enumerate() {
            let line = format!("{} {} {name}", old.repeat(40), new.repeat(40));
            let list = if index == 0 { format!("\0 {capabilities}") } else { String::new() };
            pkt_line::put(&mut bytes, &[line.as_bytes(), list.as_bytes()]);
        }
        pkt_line::flush(&mut bytes);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Option<(Push, Vec<u8>)>, PushError> {
        PushReader::default().read(bytes)
    }

    const STATUS: &str = "report-status";

    #[test]
    fn a_push_tells_what_it_does_in_any_pieces() {
        let updates =
            [("0", "1", "refs/heads/new"), ("1", "2", "refs/heads/x"), ("2", "0", "refs/tags/old")];
        let body = [&body(&updates, "report-status atomic")[..], b"PACKrest"].concat();
        for size in [1, 3, 7, body.len()] {
            let mut reader = PushReader::default();
            let mut found = None;
            let mut behind = Vec::new();
            for piece in body.chunks(size) {
                match found {
                    Some(_) => behind.extend_from_slice(piece),
                    None => {
                        if let Some((push, pack)) = reader.read(piece).unwrap() {
                            (found, behind) = (Some(push), pack);
                        }
                    }
                }
            }
            let push = found.unwrap();
            let kinds: Vec<_> = push.updates().iter().map(RefUpdate::change).collect();
            assert_eq!(kinds, [RefChange::Create, RefChange::Update, RefChange::Delete]);
            assert_eq!(behind, b"PACKrest");
        }
    }

    #[test]
    fn a_probe_has_no_updates() {
        let (push, pack) = read(b"0000").unwrap().unwrap();
        assert!(push.updates().is_empty() && pack.is_empty());
        assert_eq!(read(b"0000PACK"), Err(PushError::PackOnly));
        assert_eq!(push.head(), b"0000");
    }

    #[test]
    fn options_and_shallow_commits_are_read() {
        let mut bytes = Vec::new();
        pkt_line::put(&mut bytes, &[b"shallow ", "3".repeat(40).as_bytes()]);
        bytes.extend(body(&[("0", "1", "refs/heads/x")], "report-status push-options"));
        assert_eq!(read(&bytes), Ok(None));
        pkt_line::put(&mut bytes, &[b"merge_request.create"]);
        pkt_line::flush(&mut bytes);
        let (push, _) = read(&bytes).unwrap().unwrap();
        assert_eq!(push.options(), ["merge_request.create"]);
        assert_eq!(push.head(), bytes);
    }

    #[test]
    fn what_a_forge_could_read_otherwise_is_refused() {
        let line = |text: &str| {
            let mut bytes = Vec::new();
            pkt_line::put(&mut bytes, &[text.as_bytes()]);
            pkt_line::flush(&mut bytes);
            bytes
        };
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let long = "1".repeat(64);
        for (bytes, error) in [
            (line(&format!("{zero} {one} refs/heads/x")), PushError::NoReport),
            (line(&format!("{zero} {one} refs/heads/x\0atomic")), PushError::NoReport),
            (line(&format!("{zero} {zero} refs/heads/x\0{STATUS}")), PushError::Malformed),
            (line(&format!("{zero}  {one} refs/heads/x\0{STATUS}")), PushError::Malformed),
            (line(&format!("{zero} {one}\0{STATUS}")), PushError::Malformed),
            (line(&format!("{long} {one} refs/heads/x\0{STATUS}")), PushError::Malformed),
            (line(&format!("{long} {long} refs/heads/x\0{STATUS}")), PushError::Malformed),
            (line(&format!("{one} {one} x\0{STATUS} object-format=md5")), PushError::Name),
            (line("push-cert\0 report-status"), PushError::Signed),
            (line(&format!("shallow {one}")), PushError::Malformed),
            (body(&[("0", "1", "refs/x"), ("0", "1", "refs/x")], STATUS), PushError::Name),
            (b"0001".to_vec(), PushError::Malformed),
            (b"00aF".to_vec(), PushError::Malformed),
            (vec![b'f'; MAX_PUSH_HEAD + 1], PushError::Malformed),
        ] {
            assert_eq!(read(&bytes), Err(error), "{}", String::from_utf8_lossy(&bytes));
        }
        for name in ["HEAD", "heads/x", "refs/", "refs//x", "refs/heads/.x", "refs/heads/x.lock"]
            .into_iter()
            .chain(["refs/a..b", "refs/a b", "refs/a\u{7f}", "refs/a:b", "refs/a@{1}", "refs/a."])
        {
            let read = read(&body(&[("0", "1", name)], STATUS));
            assert_eq!(read, Err(PushError::Name), "{name}");
        }
    }

    #[test]
    fn ids_have_the_digits_of_the_format() {
        let (zero, one) = ("0".repeat(64), "1".repeat(64));
        let mut bytes = Vec::new();
        let list = "report-status object-format=sha256";
        pkt_line::put(&mut bytes, &[format!("{zero} {one} refs/heads/x\0 {list}").as_bytes()]);
        pkt_line::flush(&mut bytes);
        assert_eq!(read(&bytes).unwrap().unwrap().0.updates()[0].new.as_str(), one);
    }

    #[test]
    fn a_head_without_end_has_a_limit() {
        let lines = body(&[("0", "1", "refs/heads/x")], STATUS);
        let lines = lines.strip_suffix(b"0000").unwrap();
        let mut reader = PushReader::default();
        assert_eq!(reader.read(lines), Ok(None));
        let mut more = Vec::new();
        let line = format!("{} {} refs/heads/y", "0".repeat(40), "1".repeat(40));
        while more.len() <= MAX_PUSH_HEAD {
            pkt_line::put(&mut more, &[line.as_bytes()]);
        }
        assert_eq!(reader.read(&more), Err(PushError::TooLong));
    }
}
