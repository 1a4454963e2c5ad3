//! Commands whose options are defined only when the command is called: a program that is about to run one
//! command need not define those of all.

use std::ops::Deref;

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::help::add_texts;

/// A command's options.
#[derive(Debug)]
pub(crate) struct Deferred<T>(pub(crate) Box<T>);

impl<T> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| {
            // Flattened options have descriptions of their own, and would replace the command's.
            let about = command.get_about().cloned();
            let command = T::augment_args(command);
            add_texts("", command.about(about.unwrap_or_default()).long_about(None))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Args> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|options| Deferred(Box::new(options)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
