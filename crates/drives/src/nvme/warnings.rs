//! Which of the things that a drive reports about its health are warnings.

use super::Health;

/// The bits of the critical warning that matter for a member of an array; NVM Express Base
/// Specification 2.0, figure 207, byte 0.
const WARNINGS: [(u8, &str); 5] = [
    (1 << 0, "its spare capacity is used up"),
    (1 << 1, "its temperature is out of bounds"),
    (1 << 2, "it has become unreliable"),
    (1 << 3, "it cannot be written any more"),
    (1 << 4, "its protection against power loss has failed"),
];

/// What the bits of the critical warning say, each as the end of the sentence "it reports that …".
#[must_use]
pub fn critical_warnings(health: &Health) -> Vec<&'static str> {
    WARNINGS
        .iter()
        .filter(|(bit, _)| health.critical_warning & bit != 0)
        .map(|(_, words)| *words)
        .collect()
}
