//! `/logs`: queries of the node's logs, and the listing of folders.

use jiff::Timestamp;

const MAX_LINES: i64 = 100_000;
const MAX_SERVICES: usize = 4;
const MAX_SERVICE_NAME_LENGTH: usize = 256;

/// A parsed, but not yet validated query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLogQuery {
    services: Vec<String>,
    files: Vec<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    tail: Option<i64>,
    boot: Option<i64>,
    pattern: String,
}

/// The target of a valid query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    Services(Vec<String>),
    /// A file below the log folder.
    File(String),
}

impl NodeLogQuery {
    /// Parses a decoded query; `None` when it has none of these parameters.
    ///
    /// # Errors
    /// A message for status 400.
    pub fn read(query: &[(String, String)]) -> Result<Option<Self>, String> {
        let get = |name: &str| {
            let found = query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            found.filter(|value| !value.is_empty())
        };
        let queries: Vec<&str> =
            query.iter().filter(|(key, _)| key == "query").map(|(_, value)| value.as_str()).collect();
        let named = queries.iter().filter(|text| !text.trim().is_empty()).map(|text| (*text).to_owned());
        let (files, services): (Vec<String>, Vec<String>) =
            named.partition(|text| text.contains(['/', '\\']));
        if !queries.is_empty() && files.is_empty() && services.is_empty() {
            return Err(format!("query: Invalid value: {queries:?}: may not be empty"));
        }
        let time = |name: &str| {
            let text = get(name);
            let wrong =
                |_| format!("{name}: Invalid value: {:?}: invalid time format", text.unwrap_or_default());
            text.map(|text| text.parse::<Timestamp>().map_err(wrong)).transpose()
        };
        let number = |name: &str| {
            let text = get(name);
            let wrong = |error| format!("{name}: Invalid value: {:?}: {error}", text.unwrap_or_default());
            text.map(|text| text.parse::<i64>().map_err(wrong)).transpose()
        };
        let found = Self {
            services,
            files,
            since: time("sinceTime")?,
            until: time("untilTime")?,
            tail: number("tailLines")?,
            boot: number("boot")?,
            pattern: get("pattern").unwrap_or_default().to_owned(),
        };
        Ok((found != Self::default()).then_some(found))
    }

    /// Validates the query.
    ///
    /// # Errors
    /// A message for status 406.
    pub fn target(&self) -> Result<LogTarget, String> {
        for service in &self.services {
            check_service(service)?;
        }
        if self.services.len() > MAX_SERVICES {
            return Err(format!(
                "query: Too many: {}: must have at most {MAX_SERVICES} items",
                self.services.len()
            ));
        }
        let target = match (self.files.as_slice(), self.services.as_slice()) {
            ([], []) => return Err("query: Required value: cannot be empty with options".to_owned()),
            ([], services) => LogTarget::Services(services.to_vec()),
            ([_, ..], [_, ..]) => {
                return Err("query: Invalid value: cannot specify a file and service".to_owned());
            }
            ([_, _, ..], []) => {
                return Err("query: Invalid value: cannot specify more than one file".to_owned());
            }
            ([_], []) if self.has_options() => {
                return Err("query: Invalid value: cannot specify file with options".to_owned());
            }
            // Clients on Windows send backslashes.
            ([file], []) => LogTarget::File(file.replace('\\', "/")),
        };
        if self.since.zip(self.until).is_some_and(|(since, until)| since > until) {
            return Err("untilTime: Invalid value: must be after `sinceTime`".to_owned());
        }
        if let Some(boot) = self.boot.filter(|boot| *boot > 0) {
            return Err(format!("boot: Invalid value: {boot}: must be less than 1"));
        }
        if let Some(tail) = self.tail.filter(|tail| !(0..=MAX_LINES).contains(tail)) {
            return Err(format!(
                "tailLines: Invalid value: {tail}: must be between 0 and {MAX_LINES}, inclusive"
            ));
        }
        match regex_syntax::parse(&self.pattern) {
            Ok(_) => Ok(target),
            Err(error) => Err(format!("pattern: Invalid value: {:?}: {error}", self.pattern)),
        }
    }

    /// Whether it selects a part of a log.
    pub fn has_options(&self) -> bool {
        let only_query =
            Self { services: self.services.clone(), files: self.files.clone(), ..Self::default() };
        *self != only_query
    }

    /// The arguments of journalctl.
    pub fn journal_arguments(&self, services: &[String]) -> Vec<String> {
        let mut all: Vec<String> =
            ["--utc", "--no-pager", "--output=short-precise"].map(str::to_owned).into();
        let time = |time: Timestamp| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        all.extend(self.since.map(|since| format!("--since={}", time(since))));
        all.extend(self.until.map(|until| format!("--until={}", time(until))));
        if let Some(tail) = self.tail {
            all.extend(["--pager-end".to_owned(), format!("--lines={tail}")]);
        }
        all.extend(services.iter().map(|service| format!("--unit={service}")));
        if !self.pattern.is_empty() {
            all.push(format!("--grep={}", self.pattern));
        }
        if let Some(boot) = self.boot {
            all.extend(["--boot".to_owned(), boot.to_string()]);
        }
        all
    }
}

/// Splits services into those with a unit in the journal and the others, which may have files.
pub fn split_by_journal(services: &[String], units: &str) -> (Vec<String>, Vec<String>) {
    let known = |service: &&String| units.contains(&format!("{service}.service"));
    let (journal, files): (Vec<&String>, Vec<&String>) = services.iter().partition(known);
    (journal.into_iter().cloned().collect(), files.into_iter().cloned().collect())
}

/// Possible log files of a service without a unit, in order of preference.
pub fn likely_files(service: &str) -> [String; 3] {
    [service.to_owned(), format!("{service}.log"), format!("{service}/{service}.log")]
}

fn check_service(service: &str) -> Result<(), String> {
    let problem = if service.len() > MAX_SERVICE_NAME_LENGTH {
        "length must be less than 256"
    } else if !service.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte)) {
        "input contains unsupported characters"
    } else {
        return Ok(());
    };
    Err(format!("query: Invalid value: {service:?}: {problem}"))
}

/// The HTML page of a folder. Names of subfolders end with a slash.
pub fn folder_page(names: &[String]) -> String {
    let mut page =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n".to_owned();
    for name in names {
        page += &format!("<a href=\"{}\">{}</a>\n", link(name), text(name));
    }
    page + "</pre>\n"
}

fn link(name: &str) -> String {
    // A colon in the first segment of a relative link would be parsed as a scheme.
    let prefix = if name.contains(':') { "./" } else { "" };
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+:=@/".contains(&byte);
    let escaped: String = name
        .bytes()
        .map(|byte| if safe(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    text(&format!("{prefix}{escaped}"))
}

fn text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;")
}

#[cfg(test)]
mod tests;
