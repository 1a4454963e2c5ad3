//! The decision from the outside, over file systems that are a few lines of text.

mod decisions;
mod fake_files;
mod properties;
mod runtimes;
mod spec;
