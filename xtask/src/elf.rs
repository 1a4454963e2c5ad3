//! Detects whether a binary is static, and where it starts.

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

/// Returns whether a program starts by the shim's own entry (`spec/shim.md#early-start`). The file has
/// no symbols, so this compares the first instructions.
pub(crate) fn has_own_entry(path: &Path) -> Result<bool> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(code_at_entry(&bytes).is_some_and(is_own_entry))
}

/// Returns the bytes that the kernel maps from a program's file.
pub(crate) fn loaded_bytes(path: &Path) -> Result<u64> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let size = |header: usize| {
        let is_loaded = number(&bytes, header, 4)? == PT_LOAD;
        if is_loaded { number(&bytes, header.checked_add(32)?, 8) } else { None }
    };
    let sizes = segments(&bytes).with_context(|| format!("{} is no ELF file", path.display()))?;
    Ok(sizes.filter_map(size).sum())
}

/// `xor ebp, ebp`, `lea rax, [rip + HEADER]` and `cmp word ptr [rax + 16], 2`, with any HEADER.
fn is_own_entry(code: &[u8]) -> bool {
    let rest = code.strip_prefix(b"\x31\xed\x48\x8d\x05");
    rest.and_then(|rest| rest.get(4..))
        .is_some_and(|rest| rest.starts_with(b"\x66\x83\x78\x10\x02"))
}

/// Returns the code from the entry to the end of its segment in the file.
fn code_at_entry(elf: &[u8]) -> Option<&[u8]> {
    let entry = number(elf, 0x18, 8)?;
    segments(elf)?.find_map(|header| {
        let field = |offset: usize| number(elf, header.checked_add(offset)?, 8);
        let (offset, address, size) = (field(8)?, field(16)?, field(32)?);
        let inside = entry.checked_sub(address).filter(|inside| *inside < size)?;
        let start = usize::try_from(offset.checked_add(inside)?).ok()?;
        let end = usize::try_from(offset.checked_add(size)?).ok()?;
        if number(elf, header, 4)? == PT_LOAD { elf.get(start..end) } else { None }
    })
}

/// Searches for a program header of type PT_INTERP; `None` for other files than little-endian
/// ELF64.
fn parse(elf: &[u8]) -> Option<Linkage> {
    const PT_INTERP: u64 = 3;
    if elf.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    for header in segments(elf)? {
        if number(elf, header, 4)? == PT_INTERP {
            return Some(Linkage::Dynamic);
        }
    }
    Some(Linkage::Static)
}

/// Returns the offsets of the program headers.
fn segments(elf: &[u8]) -> Option<impl Iterator<Item = usize>> {
    let table = usize::try_from(number(elf, 0x20, 8)?).ok()?;
    let size = usize::try_from(number(elf, 0x36, 2)?).ok()?;
    let count = usize::try_from(number(elf, 0x38, 2)?).ok()?;
    // An offset beyond the file's end has no numbers.
    Some((0..count).map(move |index| table.saturating_add(index.saturating_mul(size))))
}

/// The type of a segment that the kernel maps.
const PT_LOAD: u64 = 1;

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
    fn the_entry_is_recognized_by_its_code() {
        let own = b"\x31\xed\x48\x8d\x05\x01\x02\x03\x04\x66\x83\x78\x10\x02\x74\x00";
        let c_library = b"\x31\xed\x49\x89\xd1\x5e\x48\x89\xe2\x48\x83\xe4\xf0\x50\x54\x45";
        for (code, expected) in [(own, true), (c_library, false)] {
            let mut elf = elf(&[6, 1, 1]);
            let length = elf.len();
            elf.extend([0; 4]);
            elf.extend(code);
            elf[0x18..0x20].copy_from_slice(&0x2004u64.to_le_bytes());
            // The second segment holds address 0x1000, the third 0x2000.
            for (header, address) in [(64 + 56, 0x1000u64), (64 + 112, 0x2000)] {
                elf[header + 8] = length as u8;
                elf[header + 16..header + 24].copy_from_slice(&address.to_le_bytes());
                elf[header + 32] = 20;
            }
            assert_eq!(code_at_entry(&elf), Some(&code[..]));
            assert_eq!(is_own_entry(code), expected);
            for cut in 0..elf.len() {
                assert_eq!(code_at_entry(&elf[..cut]), None, "{cut}");
            }
        }
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
