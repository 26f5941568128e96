//! podward
