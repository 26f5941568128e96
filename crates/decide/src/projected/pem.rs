//! Certificates in PEM form.

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
const LINE_LENGTH: usize = 64;

/// The base64 texts of the certificates, without line breaks. Text between the certificates is left out.
pub(super) fn certificates(text: &str) -> impl Iterator<Item = String> {
    let blocks = text.split(BEGIN).skip(1).filter_map(|block| block.split_once(END));
    blocks.map(|(body, _)| body.split_whitespace().collect())
}

/// One certificate from its base64 text.
pub(super) fn certificate(base64: &str) -> String {
    let mut text = format!("{BEGIN}\n");
    for (index, character) in base64.chars().enumerate() {
        if index > 0 && index % LINE_LENGTH == 0 {
            text.push('\n');
        }
        text.push(character);
    }
    text + "\n" + END + "\n"
}
