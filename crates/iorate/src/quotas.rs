//! How large the rates may be that a user, or the processes of a control group, have at a time.
//!
//! ```toml
//! [users]               # percent of a device, for all rates together that the user has set on a mount
//! default = 20          # all other users except root
//! alice = 50
//! 1002 = 0              # none
//!
//! [groups]              # for all rates of processes in the group and below it, and of these groups
//! "/batch" = 30
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;

/// Limits of rates, in percent of a device. Users and groups without an entry are not limited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    default: Option<u32>,
    users: BTreeMap<u32, u32>,
    groups: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    users: BTreeMap<String, u32>,
    #[serde(default)]
    groups: BTreeMap<String, u32>,
}

/// Name of the entry for users without one.
const DEFAULT_USER: &str = "default";

impl Quotas {
    /// Parses the text of a file; `number` returns the number of a user by name.
    ///
    /// # Errors
    /// A sentence for the user of the file.
    pub fn parse(text: &str, number: impl Fn(&str) -> Option<u32>) -> Result<Quotas, String> {
        let File { mut users, groups } =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let all = users.iter().chain(&groups);
        if let Some((name, percent)) = all.clone().find(|(_, percent)| **percent > 100) {
            return Err(format!("{name} = {percent}: a quota is 0 to 100 percent of a device"));
        }
        if let Some(path) = groups.keys().find(|path| !path.starts_with('/')) {
            return Err(format!(
                "{path}: give the name of a control group as in /proc/PID/cgroup, such as /batch"
            ));
        }
        let default = users.remove(DEFAULT_USER);
        let mut by_number = BTreeMap::new();
        for (name, percent) in users {
            let Some(user) = name.parse().ok().or_else(|| number(&name)) else {
                return Err(format!("there is no user {name} in /etc/passwd; give the number"));
            };
            if by_number.insert(user, percent).is_some() {
                return Err(format!("user {name} has two quotas; remove one"));
            }
        }
        Ok(Quotas { default, users: by_number, groups })
    }

    /// Returns the largest sum of the rates that a user may have set, in percent; `None` without a limit.
    #[must_use]
    pub fn of_user(&self, user: u32) -> Option<u32> {
        if user == 0 { None } else { self.users.get(&user).copied().or(self.default) }
    }

    /// Returns the groups with a limit, and these in percent.
    pub fn groups(&self) -> impl Iterator<Item = (&str, u32)> {
        self.groups.iter().map(|(path, percent)| (path.as_str(), *percent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Quotas, String> {
        Quotas::parse(text, |name| (name == "alice").then_some(1000))
    }

    #[test]
    fn users_have_their_own_limit_or_that_of_all_and_root_has_none() {
        let quotas = parsed("[users]\ndefault = 20\nalice = 50\n1002 = 0\n[groups]\n'/batch' = 30").unwrap();
        assert_eq!([1000, 1002, 1003].map(|user| quotas.of_user(user)), [Some(50), Some(0), Some(20)]);
        assert_eq!(quotas.of_user(0), None);
        assert_eq!(quotas.groups().collect::<Vec<_>>(), [("/batch", 30)]);
        assert_eq!(parsed("").unwrap(), Quotas::default());
        assert_eq!(Quotas::default().of_user(7), None);
    }

    #[test]
    fn what_is_no_quota_is_refused_in_a_sentence() {
        for (text, sentence) in [
            ("[users]\nbob = 5", "there is no user bob in /etc/passwd; give the number"),
            ("[users]\nalice = 101", "alice = 101: a quota is 0 to 100 percent of a device"),
            ("[users]\nalice = 1\n1000 = 2", "user alice has two quotas; remove one"),
            ("[groups]\nbatch = 5", "batch: give the name of a control group"),
            ("[user]\nalice = 5", "unknown field `user`"),
            ("[users]\nalice = 'all'", "invalid type"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(sentence), "{error}");
        }
    }
}
