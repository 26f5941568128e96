//! Expansion of `$(NAME)` in values, commands and arguments.

/// Replaces `$(NAME)` with the result of `lookup`. `$$` is an escaped `$`, so `$$(NAME)` is literal. Unknown names and
/// all other text are left unchanged. Values are not expanded recursively.
pub fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            escaped
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|open| open.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(&value),
                None => out.extend(["$(", name, ")"]),
            }
            after
        } else {
            out.push('$');
            after
        };
    }
    out.push_str(rest);
    out
}
