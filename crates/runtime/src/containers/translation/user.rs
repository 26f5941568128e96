//! The user of a container: ids and groups from the request, and from the image's `/etc/passwd` and `/etc/group`.

use std::collections::BTreeSet;

use cri::v1::{LinuxContainerSecurityContext, SupplementalGroupsPolicy};

use crate::errors::ServiceError;
use crate::launcher::User;

/// Ids above are no users on Linux; a larger number must not become a smaller one.
const MAX_ID: i64 = 0x7fff_ffff;

/// The text of the image's files; empty if a file is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UserFiles {
    pub(crate) passwd: String,
    pub(crate) group: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedUser {
    pub(crate) user: User,
    /// The user's folder, if the image names one.
    pub(crate) home: Option<String>,
}

struct PasswdEntry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

/// Finds the user of a container. `image_user` is the image's own choice.
pub(crate) fn resolve(
    security: &LinuxContainerSecurityContext,
    image_user: &str,
    files: &UserFiles,
) -> Result<ResolvedUser, ServiceError> {
    let requested = match (&security.run_as_user, security.run_as_username.as_str()) {
        (Some(uid), "") => Some((id("run_as_user", uid.value)?.to_string(), "run_as_user")),
        (_, "") => None,
        (_, name) => Some((name.to_owned(), "run_as_username")),
    };
    let group = security.run_as_group.as_ref().map(|gid| id("run_as_group", gid.value)).transpose()?;
    if group.is_some() && requested.is_none() {
        return Err(ServiceError::setting("run_as_group", "it needs run_as_user or run_as_username"));
    }
    let (text, field) = requested.unwrap_or_else(|| (image_user.trim().to_owned(), "user of the image"));
    let (user, named_group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text.as_str(), None),
    };
    let entry = find_user(user, &files.passwd);
    let uid = match (number(user), &entry) {
        (Some(uid), _) => uid.map_err(|problem| ServiceError::setting(field, problem))?,
        (None, _) if user.is_empty() => 0,
        (None, Some(entry)) => entry.uid,
        (None, None) => {
            return Err(ServiceError::setting(field, format!("the image has no user {user:?}")));
        }
    };
    let gid = match (group, named_group) {
        (Some(gid), _) => gid,
        (None, Some(name)) => {
            find_group(name, &files.group).map_err(|problem| ServiceError::setting(field, problem))?
        }
        (None, None) if user.is_empty() => 0,
        (None, None) => entry.as_ref().map_or(0, |entry| entry.gid),
    };
    let mut groups = BTreeSet::from([gid]);
    for gid in &security.supplemental_groups {
        groups.insert(id("supplemental_groups", *gid)?);
    }
    if policy(security)? == SupplementalGroupsPolicy::Merge {
        let name = entry.as_ref().map_or(user, |entry| entry.name);
        groups.extend(groups_of_member(name, &files.group));
    }
    let home = entry.map(|entry| entry.home.to_owned()).or_else(|| home_of(uid, &files.passwd));
    let home = home.filter(|home| home.starts_with('/'));
    Ok(ResolvedUser { user: User { uid, gid, groups: groups.into_iter().collect() }, home })
}

fn policy(security: &LinuxContainerSecurityContext) -> Result<SupplementalGroupsPolicy, ServiceError> {
    let value = security.supplemental_groups_policy;
    SupplementalGroupsPolicy::try_from(value)
        .map_err(|_| ServiceError::setting("supplemental_groups_policy", format!("unknown policy {value}")))
}

fn id(field: &'static str, value: i64) -> Result<u32, ServiceError> {
    let valid = u32::try_from(value).ok().filter(|_| value <= MAX_ID);
    valid.ok_or_else(|| ServiceError::setting(field, format!("{value} is not between 0 and {MAX_ID}")))
}

/// A name of digits is a number, also if it is too large for one.
fn number(text: &str) -> Option<Result<u32, String>> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value = text.parse::<i64>().ok().filter(|value| (0..=MAX_ID).contains(value));
    let value = value.and_then(|value| u32::try_from(value).ok());
    Some(value.ok_or_else(|| format!("{text} is not between 0 and {MAX_ID}")))
}

fn passwd_entries(passwd: &str) -> impl Iterator<Item = PasswdEntry<'_>> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
        let uid = number(fields.nth(1)?)?.ok()?;
        let gid = number(fields.next()?)?.ok()?;
        let home = fields.nth(1).unwrap_or_default();
        Some(PasswdEntry { name, uid, gid, home })
    })
}

/// The entry of a user by number or name.
fn find_user<'a>(user: &str, passwd: &'a str) -> Option<PasswdEntry<'a>> {
    match number(user) {
        Some(uid) => passwd_entries(passwd).find(|entry| Ok(entry.uid) == uid),
        None => passwd_entries(passwd).find(|entry| entry.name == user),
    }
}

