//! `polyglot NUMBER..` prints numerals; `polyglot wait` runs until it is interrupted.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

fn main() -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for word in std::env::args().skip(1) {
        if word == "wait" {
            println!("ready");
            thread::sleep(Duration::from_secs(600));
            continue;
        }
        match word.parse().ok().and_then(polyglot::to_roman) {
            Some(numeral) => println!("{numeral}"),
            None => {
                eprintln!("polyglot: '{word}' has no numeral: use 1 to 3999");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
