//! Scenarios that run an agent binary through the same steps.
