//! Random changes of requests.

use crate::malformed::random::Random;

/// Changes a request: flips bits, or removes, doubles, inserts or splices parts.
pub(crate) fn mutate(requests: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = requests[random.below(requests.len())].clone();
    for _ in 0..=random.below(4) {
        let start = random.below(bytes.len() + 1);
        let end = bytes.len().min(start + random.below(20));
        match random.below(6) {
            0 => bytes[start..end].iter_mut().take(1).for_each(|b| *b ^= 1 << random.below(8)),
            1 => bytes[start..end].iter_mut().for_each(|b| *b = random.byte()),
            2 => _ = bytes.drain(start..end),
            3 => bytes.splice(start..start, bytes[start..end].to_vec()).for_each(drop),
            4 => bytes.splice(start..end, random.pick(WORDS).bytes()).for_each(drop),
            _ => {
                let other = &requests[random.below(requests.len())];
                bytes.truncate(start);
                bytes.extend_from_slice(&other[random.below(other.len())..]);
            }
        }
    }
    bytes
}

const WORDS: &[&str] = &[
    "\r\n",
    "\n",
    "\r\n\r\n",
    "\n\n",
    "\r",
    "\0",
    ":",
    " ",
    "%",
    "&",
    "=",
    "0\r\n\r\n",
    "ffffffffffffffff\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 18446744073709551616\r\n",
    "Expect: 100-continue\r\n",
    "\u{e9}",
];
