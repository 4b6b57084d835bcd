use super::*;

/// Every kernel that this machine can execute, and what is chosen here.
fn sets() -> Vec<(&'static str, &'static Kernels)> {
    let mut sets: Vec<(&'static str, &'static Kernels)> =
        vec![("scalar", &scalar::SCALAR), ("chosen", kernels())];
    #[cfg(target_arch = "x86_64")]
    {
        sets.push(("SSE2", &x86::SSE2));
        if std::is_x86_feature_detected!("avx2") {
            sets.push(("AVX2", &x86::AVX2));
        }
        if std::is_x86_feature_detected!("avx512f") {
            sets.push(("AVX-512", &x86::AVX512));
        }
    }
    #[cfg(target_arch = "aarch64")]
    sets.push(("NEON", &aarch64::NEON));
    sets
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

/// All tails of the widest step, and some large ones; fewer of them the more sources there are.
fn lengths(sources: usize) -> impl Iterator<Item = usize> {
    let large = [4095, 4096, 4097, 65_536, 100_003];
    (0..=530)
        .step_by(1 + 2 * (sources / 10))
        .chain([511, 512, 513, 1023, 1024, 1025])
        .chain(large.into_iter().take(if sources <= 9 { 5 } else { 3 }))
}

#[test]
fn every_kernel_agrees_with_bytewise_xor_at_any_count_length_and_alignment() {
    const GUARD: u8 = 0xA5;
    let noise = noise(100_003 + 64 * 131 + 65, 1);
    for (name, set) in sets() {
        let kernel = set.xor_into;
        for count in 1..=64 {
            for length in lengths(count) {
                let skew = (length * 7 + count) % 65;
                let skewed = |n: usize| &noise[n * 131 + (skew + n) % 65..][..length];
                let sources: Vec<&[u8]> = (0..count).map(skewed).collect();
                let addresses: Vec<*const u8> = sources.iter().map(|s| s.as_ptr()).collect();
                let mut target = vec![GUARD; length + 130];
                // SAFETY: the target has 65 bytes to spare on either side; every source has `length`.
                unsafe { kernel(target[65 - skew..].as_mut_ptr(), &addresses, length) };
                let (before, rest) = target.split_at(65 - skew);
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
    for (name, set) in sets() {
        let kernel = set.xor_into;
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
    for (_, set) in sets() {
        let (mut target, mut copy) = (vec![7u8; 100], vec![7u8; 100]);
        // SAFETY: both targets have 100 bytes.
        unsafe {
            (set.xor_into)(target.as_mut_ptr(), &[], 100);
            assert!((set.xor_is_zero)(&[], 100));
            assert_eq!(target, vec![0; 100]);
            target.fill(7);
            (set.copy_and_xor)(target.as_mut_ptr(), copy.as_mut_ptr(), &[], 100);
        }
        assert_eq!((target, copy), (vec![0; 100], vec![0; 100]));
    }
}

#[test]
fn a_single_flipped_bit_is_seen_wherever_it_is() {
    for (name, set) in sets() {
        let (kernel, is_zero) = (set.xor_into, set.xor_is_zero);
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

/// Memory with a guard on either side; the middle begins `skew` bytes behind a border of a line.
struct Guarded {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Guarded {
    const GUARD: u8 = 0x5A;

    fn new(length: usize, skew: usize) -> Guarded {
        let bytes = vec![Self::GUARD; length + 3 * 64];
        let start = 64 + bytes.as_ptr().addr().wrapping_neg() % 64 + skew;
        Guarded {
            bytes,
            start,
            length,
        }
    }

    fn target(&mut self) -> *mut u8 {
        self.bytes[self.start..].as_mut_ptr()
    }

    fn holds(&self, wanted: &[u8]) -> bool {
        let (before, rest) = self.bytes.split_at(self.start);
        let (middle, after) = rest.split_at(self.length);
        let mut guards = before.iter().chain(after);
        middle == wanted && guards.all(|&byte| byte == Self::GUARD)
    }
}

#[test]
fn streaming_copies_at_any_length_and_alignment() {
    let noise = noise(100_100, 5);
    for (name, set) in sets() {
        for length in lengths(1) {
            for skew in [0, 1, 16, 63] {
                let mut copy = Guarded::new(length, skew);
                let source = &noise[length % 67..][..length];
                // SAFETY: both have `length` bytes.
                unsafe { (set.copy_streaming)(copy.target(), source.as_ptr(), length) };
                assert!(copy.holds(source), "{name}: {length} bytes at {skew}");
            }
        }
    }
}

#[test]
fn copying_along_with_xor_gives_both_at_any_count_length_and_alignment() {
    let noise = noise(100_003 + 64 * 131 + 65, 6);
    for (name, set) in sets() {
        for count in (1..=9).chain([31, 63]) {
            for length in lengths(count) {
                // Copies that begin at cache lines are streamed; one copy that does not ends that for all.
                let skew = if length % 3 == 0 { length % 64 } else { 0 };
                let source = |n: usize| &noise[n * 131 + length % 65..][..length];
                let sources: Vec<&[u8]> = (0..count).map(source).collect();
                let mut copies: Vec<Guarded> = (0..count)
                    .map(|n| Guarded::new(length, if n == count - 1 { skew } else { 0 }))
                    .collect();
                let copied = |(from, to): (&&[u8], &mut Guarded)| Copied {
                    from: from.as_ptr(),
                    to: to.target(),
                };
                let copied: Vec<Copied> = sources.iter().zip(&mut copies).map(copied).collect();
                let mut target = Guarded::new(length, length % 64);
                let mut target_copy = Guarded::new(length, 0);
                let (to, copy_to) = (target.target(), target_copy.target());
                // SAFETY: all of them have `length` bytes, and only sources overlap each other.
                unsafe { (set.copy_and_xor)(to, copy_to, &copied, length) };
                let wanted = expected(&sources);
                assert!(
                    target.holds(&wanted) && target_copy.holds(&wanted),
                    "{name}: sum of {count} sources, {length} bytes"
                );
                assert!(
                    copies
                        .iter()
                        .zip(&sources)
                        .all(|(copy, from)| copy.holds(from)),
                    "{name}: copies of {count} sources, {length} bytes"
                );
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod choice {
    use super::super::detect::x86::Processor;
    use super::super::{Instructions, instructions};

    fn processor(vendor: &[u8; 12], family: u32, avx512_vpopcntdq: bool) -> Processor {
        Processor {
            vendor: *vendor,
            family,
            avx2: true,
            avx512f: true,
            avx512_vpopcntdq,
        }
    }

    #[test]
    fn detection_agrees_with_the_standard_library() {
        let asked = Processor::ask();
        assert_eq!(asked.avx2, std::is_x86_feature_detected!("avx2"));
        assert_eq!(asked.avx512f, std::is_x86_feature_detected!("avx512f"));
        let vpopcntdq = std::is_x86_feature_detected!("avx512vpopcntdq");
        assert_eq!(asked.avx512_vpopcntdq, vpopcntdq);
        assert_eq!(asked.choice(), instructions());
    }

    #[test]
    fn avx512_is_chosen_only_where_it_is_as_fast() {
        for (processor, wanted) in [
            (processor(b"AuthenticAMD", 0x19, true), Instructions::Avx2),
            (processor(b"AuthenticAMD", 0x1A, true), Instructions::Avx512),
            (processor(b"GenuineIntel", 6, false), Instructions::Avx2),
            (processor(b"GenuineIntel", 6, true), Instructions::Avx512),
            (processor(b"HygonGenuine", 0x18, true), Instructions::Avx2),
            (Processor::default(), Instructions::Sse2),
        ] {
            assert_eq!(processor.choice(), wanted, "{processor:?}");
        }
    }
}
