//! Profiles in the user's cache directory, one readable JSON file each.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sakiyomi_io::AtomicFile;
use sakiyomi_os::rights;

use super::{PROFILE_SCHEMA, Profile};

/// Largest file that is loaded, in bytes.
const FILE_MAX_BYTES: u64 = 64 << 20;

/// The directory of saved profiles.
#[derive(Clone, Debug)]
pub struct ProfileStore {
    directory: PathBuf,
}

/// A saved profile.
#[derive(Debug)]
pub struct Saved {
    /// Its name: the file's without the extension.
    pub name: String,
    /// The profile, or why it cannot be loaded.
    pub profile: io::Result<Profile>,
}

impl ProfileStore {
    /// The store of this user: `$XDG_CACHE_HOME/sakiyomi/profiles`, or the same below `~/.cache`. `None` if neither
    /// variable is set to an absolute path.
    #[must_use]
    pub fn of_user() -> Option<ProfileStore> {
        let from = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = from("XDG_CACHE_HOME").or_else(|| Some(from("HOME")?.join(".cache")))?;
        Some(ProfileStore::at(cache.join("sakiyomi/profiles")))
    }

    /// A store in a directory, which need not exist.
    #[must_use]
    pub fn at(directory: PathBuf) -> ProfileStore {
        ProfileStore { directory }
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the file of the profile with this name.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }

    /// Loads the profile of a command in a working directory; an empty one if there is none, or if it cannot be used.
    #[must_use]
    pub fn of_command(&self, command: &[String], directory: &Path) -> Profile {
        let found = load(&self.path(&name_of(command, directory)));
        let is_it = |profile: &Profile| profile.command == command && profile.directory == directory;
        found.ok().filter(is_it).unwrap_or_else(|| Profile::new(command.to_vec(), directory.to_owned()))
    }

    /// Saves a profile, replacing the previous one of its command. The directory is created for its user only.
    ///
    /// # Errors
    /// If the directory or the file cannot be written.
    pub fn save(&self, profile: &Profile) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let path = self.path(&name_of(&profile.command, &profile.directory));
        write(profile, &path)
    }

    /// Returns all saved profiles in order of their names.
    #[must_use]
    pub fn all(&self) -> Vec<Saved> {
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let name = |path: &Path| Some(path.file_stem()?.to_str()?.to_owned());
        let mut all: Vec<Saved> =
            files.filter_map(|path| Some(Saved { name: name(&path)?, profile: load(&path) })).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Deletes the profile with this name.
    ///
    /// # Errors
    /// If there is none, or if it cannot be deleted.
    pub fn forget(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }
}

/// Writes a profile to a file that appears when it is whole.
///
/// # Errors
/// If it cannot be written.
pub fn write(profile: &Profile, path: &Path) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    let text = serde_json::to_vec_pretty(profile)?;
    file.write_all(&text)?;
    file.write_all(b"\n")?;
    file.commit()
}

/// Loads a profile. A file of another user is refused, because its paths would be opened with the rights of this one.
///
/// # Errors
/// If the file cannot be read, belongs to another user, or is not a profile of this schema version.
pub fn load(path: &Path) -> io::Result<Profile> {
    let about = fs::metadata(path)?;
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if about.uid() != rights::user() {
        return Err(invalid("the file belongs to another user".to_owned()));
    }
    if about.len() > FILE_MAX_BYTES {
        return Err(invalid("the file is larger than a profile can be".to_owned()));
    }
    let profile: Profile = serde_json::from_slice(&fs::read(path)?)
        .map_err(|error| invalid(format!("it is not a profile: {error}")))?;
    if profile.schema != PROFILE_SCHEMA {
        return Err(invalid(format!(
            "its schema is {}, and this version reads {PROFILE_SCHEMA}",
            profile.schema
        )));
    }
    Ok(profile)
}

/// Returns the name of the profile of a command: the program's name and a hash (FNV-1a) of its words and directory.
#[must_use]
pub fn name_of(command: &[String], directory: &Path) -> String {
    /// The offset basis of FNV-1a.
    const HASH_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    /// The prime of FNV-1a.
    const HASH_PRIME: u64 = 0x0100_0000_01b3;
    let words = command.iter().map(String::as_bytes).chain([directory.as_os_str().as_encoded_bytes()]);
    let bytes = words.flat_map(|word| word.iter().copied().chain([0]));
    let hash = bytes.fold(HASH_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(HASH_PRIME));
    let program = command.first().map_or("", |word| word.rsplit('/').next().unwrap_or(""));
    let is_safe = |c: &char| c.is_ascii_alphanumeric() || "._+-".contains(*c);
    let program: String = program.chars().filter(is_safe).take(32).collect();
    format!("{}-{hash:016x}", program.trim_start_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::Scratch;

    #[test]
    fn a_profile_is_found_by_its_command_and_directory_only() {
        let scratch = Scratch::new("profile_store");
        let store = ProfileStore::at(scratch.path("cache/profiles"));
        assert!(store.all().is_empty());
        let command = vec!["/usr/bin/python3".to_owned(), "-c".to_owned(), "import pandas".to_owned()];
        let mut profile = store.of_command(&command, Path::new("/work"));
        assert_eq!((profile.runs, profile.entries.len()), (0, 0));
        profile.merge(Vec::new());
        store.save(&profile).unwrap();
        assert_eq!(store.of_command(&command, Path::new("/work")), profile);
        assert_eq!(store.of_command(&command, Path::new("/other")).runs, 0);
        assert_eq!(store.of_command(&command[..2], Path::new("/work")).runs, 0);
        let name = name_of(&command, Path::new("/work"));
        assert!(name.starts_with("python3-"), "{name}");
        assert_eq!(store.all().iter().map(|saved| &saved.name).collect::<Vec<_>>(), [&name]);
        // Anything else in its place is not used.
        fs::write(store.path(&name), "{}").unwrap();
        assert!(store.all()[0].profile.is_err());
        assert_eq!(store.of_command(&command, Path::new("/work")).runs, 0);
        store.forget(&name).unwrap();
        assert!(store.forget(&name).is_err());
    }

    #[test]
    fn strange_commands_have_names_that_are_files_of_the_directory() {
        for word in ["", "..", "../../x", "a/b\0c", "日本"] {
            let name = name_of(&[word.to_owned()], Path::new("/"));
            assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
        }
    }
}
