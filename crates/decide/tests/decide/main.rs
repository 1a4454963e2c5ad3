//! The decision from the outside, over file systems that are a few lines of text.

mod properties;
mod runtimes;
mod spec;
mod stories;
mod world;
