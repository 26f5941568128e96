//! Limits of the bandwidth of a link, by a token bucket filter.

use super::{CREATE, Link, Message, Named, NetworkFailure, RouteSocket};

const ROOT: u32 = 0xffff_ffff;
/// Handle `1:`.
const HANDLE: u32 = 0x1_0000;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const LINKLAYER_ETHERNET: u8 = 1;
/// Larger than a segment that the network card would split.
const MIN_BURST_BYTES: u64 = 128 * 1024;

impl RouteSocket {
    /// Limits what is sent through a link.
    pub(in crate::network) fn limit_bandwidth(
        &mut self,
        link: &Link,
        bits_per_second: u64,
    ) -> Result<(), NetworkFailure> {
        let message = token_bucket(link.index, bits_per_second);
        self.request(message).named("limit bandwidth of", &link.name)
    }
}

fn token_bucket(index: u32, bits_per_second: u64) -> Message {
    let rate = bits_per_second.div_ceil(8);
    let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    // The bytes of 20 ms, and a queue of the same length.
    let burst = (rate / 50).clamp(MIN_BURST_BYTES, u64::from(u32::MAX) / 4);
    let mut message = Message::new(libc::RTM_NEWQDISC, CREATE);
    message.raw(&[0; 4]).raw(&index.to_ne_bytes()).raw(&HANDLE.to_ne_bytes()).raw(&ROOT.to_ne_bytes());
    message.raw(&[0; 4]).text(TCA_KIND, "tbf");
    message.nested(TCA_OPTIONS, |options| {
        let rate_specification =
            [&[0, LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0][..], &narrow(rate).to_ne_bytes()].concat();
        let no_peak_rate = [0; 12];
        let limit = narrow(burst.saturating_mul(2)).to_ne_bytes();
        // The kernel computes the buffer from TCA_TBF_BURST.
        let parameters = [&rate_specification[..], &no_peak_rate, &limit, &[0; 8]].concat();
        options.bytes(TCA_TBF_PARMS, &parameters).u32(TCA_TBF_BURST, narrow(burst));
        if rate > u64::from(u32::MAX) {
            options.bytes(TCA_TBF_RATE64, &rate.to_ne_bytes());
        }
    });
    message
}
