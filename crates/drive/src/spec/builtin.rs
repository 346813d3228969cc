//! Built-in drives.

use sakiyomi_model::suggest::similar;

use super::{DriveSpec, SpecError};

/// A built-in drive, as commented TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Name on the command line.
    pub id: &'static str,
    /// The file's text, with the source of every parameter.
    pub toml: &'static str,
}

impl Builtin {
    /// Returns the parsed drive.
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

/// All built-in drives, oldest first.
pub const BUILTIN: &[Builtin] = drives![
    "deskstar-7k250",
    "spinpoint-hd160jj",
    "scorpio-wd1200bevs",
    "deskstar-p7k500",
    "scorpio-wd10tpvx",
    "archive-st5000as0011",
    "barracuda-st2000dm006",
    "nearline-18tb",
];

/// Returns the built-in drive called `id`.
///
/// # Errors
/// [`SpecError::UnknownDrive`] if there is none.
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
