//! The drives that come with sakiyomi.

use sakiyomi_model::suggest::similar;

use super::{DriveSpec, SpecError};

/// A drive that comes with sakiyomi, as its commented TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// The name on the command line.
    pub id: &'static str,
    /// The file, with the source of every figure.
    pub toml: &'static str,
}

impl Builtin {
    /// The drive.
    #[must_use]
    pub fn spec(&self) -> DriveSpec {
        DriveSpec::from_toml(self.toml, self.id).expect("a built-in drive is checked by the tests")
    }
}

macro_rules! drives {
    ($($id:literal),* $(,)?) => {
        &[$(Builtin { id: $id, toml: include_str!(concat!("../../drives/", $id, ".toml")) }),*]
    };
}

/// Every drive that comes with sakiyomi, oldest first.
pub const BUILTIN: &[Builtin] = drives![
    "deskstar-7k250",
    "spinpoint-hd160jj",
    "scorpio-wd1200bevs",
    "deskstar-p7k500",
    "scorpio-wd10tpvx",
    "barracuda-st2000dm006",
    "nearline-18tb",
];

/// The built-in drive called `id`.
///
/// # Errors
/// [`SpecError::UnknownDrive`].
pub fn builtin(id: &str) -> Result<Builtin, SpecError> {
    let found = BUILTIN.iter().find(|drive| drive.id == id);
    found.copied().ok_or_else(|| {
        let near = similar(id, BUILTIN.iter().map(|drive| drive.id));
        SpecError::UnknownDrive {
            name: id.to_owned(),
            similar: near.into_iter().map(str::to_owned).collect(),
        }
    })
}
