//! Faults: what each leaves must be the transcript, each row once.

pub(super) mod crowd;
pub(super) mod cuts;
pub(super) mod disk;
pub(super) mod kills;

/// A linear congruential generator: the same seed, the same schedule.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a number below this one.
    pub(super) fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % most.max(1) as u64).unwrap_or_default()
    }
}
