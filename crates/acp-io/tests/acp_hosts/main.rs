//! Tests of the files and terminals that agents are served (`spec/acp-hosts.md`).

mod files;
mod scratch;
mod terminals;
