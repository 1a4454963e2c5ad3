//! Tests of the public API against file systems that are written as text.

mod decisions;
mod fake_files;
mod properties;
mod runtimes;
mod spec;
