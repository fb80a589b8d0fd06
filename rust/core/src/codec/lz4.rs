//! LZ4 blocks in a frame (`H5Zlz4.c`): a total size, a block size, and blocks that each say their
//! own.
use crate::codec::streams::unlz4;
use crate::error::{Fault, corrupt};

/// Decode into `plain`, of which the bytes written are returned as a count. All numbers of the
/// frame are big-endian; a block that compression would not have shrunk is stored as it is.
pub fn decode(stored: &[u8], plain: &mut [u8]) -> Result<usize, Fault> {
    let Some((total, rest)) = stored.split_first_chunk::<8>() else { return short() };
    let Some((block, mut rest)) = rest.split_first_chunk::<4>() else { return short() };
    let (total, block) = (u64::from_be_bytes(*total), u32::from_be_bytes(*block) as usize);
    if total > plain.len() as u64 || (block == 0 && total > 0) {
        return corrupt(format!("its lz4 data claim {total} bytes in blocks of {block}"));
    }
    for target in plain[..total as usize].chunks_mut(block.max(1)) {
        let Some((size, after)) = rest.split_first_chunk::<4>() else { return short() };
        let size = u32::from_be_bytes(*size) as usize;
        let Some((data, after)) = after.split_at_checked(size) else { return short() };
        if size == target.len() {
            target.copy_from_slice(data);
        } else {
            let count = unlz4(data, target)?;
            if count != target.len() {
                return corrupt(format!(
                    "an lz4 block decodes to {count} bytes instead of {}",
                    target.len()
                ));
            }
        }
        rest = after;
    }
    Ok(total as usize)
}

fn short<T>() -> Result<T, Fault> {
    corrupt("its lz4 data end too early")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(data: &[u8], block: usize) -> Vec<u8> {
        let mut stored = (data.len() as u64).to_be_bytes().to_vec();
        stored.extend((block as u32).to_be_bytes());
        for piece in data.chunks(block) {
            let packed = lz4_flex::block::compress(piece);
            let kept = if packed.len() < piece.len() { &packed[..] } else { piece };
            stored.extend((kept.len() as u32).to_be_bytes());
            stored.extend(kept);
        }
        stored
    }

    #[test]
    fn blocks_packed_and_plain() {
        let data: Vec<u8> =
            (0..10_000u32).map(|i| if i < 5000 { 7 } else { (i * i / 7) as u8 }).collect();
        let stored = frame(&data, 777);
        let mut plain = vec![0; data.len()];
        assert_eq!(decode(&stored, &mut plain), Ok(data.len()));
        assert_eq!(plain, data);
        for end in 0..stored.len() {
            assert!(decode(&stored[..end], &mut plain).is_err());
        }
    }
}
