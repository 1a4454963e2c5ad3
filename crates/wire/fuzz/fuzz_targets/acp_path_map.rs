//! Paths and URIs, mapped between two views of the same directories.

#![no_main]

use aifo_acp::{PathMap, Way};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let map = PathMap::default().both_ways("/home/me/\u{e9} x", "/w").both_ways("/run/t", "/tmp");
    for (way, back) in [(Way::Outward, Way::Inward), (Way::Inward, Way::Outward)] {
        let folders = match way {
            Way::Outward => ["/home/me/\u{e9} x", "/run/t"],
            Way::Inward => ["/w", "/tmp"],
        };
        if let Some(mapped) = map.path(way, text) {
            assert!(folders.iter().any(|folder| mapped.starts_with(folder)), "{mapped}");
            let mut depth = 0i32;
            for part in text.split('/').filter(|part| !part.is_empty() && *part != ".") {
                depth += if part == ".." { -1 } else { 1 };
                assert!(depth > 0, "it never leaves its folder");
            }
            let there = map.path(back, &mapped).expect("what was mapped can be mapped back");
            assert_eq!(map.path(way, &there), Some(mapped), "and is then the same");
        }
        if let Some(mapped) = map.uri(way, text) {
            let there = map.uri(back, &mapped).expect("what was mapped can be mapped back");
            assert_eq!(map.uri(way, &there), Some(mapped), "and is then the same");
        }
    }
});
