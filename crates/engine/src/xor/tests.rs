use super::*;

type XorInto = unsafe fn(*mut u8, &[*const u8], usize);
type XorIsZero = unsafe fn(&[*const u8], usize) -> bool;

/// Every kernel that this machine can execute.
fn kernels() -> Vec<(&'static str, XorInto, XorIsZero)> {
    let mut kernels: Vec<(&'static str, XorInto, XorIsZero)> = vec![
        ("scalar", scalar::xor_into, scalar::xor_is_zero),
        ("chosen", xor_into, xor_is_zero),
    ];
    #[cfg(target_arch = "x86_64")]
    {
        kernels.push(("SSE2", x86::xor_into_sse2, x86::xor_is_zero_sse2));
        if std::is_x86_feature_detected!("avx2") {
            kernels.push(("AVX2", x86::xor_into_avx2, x86::xor_is_zero_avx2));
        }
    }
    kernels
}

/// Bytes without structure, the same in every run.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Byte by byte, in safe code.
fn expected(sources: &[&[u8]]) -> Vec<u8> {
    (0..sources[0].len())
        .map(|at| sources.iter().fold(0, |sum, source| sum ^ source[at]))
        .collect()
}

fn lengths() -> impl Iterator<Item = usize> {
    (0..=200).chain([255, 256, 257, 511, 512, 4095, 4096, 4097, 65_536, 100_003])
}

#[test]
fn every_kernel_agrees_with_bytewise_xor_at_any_count_length_and_alignment() {
    const GUARD: u8 = 0xA5;
    for (name, kernel, _) in kernels() {
        for count in (1..=9).chain([16, 64]) {
            for length in lengths().filter(|&length| count <= 9 || length <= 4097) {
                let skew = (length * 7 + count) % 33;
                let memory: Vec<Vec<u8>> = (0..count)
                    .map(|n| noise(length + 33, (n * 131 + length) as u64))
                    .collect();
                let skewed = |n: usize| &memory[n][(skew + n) % 33..][..length];
                let sources: Vec<&[u8]> = (0..count).map(skewed).collect();
                let addresses: Vec<*const u8> = sources.iter().map(|s| s.as_ptr()).collect();
                let mut target = vec![GUARD; length + 66];
                // SAFETY: the target has 33 bytes to spare on either side; every source has `length`.
                unsafe { kernel(target[33 - skew..].as_mut_ptr(), &addresses, length) };
                let (before, rest) = target.split_at(33 - skew);
                let (result, after) = rest.split_at(length);
                assert!(
                    result == expected(&sources),
                    "{name}: {count} sources, {length} bytes"
                );
                assert!(
                    before.iter().chain(after).all(|&byte| byte == GUARD),
                    "{name} overran"
                );
            }
        }
    }
}

#[test]
fn the_target_may_be_any_one_of_the_sources() {
    for (name, kernel, _) in kernels() {
        for count in 1..=9 {
            for aliased in 0..count {
                for length in [0, 1, 7, 31, 64, 129, 1000, 4096] {
                    let mut memory: Vec<Vec<u8>> =
                        (0..count).map(|n| noise(length, n as u64 + 1)).collect();
                    let wanted = expected(&memory.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    let target = memory[aliased].as_mut_ptr();
                    let addresses: Vec<*const u8> = memory
                        .iter()
                        .enumerate()
                        .map(|(n, m)| {
                            if n == aliased {
                                target.cast_const()
                            } else {
                                m.as_ptr()
                            }
                        })
                        .collect();
                    // SAFETY: every vector has `length` bytes; the target equals one source exactly.
                    unsafe { kernel(target, &addresses, length) };
                    assert!(
                        memory[aliased] == wanted,
                        "{name}: {count} sources, target {aliased}"
                    );
                }
            }
        }
    }
}

#[test]
fn nothing_to_xor_gives_zeros() {
    for (_, kernel, is_zero) in kernels() {
        let mut target = vec![7u8; 100];
        // SAFETY: the target has 100 bytes.
        unsafe {
            kernel(target.as_mut_ptr(), &[], 100);
            assert!(is_zero(&[], 100));
        }
        assert_eq!(target, vec![0; 100]);
    }
}

#[test]
fn a_single_flipped_bit_is_seen_wherever_it_is() {
    for (name, kernel, is_zero) in kernels() {
        for count in (1..=9).chain([64]) {
            for length in [1, 2, 8, 15, 63, 64, 65, 200, 257, 1024] {
                let mut memory: Vec<Vec<u8>> =
                    (0..count).map(|n| noise(length, n as u64 + 9)).collect();
                let addresses: Vec<*const u8> = memory.iter().map(|m| m.as_ptr()).collect();
                // The first source becomes the xor of the others, so that all of them sum to zero.
                // SAFETY: every vector has `length` bytes.
                unsafe { kernel(memory[0].as_mut_ptr(), &addresses[1..], length) };
                let addresses: Vec<*const u8> = memory.iter().map(|m| m.as_ptr()).collect();
                // SAFETY: as above.
                assert!(
                    unsafe { is_zero(&addresses, length) },
                    "{name}: {count} × {length}"
                );
                for at in (0..length).step_by(1 + length / 40).chain([length - 1]) {
                    let victim = at % count;
                    memory[victim][at] ^= 1 << (at % 8);
                    let addresses: Vec<*const u8> = memory.iter().map(|m| m.as_ptr()).collect();
                    // SAFETY: as above.
                    assert!(
                        !unsafe { is_zero(&addresses, length) },
                        "{name}: byte {at} of {length}"
                    );
                    memory[victim][at] ^= 1 << (at % 8);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn detection_agrees_with_the_standard_library() {
    let avx2 = std::is_x86_feature_detected!("avx2");
    assert_eq!(
        instructions(),
        if avx2 {
            Instructions::Avx2
        } else {
            Instructions::Sse2
        }
    );
}
