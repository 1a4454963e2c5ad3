//! The peak memory of the test's process.

/// The start of a line with text of the agent.
pub(crate) const CHUNK: &[u8] =
    b"{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":\
    {\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"";

/// Checks the peak memory of this process.
#[track_caller]
pub(crate) fn check(what: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 128 << 10, "{what}: {} MiB", kib >> 10);
    println!("{what}: {} MiB", kib >> 10);
}
