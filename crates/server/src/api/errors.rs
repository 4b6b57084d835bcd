//! What the HTTP interface answers when it does not do what it was asked: a status code and one
//! sentence.

use super::names::NameError;
use super::schema::ErrorBody;
use crate::events::NotDone;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use engine::control::message::Refused;
use std::fmt;
use words::without_error_number;

/// A status code and one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status code.
    pub code: StatusCode,
    /// One sentence.
    pub sentence: String,
    /// The order was refused because data could have been lost.
    pub protects_data: bool,
}

impl fmt::Display for ApiError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence)
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    /// `code` and a sentence.
    pub fn new(code: StatusCode, sentence: impl Into<String>) -> ApiError {
        ApiError {
            code,
            sentence: sentence.into(),
            protects_data: false,
        }
    }

    /// 400: what was sent makes no sense.
    pub fn bad_input(sentence: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, sentence)
    }

    /// 404: a name that nothing has.
    pub fn unknown(sentence: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, sentence)
    }

    /// 409: it makes sense, but not now or not with this drive.
    pub fn conflict(sentence: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, sentence)
    }

    /// 409: the controller said no to `what`, like `d1.img is not failed`; 504 if it said nothing.
    pub fn not_done(what: &str, why: NotDone) -> ApiError {
        let error = ApiError::conflict(format!("{what}: {why}"));
        match why {
            NotDone::Refused(Refused::WouldLoseData) => error.protecting_data(),
            NotDone::Refused(_) => error,
            NotDone::NoAnswer => ApiError {
                code: StatusCode::GATEWAY_TIMEOUT,
                ..error
            },
        }
    }

    /// 500: our own fault.
    pub fn internal(sentence: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, sentence)
    }

    /// As `self`, said to protect data.
    pub fn protecting_data(mut self) -> ApiError {
        self.protects_data = true;
        self
    }

    /// As `self`, with another sentence made of this one.
    pub fn map(mut self, change: impl FnOnce(String) -> String) -> ApiError {
        self.sentence = change(self.sentence);
        self
    }
}

impl From<NameError> for ApiError {
    fn from(error: NameError) -> ApiError {
        match error {
            NameError::Unknown(sentence) => ApiError::unknown(sentence),
            NameError::Ambiguous(sentence) => ApiError::conflict(sentence),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = ErrorBody {
            error: without_error_number(&self.sentence),
            protects_data: self.protects_data,
        };
        (self.code, Json(body)).into_response()
    }
}
