pub(crate) const KEYS: &[&str] = &[];
