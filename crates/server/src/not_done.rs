//! Why an order to the controller was not carried out, in words.

use engine::control::message::Refused;

/// Why an order was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotDone {
    /// The controller refused it.
    Refused(Refused),
    /// The first data thread did not answer in time; whether the order was carried out is not known.
    NoAnswer,
}

impl std::fmt::Display for NotDone {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            NotDone::Refused(refused) => refusal(*refused),
            NotDone::NoAnswer => {
                "the array has not answered; a drive may hang, and the order may still be carried out"
            }
        })
    }
}

/// Why a command was refused, in words.
#[must_use]
fn refusal(refused: Refused) -> &'static str {
    match refused {
        Refused::NoSuch => "there is no such drive, slot or job, or it is not in a state for this",
        Refused::WouldLoseData => "the array would lose data",
        Refused::Busy => {
            "other background work of these drives has to end first, a slot is not in sync, or the volume is read-only"
        }
        Refused::TooSmall => "the drive is too small",
        Refused::Outdated => {
            "more may have been written without it than the bitmap marks, or its slot is taken; --force takes it \
             as an empty drive"
        }
        Refused::NoSpare => "there is no spare; `fullstripe add-spare DRIVE` adds one",
        Refused::NotWritable => {
            "the spare reports that it cannot be written any more; `fullstripe add-spare DRIVE` adds another"
        }
        Refused::NoRedundancy => "RAID 0 has no redundancy to work with",
        Refused::Stopping => "the array is being stopped",
    }
}
