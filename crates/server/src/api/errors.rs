//! What the HTTP interface answers when it does not carry out a request: a status code and one
//! sentence.

use super::names::NameError;
use super::schema::ErrorBody;
use crate::not_done::NotDone;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use engine::control::message::Refused;
use std::fmt;
use words::without_error_number;

/// A status code and one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status code.
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
    /// An error with this status code and sentence.
    pub fn new(code: StatusCode, sentence: impl Into<String>) -> ApiError {
        ApiError {
            code,
            sentence: sentence.into(),
            protects_data: false,
        }
    }

    /// 400: the request makes no sense.
    pub fn bad_input(sentence: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, sentence)
    }

    /// 404: nothing has the name given.
    pub fn unknown(sentence: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, sentence)
    }

    /// 409: the request makes sense, but not in the present state or not with this drive.
    pub fn conflict(sentence: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, sentence)
    }

    /// 409: the controller refused `what`, for example `d1.img is not failed`; 504 if the controller did not answer.
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

    /// 500: a fault of this program.
    pub fn internal(sentence: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, sentence)
    }

    /// The same error, marked as a refusal that protects data.
    pub fn protecting_data(mut self) -> ApiError {
        self.protects_data = true;
        self
    }

    /// The same error, with a sentence that `change` makes of the present one.
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
