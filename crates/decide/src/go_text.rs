//! Text as Go prints it, for messages and hashes that must equal upstream's.

/// A string in quotes, like `%q`.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            ' '..='~' => out.push(character),
            '\0'..='\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(character))),
            _ if is_printable(character) => out.push(character),
            '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            '\u{10000}'.. => out.push_str(&format!("\\U{:08x}", u32::from(character))),
        }
    }
    out.push('"');
    out
}

/// Uses `escape_debug`, which escapes unprintable characters. The leading letter keeps combining marks unescaped.
fn is_printable(character: char) -> bool {
    let text = String::from_iter(['a', character]);
    text.escape_debug().eq(text.chars())
}

/// A JSON string, in which `<`, `>` and `&` are escaped too.
pub(crate) fn json_string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(quoted.len());
    for character in quoted.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out
}

/// A JSON array of items that are already encoded.
pub(crate) fn json_array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// A JSON object under construction. Its fields keep their order.
#[derive(Default)]
pub(crate) struct JsonObject(String);

impl JsonObject {
    /// An object from fields that are already encoded.
    pub(crate) fn of<'a>(fields: impl Iterator<Item = (&'a str, String)>) -> String {
        let mut object = Self::default();
        for (key, json) in fields {
            object.value(key, &json);
        }
        object.finish()
    }

    /// A field that is already encoded.
    pub(crate) fn value(&mut self, key: &str, json: &str) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.extend([&json_string(key), ":", json]);
        self
    }

    /// Omitted when empty.
    pub(crate) fn text(&mut self, key: &str, text: Option<&str>) -> &mut Self {
        match text.unwrap_or_default() {
            "" => self,
            text => self.value(key, &json_string(text)),
        }
    }

    /// Omitted when empty.
    pub(crate) fn list(&mut self, key: &str, items: impl Iterator<Item = String>) -> &mut Self {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return self;
        }
        self.value(key, &json_array(items))
    }

    pub(crate) fn finish(&self) -> String {
        format!("{{{}}}", self.0)
    }
}
