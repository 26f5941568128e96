//! Mechanisms that must have only one implementation.
//!
//! [`MECHANISMS`] lists signs of a second implementation: a constant, a string literal or a piece of code. The scan
//! covers the sources of all crates except `testkit`, without comments and tests. To protect a further mechanism, add a
//! row; `home` lists the files or folders that implement it.

use std::fs;
use std::path::Path;

use super::source::{code, string_literals, without_tests};
use crate::{relative, report, rust_files, workspace};

struct Mechanism {
    name: &'static str,
    /// Files and folders that may contain the signs.
    home: &'static [&'static str],
    signs: &'static [Sign],
}

/// Something that only an implementation contains.
enum Sign {
    /// A number in the form of [`normalized_number`].
    Number(&'static str),
    /// The whole content of a string literal.
    Text(&'static str),
    /// Code outside comments and strings, without white space.
    Code(&'static str),
}

const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "suffixes of Kubernetes quantities",
        home: &["crates/values/src/quantity"],
        signs: &[Sign::Text("Ki"), Sign::Text("Mi"), Sign::Text("Gi")],
    },
    Mechanism {
        name: "units of Go durations",
        home: &["crates/values/src/duration"],
        signs: &[Sign::Text("us"), Sign::Text("µs"), Sign::Text("μs")],
    },
    Mechanism {
        name: "FNV hashes",
        home: &["crates/values/src/fnv"],
        signs: &[
            Sign::Number("0x811c9dc5"),
            Sign::Number("2166136261"),
            Sign::Number("0x1000193"),
            Sign::Number("16777619"),
            Sign::Number("0xcbf29ce484222325"),
            Sign::Number("14695981039346656037"),
            Sign::Number("0x100000001b3"),
            Sign::Number("1099511628211"),
            Sign::Number("0x6c62272e07bb014262b821756295c58d"),
            Sign::Number("0x13b"),
        ],
    },
    Mechanism {
        name: "exponential backoff",
        home: &["crates/timing/src/backoff"],
        signs: &[
            Sign::Code("*2).min("),
            Sign::Code("saturating_mul(2).min("),
            Sign::Code("saturating_mul(1<<"),
            Sign::Code("2u32.pow("),
            Sign::Code("2_u32.pow("),
            Sign::Code("as_secs_f64()*self.factor"),
        ],
    },
    Mechanism {
        name: "jitter",
        home: &["crates/timing/src/jitter", "crates/timing/src/random"],
        signs: &[
            Sign::Code("mul_f64(1.0+"),
            Sign::Code("mul_f64(0.5+"),
            Sign::Code("RandomState::new().hash_one("),
        ],
    },
    Mechanism {
        name: "sleep until an optional deadline",
        home: &["crates/timing/src/sleep"],
        signs: &[Sign::Code("asyncfnsleep_until(")],
    },
    Mechanism {
        name: "delay queue",
        home: &["crates/timing/src/delay_queue"],
        signs: &[Sign::Code("BTreeSet<(Instant,"), Sign::Code("BTreeMap<(Instant,")],
    },
    Mechanism {
        name: "token bucket",
        home: &["crates/timing/src/token_bucket"],
        signs: &[Sign::Code("as_secs_f64()*self.per_second"), Sign::Code("as_secs_f64()*per_second")],
    },
];

#[test]
fn mechanisms_are_implemented_in_one_place() {
    let mut broken = Vec::new();
    for file in rust_files(&workspace().join("crates")) {
        let path = relative(&file);
        if is_test_code(Path::new(&path)) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let squeezed = squeezed(&text);
        for mechanism in MECHANISMS.iter().filter(|mechanism| !mechanism.is_home(&path)) {
            // Most files contain no sign, and parsing takes long.
            if mechanism.signs.iter().any(|sign| squeezed.contains(&sign.squeezed())) {
                let found = Source::new(&text).find(mechanism.signs);
                broken.extend(found.iter().map(|found| format!("{path}:{found} ({})", mechanism.name)));
            }
        }
    }
    report("each of these mechanisms has one implementation; use it instead of writing another", &broken);
}

#[test]
fn homes_contain_the_signs_of_their_mechanism() {
    for mechanism in MECHANISMS {
        let homes = mechanism.home.iter().map(|home| workspace().join(home));
        let files = homes.flat_map(|home| [vec![home.with_extension("rs")], rust_files(&home)].concat());
        let texts = files.filter_map(|file| fs::read_to_string(file).ok());
        let found: usize = texts.map(|text| Source::new(&text).find(mechanism.signs).len()).sum();
        assert!(found > 0, "no sign of {} in {:?}", mechanism.name, mechanism.home);
    }
}

#[test]
fn finds_signs_in_code_only() {
    let signs = [Sign::Number("0x1000193"), Sign::Text("Ki"), Sign::Code("delay*=2")];
    let text = r#"
        // 0x0100_0193 "Ki" delay *= 2
        const PRIME: u32 = 0x0100_0193_u32;
        const SUFFIXES: [&str; 2] = ["Ki", "1Ki"];
        fn next() { delay *= 2; }
        #[cfg(test)]
        mod tests {
            const PRIME: u32 = 0x0100_0193;
        }
    "#;
    assert_eq!(Source::new(text).find(&signs), ["3: 0x1000193", "4: \"Ki\"", "5: delay*=2"]);
}

impl Sign {
    fn squeezed(&self) -> String {
        match self {
            Self::Number(number) => squeezed(number.trim_start_matches("0x")),
            Self::Text(text) => squeezed(&format!("{text:?}")),
            Self::Code(code) => squeezed(code),
        }
    }
}

/// In lower case, without white space and underscores.
fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '_').collect::<String>().to_lowercase()
}