fn home_of(uid: u32, passwd: &str) -> Option<String> {
    passwd_entries(passwd).find(|entry| entry.uid == uid).map(|entry| entry.home.to_owned())
}

fn group_entries(group: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    group.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
        let gid = number(fields.nth(1)?)?.ok()?;
        Some((name, gid, fields.next().unwrap_or_default()))
    })
}

fn find_group(name: &str, group: &str) -> Result<u32, String> {
    match number(name) {
        Some(gid) => gid,
        None if name.is_empty() => Ok(0),
        None => group_entries(group)
            .find_map(|(known, gid, _)| (known == name).then_some(gid))
            .ok_or_else(|| format!("the image has no group {name:?}")),
    }
}

fn groups_of_member(user: &str, group: &str) -> Vec<u32> {
    if user.is_empty() {
        return Vec::new();
    }
    let lists = |(_, gid, members): (&str, u32, &str)| {
        members.split(',').any(|member| member.trim() == user).then_some(gid)
    };
    group_entries(group).filter_map(lists).collect()
}

#[cfg(test)]
mod tests {
    use cri::v1::Int64Value;

    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n# comment\nbroken\n\
                          app:x:1000:1001:App:/home/app:/bin/sh\nbig:x:4294967296:0::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\napp:x:1001:\nlogs:x:50000:app,other\nwheel:x:10:root\n";

    fn files() -> UserFiles {
        UserFiles { passwd: PASSWD.to_owned(), group: GROUP.to_owned() }
    }

    fn request(user: Option<i64>, name: &str, group: Option<i64>) -> LinuxContainerSecurityContext {
        LinuxContainerSecurityContext {
            run_as_user: user.map(|value| Int64Value { value }),
            run_as_username: name.to_owned(),
            run_as_group: group.map(|value| Int64Value { value }),
            ..LinuxContainerSecurityContext::default()
        }
    }

    #[track_caller]
    fn check(security: &LinuxContainerSecurityContext, image: &str, expected: (u32, u32, &[u32])) {
        let resolved = resolve(security, image, &files()).unwrap();
        assert_eq!((resolved.user.uid, resolved.user.gid, resolved.user.groups.as_slice()), expected);
    }

    #[test]
    fn image_user_has_all_forms() {
        let none = request(None, "", None);
        check(&none, "", (0, 0, &[0]));
        check(&none, "app", (1000, 1001, &[1001, 50000]));
        check(&none, "1000", (1000, 1001, &[1001, 50000]));
        check(&none, "2000", (2000, 0, &[0]));
        check(&none, "2000:3000", (2000, 3000, &[3000]));
        check(&none, "app:logs", (1000, 50000, &[50000]));
        check(&none, "root", (0, 0, &[0, 10]));
    }

    #[test]
    fn request_replaces_the_user_of_the_image() {
        check(&request(Some(1000), "", None), "root", (1000, 1001, &[1001, 50000]));
        check(&request(Some(7), "app", None), "root", (1000, 1001, &[1001, 50000]));
        check(&request(Some(7), "", Some(8)), "app:logs", (7, 8, &[8]));
    }

    #[test]
    fn groups_follow_the_policy() {
        let merged = LinuxContainerSecurityContext {
            supplemental_groups: vec![1234, 5],
            ..request(Some(1000), "", None)
        };
        check(&merged, "", (1000, 1001, &[5, 1001, 1234, 50000]));
        let strict = LinuxContainerSecurityContext {
            supplemental_groups_policy: SupplementalGroupsPolicy::Strict.into(),
            ..merged
        };
        check(&strict, "", (1000, 1001, &[5, 1001, 1234]));
    }

    #[test]
    fn users_that_do_not_exist_or_overflow_are_refused() {
        let none = request(None, "", None);
        for image in ["nobody", "app:nogroup", "4294967296", "2147483648", "-1", "0:4294967296", "big"] {
            assert!(resolve(&none, image, &files()).is_err(), "{image}");
        }
        for security in [
            request(Some(-1), "", None),
            request(Some(1 << 31), "", None),
            request(None, "", Some(5)),
            request(Some(1), "", Some(1 << 32)),
        ] {
            assert!(resolve(&security, "", &files()).is_err(), "{security:?}");
        }
    }

    #[test]
    fn home_comes_from_the_image() {
        let home = |image: &str| resolve(&request(None, "", None), image, &files()).unwrap().home;
        assert_eq!(home("app").as_deref(), Some("/home/app"));
        assert_eq!(home("").as_deref(), Some("/root"));
        assert_eq!(home("77"), None);
    }
}
