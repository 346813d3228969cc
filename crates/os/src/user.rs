//! Users of this machine.

/// Returns the number of a user, by the local table of users (`/etc/passwd`); `None` if it has no such name.
#[must_use]
pub fn number(name: &str) -> Option<u32> {
    number_in(&std::fs::read_to_string("/etc/passwd").ok()?, name)
}

fn number_in(table: &str, name: &str) -> Option<u32> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name() {
        let table = "root:x:0:0:root:/root:/bin/sh\n+::::::\nalice:x:1000:1000::/home/alice:/bin/sh\n";
        assert_eq!(
            ["root", "alice", "x", ""].map(|name| number_in(table, name)),
            [Some(0), Some(1000), None, None]
        );
    }
}