impl Mechanism {
    fn is_home(&self, path: &str) -> bool {
        self.home.iter().any(|home| path.starts_with(home))
    }
}

/// The searched parts of a file, each with its line.
struct Source {
    numbers: Vec<(usize, String)>,
    literals: Vec<(usize, String)>,
    code: Vec<(usize, String)>,
}

impl Source {
    fn new(text: &str) -> Self {
        let text = without_tests(text);
        let code = code(&text);
        let lines = || code.lines().enumerate().map(|(index, line)| (index + 1, line));
        let words = lines().flat_map(|(number, line)| {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            words.filter_map(move |word| Some((number, normalized_number(word)?)))
        });
        Self {
            numbers: words.collect(),
            literals: string_literals(&text)
                .into_iter()
                .map(|(line, text)| (line, text.to_owned()))
                .collect(),
            code: lines().map(|(number, line)| (number, line.split_whitespace().collect())).collect(),
        }
    }

    /// Line and sign of each hit.
    fn find(&self, signs: &[Sign]) -> Vec<String> {
        let hits = |sign: &Sign| -> Vec<String> {
            match sign {
                Sign::Number(expected) => lines_of(&self.numbers, |number| number == *expected, expected),
                Sign::Text(expected) => {
                    lines_of(&self.literals, |text| text == *expected, &format!("{expected:?}"))
                }
                Sign::Code(expected) => lines_of(&self.code, |line| line.contains(expected), expected),
            }
        };
        signs.iter().flat_map(hits).collect()
    }
}

fn lines_of(entries: &[(usize, String)], is_hit: impl Fn(&str) -> bool, sign: &str) -> Vec<String> {
    let hits = entries.iter().filter(|(_, text)| is_hit(text));
    hits.map(|(line, _)| format!("{line}: {sign}")).collect()
}

/// A number in lower case, without underscores, leading zeros and type suffix.
fn normalized_number(word: &str) -> Option<String> {
    let digits = word.replace('_', "").to_lowercase();
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let types = ["u8", "u16", "u32", "u64", "u128", "usize", "i32", "i64", "i128"];
    let digits = types.iter().find_map(|suffix| digits.strip_suffix(suffix)).unwrap_or(&digits);
    Some(match digits.strip_prefix("0x") {
        Some(hex) => format!("0x{}", hex.trim_start_matches('0')),
        None => digits.trim_start_matches('0').to_owned(),
    })
}

fn is_test_code(path: &Path) -> bool {
    let is_test = |name: &str| name == "tests" || name.ends_with("tests.rs") || name.starts_with("test_");
    path.starts_with("crates/testkit")
        || path.components().any(|part| part.as_os_str().to_str().is_some_and(is_test))
}
