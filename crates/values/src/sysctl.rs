//! Names of sysctls.

/// The name with dots as separators. `net/ipv4/conf/eno2.100/rp_filter` is `net.ipv4.conf.eno2/100.rp_filter`: if the first
/// separator is a slash, dots and slashes have swapped roles.
pub fn dotted_name(name: &str) -> String {
    match name.find(['.', '/']).and_then(|first| name.get(first..=first)) {
        Some("/") => {
            let swap = |letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            name.chars().map(swap).collect()
        }
        Some(_) | None => name.to_owned(),
    }
}
