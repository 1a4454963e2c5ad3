//! Detects whether a binary is static.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// How a program is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    /// By the kernel alone; runs in an empty image.
    Static,
    /// By a dynamic loader, which must exist.
    Dynamic,
}

/// Reads a program's linkage from its file.
pub(crate) fn linkage(path: &Path) -> Result<Linkage> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    match parse(&bytes) {
        Some(linkage) => Ok(linkage),
        None => bail!("'{}' is not a 64-bit little-endian ELF file", path.display()),
    }
}

/// Searches for a program header of type PT_INTERP; `None` for other files than little-endian
/// ELF64.
fn parse(elf: &[u8]) -> Option<Linkage> {
    const PT_INTERP: u64 = 3;
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = usize::try_from(number(elf, 0x20, 8)?).ok()?;
    let entry_size = usize::try_from(number(elf, 0x36, 2)?).ok()?;
    let entries = usize::try_from(number(elf, 0x38, 2)?).ok()?;
    for index in 0..entries {
        let entry = table.checked_add(index.checked_mul(entry_size)?)?;
        if number(elf, entry, 4)? == PT_INTERP {
            return Some(Linkage::Dynamic);
        }
    }
    Some(Linkage::Static)
}

fn number(elf: &[u8], offset: usize, size: usize) -> Option<u64> {
    let bytes = elf.get(offset..offset.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file whose program headers have these types.
    fn elf(types: &[u8]) -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[0x20] = 64;
        elf[0x36] = 56;
        elf[0x38] = types.len() as u8;
        for kind in types {
            elf.push(*kind);
            elf.extend([0; 55]);
        }
        elf
    }

    #[test]
    fn an_interpreter_makes_it_dynamic() {
        assert_eq!(parse(&elf(&[1, 1, 2])), Some(Linkage::Static));
        assert_eq!(parse(&elf(&[6, 3, 1])), Some(Linkage::Dynamic));
    }

    #[test]
    fn other_files_are_refused() {
        let whole = elf(&[1, 1]);
        for cut in 0..whole.len() - 55 {
            assert_eq!(parse(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(parse(b"#!/bin/sh\n"), None);
        let mut far = elf(&[1]);
        far[0x20..0x28].fill(0xff);
        assert_eq!(parse(&far), None);
    }
}
