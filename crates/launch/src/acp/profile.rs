//! Converts an agent profile to the types of `aifo-acp` and `aifo-acp-io`.

use std::time::Duration;

use aifo_acp::Streaming;
use aifo_acp_io::{MissingFile, ProcessLimits};
use aifo_agents::{AcpProfile, ChunkMode};

/// Returns how a client reads the chunks of an agent.
pub fn streaming(stream: ChunkMode) -> Streaming {
    match stream {
        ChunkMode::Delta => Streaming::Delta,
        ChunkMode::Snapshot => Streaming::Snapshot,
        ChunkMode::Auto => Streaming::Auto,
    }
}

pub(crate) fn missing_file(profile: &AcpProfile) -> MissingFile {
    match profile.missing_file {
        aifo_agents::MissingFileReply::Error => MissingFile::Error,
        aifo_agents::MissingFileReply::Empty => MissingFile::Empty,
    }
}

/// Returns the time limits of an agent's exit.
pub fn process_limits(profile: &AcpProfile) -> ProcessLimits {
    let limits = ProcessLimits::default();
    match profile.kill_on_eof {
        true => ProcessLimits { eof: Duration::ZERO, ..limits },
        false => limits,
    }
}
