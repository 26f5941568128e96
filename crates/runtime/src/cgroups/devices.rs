//! Which devices a container may use.

/// Allows access to some devices. Everything that no rule allows is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRule {
    pub kind: DeviceType,
    /// None means every number.
    pub major: Option<u32>,
    pub minor: Option<u32>,
    pub access: DeviceAccess,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceType {
    Any,
    Character,
    Block,
}

/// Bits as in the kernel's device programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess(u8);

impl DeviceAccess {
    const MAKE: u8 = 1;
    const READ: u8 = 2;
    const WRITE: u8 = 4;
    pub const ALL: Self = Self(Self::MAKE | Self::READ | Self::WRITE);

    /// From letters like `rwm`; none if there is another letter, or none at all.
    #[must_use]
    pub fn parse(letters: &str) -> Option<Self> {
        let mut bits = 0;
        for letter in letters.chars() {
            bits |= match letter {
                'm' => Self::MAKE,
                'r' => Self::READ,
                'w' => Self::WRITE,
                _ => return None,
            };
        }
        (bits != 0).then_some(Self(bits))
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    fn letters(self) -> String {
        let letters = [(Self::READ, 'r'), (Self::WRITE, 'w'), (Self::MAKE, 'm')];
        letters.iter().filter(|(bit, _)| self.0 & bit != 0).map(|(_, letter)| letter).collect()
    }
}

/// Rules that every container has: the standard devices, terminals, `/dev/net/tun`, and making nodes without using them.
#[must_use]
pub fn default_device_rules() -> Vec<DeviceRule> {
    const STANDARD: &[(u32, Option<u32>)] = &[
        (1, Some(3)),
        (1, Some(5)),
        (1, Some(7)),
        (1, Some(8)),
        (1, Some(9)),
        (5, Some(0)),
        (5, Some(2)),
        (136, None),
        (10, Some(200)),
    ];
    let make = DeviceAccess(DeviceAccess::MAKE);
    let any = |kind| DeviceRule { kind, major: None, minor: None, access: make };
    let character = |(major, minor): &(u32, Option<u32>)| DeviceRule {
        kind: DeviceType::Character,
        major: Some(*major),
        minor: *minor,
        access: DeviceAccess::ALL,
    };
    let mut rules = vec![any(DeviceType::Character), any(DeviceType::Block)];
    rules.extend(STANDARD.iter().map(character));
    rules
}

impl DeviceRule {
    /// Lines for `devices.allow` of cgroup v1. Numbers of an unknown kind need one line per kind.
    pub(super) fn v1_lines(&self) -> Vec<String> {
        let number = |number: Option<u32>| number.map_or_else(|| "*".to_owned(), |number| number.to_string());
        let kinds: &[char] = match self.kind {
            DeviceType::Any => &['c', 'b'],
            DeviceType::Character => &['c'],
            DeviceType::Block => &['b'],
        };
        let line = |kind: &char| {
            format!("{kind} {}:{} {}", number(self.major), number(self.minor), self.access.letters())
        };
        kinds.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_rules_equal_those_of_other_runtimes() {
        let lines: Vec<String> = default_device_rules().iter().flat_map(DeviceRule::v1_lines).collect();
        assert_eq!(
            lines,
            [
                "c *:* m",
                "b *:* m",
                "c 1:3 rwm",
                "c 1:5 rwm",
                "c 1:7 rwm",
                "c 1:8 rwm",
                "c 1:9 rwm",
                "c 5:0 rwm",
                "c 5:2 rwm",
                "c 136:* rwm",
                "c 10:200 rwm"
            ]
        );
    }

    #[test]
    fn access_is_read_strictly() {
        assert_eq!(DeviceAccess::parse("mrw"), Some(DeviceAccess::ALL));
        assert_eq!(DeviceAccess::parse("r").unwrap().letters(), "r");
        assert_eq!(DeviceAccess::parse("rx"), None);
        assert_eq!(DeviceAccess::parse(""), None);
    }
}
