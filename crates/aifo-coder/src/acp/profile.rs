//! Converts an agent's profile to the types of `aifo-acp` and `aifo-doors`.

use std::time::Duration;

use aifo_acp::Streaming;
use aifo_acp_io::ProcessLimits;
use aifo_doors::MissingFile;
use aifo_launch::{AcpProfile, Stream};

pub(crate) fn streaming(stream: Stream) -> Streaming {
    match stream {
        Stream::Delta => Streaming::Delta,
        Stream::Snapshot => Streaming::Snapshot,
        Stream::Auto => Streaming::Auto,
    }
}

pub(crate) fn missing_file(profile: &AcpProfile) -> MissingFile {
    match profile.missing_file {
        aifo_launch::MissingFile::Error => MissingFile::Error,
        aifo_launch::MissingFile::Empty => MissingFile::Empty,
    }
}

/// Time limits for the agent's exit.
pub(crate) fn process_limits(profile: &AcpProfile) -> ProcessLimits {
    let limits = ProcessLimits::default();
    match profile.kill_on_eof {
        true => ProcessLimits { eof: Duration::ZERO, ..limits },
        false => limits,
    }
}
