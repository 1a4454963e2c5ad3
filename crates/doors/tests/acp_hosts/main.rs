//! Files and terminals as an agent uses them (`spec/acp-hosts.md`).

mod files;
mod scratch;
mod terminals;
