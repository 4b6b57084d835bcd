//! What goes from one serving process to the next through the service manager: descriptors with names.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A descriptor and its name.
pub type Named = (String, OwnedFd);

/// Has the service manager close its own copy of the descriptors with this name.
pub type Forget = Arc<dyn Fn(&str) + Send + Sync>;

/// Descriptors that a process before this one has left.
pub struct Inherited {
    /// The descriptors.
    pub descriptors: Vec<Named>,
    /// See [`Forget`]. Until it is called, the process after this one gets the same descriptors.
    pub forget: Forget,
}

impl Inherited {
    /// Nothing is left.
    #[must_use]
    pub fn nothing() -> Inherited {
        Inherited {
            descriptors: Vec::new(),
            forget: Arc::new(|_| {}),
        }
    }
}
