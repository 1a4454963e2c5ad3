//! What an agent's client serves, as an agent sees it: `spec/acp-hosts.md`.

mod files;
mod scratch;
mod terminals;
