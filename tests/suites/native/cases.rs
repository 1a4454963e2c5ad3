//! The compared calls, by class.

#[path = "cases/arguments.rs"]
mod arguments;
#[path = "cases/attributes.rs"]
mod attributes;
#[path = "cases/endings.rs"]
mod endings;
#[path = "cases/environment.rs"]
mod environment;
#[path = "cases/families.rs"]
mod families;
#[path = "cases/input.rs"]
mod input;
#[path = "cases/output.rs"]
mod output;
#[path = "cases/reports.rs"]
mod reports;
#[path = "cases/signals.rs"]
mod signals;
#[path = "cases/terminals.rs"]
mod terminals;
#[path = "cases/tools.rs"]
mod tools;

use crate::invocation::Invocation;

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
