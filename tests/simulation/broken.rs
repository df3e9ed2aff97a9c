//! A promise that was not kept.

#[derive(Debug, Clone)]
pub struct Broken {
    /// The promise, by its number and in words.
    pub promise: &'static str,
    pub what: String,
}

impl Broken {
    pub fn new(promise: &'static str, what: impl Into<String>) -> Broken {
        Broken {
            promise,
            what: what.into(),
        }
    }
}

/// Returns [`Broken`] unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $promise:expr, $($what:tt)+) => {
        if !$holds {
            return Err($crate::broken::Broken::new($promise, format!($($what)+)));
        }
    };
}
pub(crate) use ensure;
