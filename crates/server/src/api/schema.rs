//! The bodies of requests and answers, except [`Status`](crate::status::Status).
//!
//! Server and client share these types, and the description at `/v1/openapi.json` is generated from
//! them. An unknown field in a request is refused: a misspelt option must not be ignored.

use crate::events::Told;
use crate::nvmet::NvmetRequest;
use crate::status::{DeviceKind, DeviceStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An order has been carried out, or is being carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// What was done, in one sentence.
    pub text: String,
    /// The number of the drive that the order concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<u8>,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// One sentence: what is wrong, with what, and what to do.
    pub error: String,
    /// The order was refused because data could have been lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protects_data: bool,
}

/// Stop using a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    /// Do it although volumes that cannot work without the drive fail with it. Their failure is not recorded: they
    /// start again with the drive.
    #[serde(default)]
    pub volumes_may_fail: bool,
}

/// Make a drive a spare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SpareRequest {
    /// A member specification: a path as the serving process sees it, or `ram:SIZE`; options follow as
    /// `,key=value`.
    pub drive: String,
    /// Use the drive although it holds something. A drive that is in use is refused in any case.
    #[serde(default)]
    pub force: bool,
}

/// Replace the drive in a slot by another one while it stays in service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceRequest {
    /// The slot to vacate, from 0 on.
    pub slot: u8,
    /// A spare by number, name or serial, or the specification of a drive that is added first.
    pub with: String,
    /// See [`SpareRequest::force`].
    #[serde(default)]
    pub force: bool,
}

/// Read everything and compare it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrubRequest {
    /// Correct redundancy that does not match the data.
    #[serde(default)]
    pub repair: bool,
}

/// Scrub a volume regularly, or stop doing so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleRequest {
    /// Seconds from the end of one scrub to the beginning of the next; absent: no more scheduled scrubs.
    #[serde(default)]
    pub every_s: Option<u64>,
    /// Correct redundancy that does not match the data.
    #[serde(default)]
    pub repair: bool,
}

/// Make a volume a block device of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachRequest {
    /// How the device reaches the serving process; absent: the best way that the machine has.
    #[serde(default, rename = "as")]
    pub kind: Option<DeviceKind>,
    /// Export it to other machines, too; the volume may be a block device already then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvmet: Option<NvmetRequest>,
}

/// A volume is a block device now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttachDone {
    /// What was done, in one sentence.
    pub text: String,
    /// The device.
    pub device: DeviceStatus,
    /// Bytes of a member that follow each other in the volume: the stripe unit of a file system.
    pub chunk_bytes: u32,
    /// Bytes of data in a row of the array: the stripe width of a file system. Equal to `chunk_bytes` where nothing is
    /// striped.
    pub row_bytes: u64,
}

/// The limit of background work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RateRequest {
    /// Bytes of each member per second; 0 is unlimited.
    pub bytes_per_s: u64,
}

/// An event with its number.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NumberedEvent {
    /// Numbers the events of the array, continuing across restarts of its server. After a server that did not end in
    /// order, a thousand numbers are left out.
    pub number: u64,
    /// Present if this event stands for several like it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<Folded>,
    /// What happened; if the event stands for several, what the first of them said.
    #[serde(flatten)]
    pub event: Told,
}

/// Several events of one kind about the same thing, of which only the first is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Folded {
    /// How many events.
    pub count: u64,
    /// Number of the first event; `number` is that of the last.
    pub first_number: u64,
    /// When the last event happened, seconds since 1970; `time_s` is when the first did.
    pub last_time_s: u64,
}

impl NumberedEvent {
    /// A single event.
    #[must_use]
    pub fn new(number: u64, event: Told) -> NumberedEvent {
        NumberedEvent {
            number,
            folded: None,
            event,
        }
    }

    /// How many events this one stands for, and which are the first and the last.
    #[must_use]
    pub fn span(&self) -> Folded {
        self.folded.unwrap_or(Folded {
            count: 1,
            first_number: self.number,
            last_time_s: self.event.time_s,
        })
    }
}

/// The newest events.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// Number of the newest event; 0 before the first. Pass it as `since` in the next request.
    pub newest: u64,
    /// Number of events that were requested but are no longer kept.
    pub forgotten: u64,
    /// Oldest first.
    pub events: Vec<NumberedEvent>,
}
