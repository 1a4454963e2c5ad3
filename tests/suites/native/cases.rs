//! The compared calls, by class.

mod arguments;
mod attributes;
mod endings;
mod environment;
mod families;
mod input;
mod output;
mod reports;
mod signals;
mod terminals;
mod tools;

use crate::native::invocation::Invocation;

/// All of them.
pub(crate) fn all() -> Vec<Invocation> {
    let classes = [
        ("arguments", arguments::calls()),
        ("exit codes", endings::exit_codes()),
        ("deaths", endings::deaths()),
        ("not started", endings::not_started()),
        ("signals", signals::calls()),
        ("stdin", input::calls()),
        ("what is left of stdin", input::rests()),
        ("output", output::calls()),
        ("early ends", output::early_ends()),
        ("umask, limits, nice", attributes::calls()),
        ("places and variables", environment::calls()),
        ("children", families::calls()),
        ("terminals", terminals::calls()),
        ("real tools", tools::calls()),
        ("reports", reports::calls()),
    ];
    let named = classes.into_iter().flat_map(|(class, calls)| {
        calls.into_iter().map(move |mut call| {
            call.class = class;
            call
        })
    });
    named.collect()
}
