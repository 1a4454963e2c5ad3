//! Paths and URIs, mapped between two views of the same directories.

#![no_main]

use aifo_acp::{Direction, PathMap};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let map =
        PathMap::default().map_directory("/home/me/\u{e9} x", "/w").map_directory("/run/t", "/tmp");
    for (direction, back) in
        [(Direction::ToEditor, Direction::ToAgent), (Direction::ToAgent, Direction::ToEditor)]
    {
        let folders = match direction {
            Direction::ToEditor => ["/home/me/\u{e9} x", "/run/t"],
            Direction::ToAgent => ["/w", "/tmp"],
        };
        if let Some(mapped) = map.path(direction, text) {
            assert!(folders.iter().any(|folder| mapped.starts_with(folder)), "{mapped}");
            let mut depth = 0i32;
            for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
                depth += if part == ".." { -1 } else { 1 };
                assert!(depth > 0, "it never leaves its folder");
            }
            let there = map.path(back, &mapped).expect("what was mapped can be mapped back");
            assert_eq!(map.path(direction, &there), Some(mapped), "and is then the same");
        }
        if let Some(mapped) = map.uri(direction, text) {
            let there = map.uri(back, &mapped).expect("what was mapped can be mapped back");
            assert_eq!(map.uri(direction, &there), Some(mapped), "and is then the same");
        }
    }
});
