use proptest::prelude::*;

use super::buffers::{Buffers, Drained};
use super::ring::{Header, Missing};
use super::*;
use rustix::param::page_size;
use sakiyomi_testing::{Scratch, skipped, wait_until};

const PAGES: &str = "name: mm_filemap_get_pages
ID: 599
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:unsigned long i_ino;\toffset:8;\tsize:8;\tsigned:0;
\tfield:dev_t s_dev;\toffset:16;\tsize:4;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long last_index;\toffset:32;\tsize:8;\tsigned:0;

print fmt: \"dev=%d:%d ino=%lx\", ((unsigned int) ((REC->s_dev) >> 20)), REC->i_ino
";

const LAYOUT: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

/// An item of a page.
#[derive(Clone, Debug)]
enum Item {
    Record { delta: u32, words: Vec<u32>, long: bool },
    Extended(u64),
    Stamp(u64),
    Discarded { delta: u32, words: usize },
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let delta = 1..1u32 << 27;
    let item = prop_oneof![
        4 => (delta.clone(), prop::collection::vec(any::<u32>(), 1..28), any::<bool>())
            .prop_map(|(delta, words, long)| Item::Record { delta, words, long }),
        1 => (1..1u64 << 40).prop_map(Item::Extended),
        1 => (1..1u64 << 59).prop_map(Item::Stamp),
        1 => (delta, 0..8usize).prop_map(|(delta, words)| Item::Discarded { delta, words }),
    ];
    prop::collection::vec(item, 0..30)
}

fn word(kind: u32, delta: u64) -> [u8; 4] {
    let delta = (delta & ((1 << 27) - 1)) as u32;
    let word = if cfg!(target_endian = "little") { kind | delta << 5 } else { kind << 27 | delta };
    word.to_ne_bytes()
}

/// Returns a page as the kernel writes it, and the records with their times.
fn page(begun: u64, items: &[Item], lost: bool) -> (Vec<u8>, Vec<(u64, Vec<u8>)>) {
    let (mut data, mut records, mut time) = (Vec::new(), Vec::new(), begun);
    for item in items {
        match item {
            Item::Record { delta, words, long } => {
                time += u64::from(*delta);
                let record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                if *long {
                    data.extend(word(0, u64::from(*delta)));
                    data.extend((record.len() as u32 + 4).to_ne_bytes());
                } else {
                    data.extend(word(words.len() as u32, u64::from(*delta)));
                }
                data.extend(&record);
                records.push((time, record));
            }
            Item::Extended(by) => {
                time += by;
                data.extend(word(30, *by));
                data.extend(((by >> 27) as u32).to_ne_bytes());
            }
            Item::Stamp(at) => {
                time = *at;
                data.extend(word(31, *at));
                data.extend(((at >> 27) as u32).to_ne_bytes());
            }
            Item::Discarded { delta, words } => {
                time += u64::from(*delta);
                data.extend(word(29, u64::from(*delta)));
                data.extend((*words as u32 * 4 + 4).to_ne_bytes());
                data.extend(vec![0xa5; words * 4]);
            }
        }
    }
    let commit = data.len() as u64 | if lost { 1 << 31 } else { 0 };
    let mut page: Vec<u8> = begun.to_ne_bytes().into();
    page.extend(commit.to_ne_bytes());
    page.extend(data);
    (page, records)
}

fn header() -> Header {
    Header::parse(LAYOUT).unwrap()
}

proptest! {
    #[test]
    fn a_page_gives_the_records_that_were_written_with_their_times(
        begun in 0..1u64 << 50, items in items(), lost: bool, rest in 0..64usize,
    ) {
        let (mut page, expected) = page(begun, &items, lost);
        // Bytes after the last record must be ignored.
        page.resize(page.len() + rest, 0xff);
        let mut found = Vec::new();
        let said = header().records(&page, |time, record| found.push((time, record.to_vec())));
        prop_assert_eq!((found, said), (expected, Missing { before: lost, after: false }));
    }

    #[test]
    fn a_torn_page_gives_the_records_before_the_tear_and_says_so(items in items(), keep: prop::sample::Index) {
        let (whole, expected) = page(7, &items, false);
        let keep = keep.index(whole.len());
        let mut found = Vec::new();
        let missing = header().records(&whole[..keep], |time, record| found.push((time, record.to_vec())));
        prop_assert!(missing.after);
        prop_assert!(expected.starts_with(&found));
    }

    #[test]
    fn no_bytes_are_too_strange(mut bytes in prop::collection::vec(any::<u8>(), 0..400), short: bool) {
        // A length that ends within the page.
        if short && bytes.len() > 16 {
            bytes[8..16].copy_from_slice(&300u64.to_ne_bytes());
        }
        let format = Format::parse(PAGES).unwrap();
        header().records(&bytes, |time, record| {
            let _ = format.touch(Kind::Read, time, record);
        });
        let text = String::from_utf8_lossy(&bytes);
        Format::parse(&text);
        Header::parse(&text);
    }
}

#[test]
fn the_times_between_which_records_are_missing_are_told() {
    let scratch = Scratch::new("tracefs_lost");
    let record = |delta| Item::Record { delta, words: vec![1], long: false };
    let append = |name: &str, pages: &[(u64, bool)]| {
        let mut file = File::options().create(true).append(true).open(scratch.path(name)).unwrap();
        for &(begun, lost) in pages {
            let (mut bytes, _) = page(begun, &[record(1), record(9)], lost);
            bytes.resize(4096, 0xff);
            file.write_all(&bytes).unwrap();
        }
    };
    append("lossy", &[(100, false), (500, true)]);
    append("whole", &[(300, false)]);
    let open = |name| File::open(scratch.path(name)).unwrap();
    let mut buffers = Buffers::of_files(header(), vec![open("lossy"), open("whole")]);
    let mut times = Vec::new();
    let mut drained = || {
        times.clear();
        let drained = buffers.drain(|time, _| times.push(time));
        (times.clone(), drained.lost)
    };
    assert_eq!(drained(), (vec![101, 110, 501, 510, 301, 310], Some(110..501)));
    assert_eq!(drained(), (vec![], None));
    // A page that ends within a record: what follows it is missing until the next one.
    let (bytes, _) = page(600, &[record(1), record(9)], false);
    let mut file = File::options().append(true).open(scratch.path("whole")).unwrap();
    file.write_all(&bytes[..bytes.len() - 2]).unwrap();
    assert_eq!(drained(), (vec![601], Some(601..u64::MAX)));
    assert_eq!(drained(), (vec![], Some(601..u64::MAX)));
    append("lossy", &[(700, true)]);
    append("whole", &[(800, true)]);
    assert_eq!(drained(), (vec![701, 710, 801, 810], Some(510..801)));
    assert_eq!(buffers.drain(|_, _| {}), Drained::default());
}

#[test]
fn a_record_is_read_by_what_the_system_says_of_it() {
    let format = Format::parse(PAGES).unwrap();
    let mut record = vec![0; 40];
    record[0..2].copy_from_slice(&599u16.to_ne_bytes());
    record[4..8].copy_from_slice(&4711u32.to_ne_bytes());
    record[8..16].copy_from_slice(&77u64.to_ne_bytes());
    record[16..20].copy_from_slice(&(254u32 << 20 | 3).to_ne_bytes());
    record[24..32].copy_from_slice(&16u64.to_ne_bytes());
    record[32..40].copy_from_slice(&31u64.to_ne_bytes());
    let page = page_size() as u64;
    let expected = Touch {
        time: 5,
        thread: 4711,
        device: makedev(254, 3),
        inode: 77,
        range: 16 * page..32 * page,
        kind: Kind::Read,
    };
    assert_eq!(format.touch(Kind::Read, 5, &record), Some(expected));
    assert_eq!(format.touch(Kind::Read, 5, &record[..39]), None, "cut short");
    record[0] ^= 1;
    assert_eq!(format.touch(Kind::Read, 5, &record), None, "another event");
    assert_eq!(Format::parse("ID: 5\nformat:\n"), None);
    assert_eq!(header().page, 4096);
}

/// Type of a tmpfs (`linux/magic.h`).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

#[test]
fn reads_and_mappings_of_named_threads_are_told_and_nothing_is_left() {
    if let Err(why) = check() {
        return skipped("reads_and_mappings", why);
    }
    let scratch = Scratch::new("tracefs");
    if rustix::fs::statfs(scratch.root()).unwrap().f_type == TMPFS_MAGIC {
        return skipped("reads_and_mappings", "files in a tmpfs are read without these events");
    }
    let _alone = alone();
    let mut instance = Instance::create().unwrap();
    assert_eq!(own_instances(), 1);
    let page = page_size() as u64;
    fs::write(scratch.path("file"), vec![1; 64 * page as usize]).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(scratch.path("file")).unwrap());
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    instance.follow(&[thread]).unwrap();
    instance.switch(true).unwrap();
    let touch = || {
        let file = File::open(scratch.path("file")).unwrap();
        let mut bytes = vec![0; 2 * page as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 8 * page).unwrap();
    };
    touch();
    let stranger = std::process::Command::new("cat").arg(scratch.path("file")).output();
    // Children of a followed thread are followed, so the accesses of `cat` are recorded too.
    assert!(stranger.unwrap().status.success());
    instance.switch(false).unwrap();
    touch();
    let mut touches = Vec::new();
    let taken = instance.take(&mut touches);
    touches.retain(|touch| touch.inode == inode);
    let own: Vec<&Touch> = touches.iter().filter(|touch| touch.thread == thread).collect();
    assert_eq!(own.len(), 1, "{taken:?} {own:?}");
    assert_eq!((own[0].range.clone(), own[0].kind), (8 * page..10 * page, Kind::Read));
    assert!(touches.iter().any(|touch| touch.thread != thread), "a child is told as well");
    assert_eq!(instance.take(&mut touches), DrainOutcome::default(), "nothing while it is off");
    drop(instance);
    soon_gone();
}

#[test]
fn one_can_be_made_while_the_one_before_is_being_removed() {
    if let Err(why) = check() {
        return skipped("one_can_be_made_while", why);
    }
    let _alone = alone();
    for _ in 0..3 {
        drop(Instance::create().unwrap());
    }
    soon_gone();
}

#[test]
fn what_a_process_that_is_gone_has_left_is_removed_by_the_next() {
    let tree = match find() {
        Ok(tree) => tree,
        Err(why) => return skipped("what_a_process_that_is_gone", why),
    };
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let left = CString::new(format!("{PREFIX}{}-0", gone.id())).unwrap();
    let instances = tree.directory("instances").unwrap();
    rustix::fs::mkdirat(&instances, &left, rustix::fs::Mode::RWXU).unwrap();
    let _alone = alone();
    drop(Instance::create().unwrap());
    wait_until("the instance is left", || !tree.instances().contains(&left));
}

/// The owner of an instance holds no other descriptor of its parent, and leaves the parent's directory.
#[test]
fn an_instances_owner_holds_nothing_but_tracefs_and_ends_with_it() {
    if let Err(why) = check() {
        return skipped("an_instances_owner", why);
    }
    let _alone = alone();
    let scratch = Scratch::new("tracefs_owner");
    let held = File::create(scratch.path("held")).unwrap();
    let instance = Instance::create().unwrap();
    for owner in owners() {
        let open = fs::read_dir(format!("/proc/{owner}/fd")).unwrap().flatten();
        let open: Vec<_> = open.map(|file| fs::read_link(file.path()).unwrap_or_default()).collect();
        assert!(!open.contains(&scratch.path("held")), "{open:?}");
        assert_eq!(fs::read_link(format!("/proc/{owner}/cwd")).unwrap(), Path::new("/"));
    }
    assert_ne!(owners(), Vec::<u32>::new());
    drop((instance, held));
    wait_until("an owner is left", || owners().is_empty());
}

/// Returns the processes that own instances.
pub(super) fn owners() -> Vec<u32> {
    let all = crate::process::all().unwrap();
    let exe = |number: u32| fs::read_link(format!("/proc/{number}/exe")).ok();
    // Other processes of this program are children before their exec, or other tests.
    let session = |number: u32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(3)?.parse::<u32>().ok())
    };
    let own = std::process::id();
    let is_own = |number: &u32| exe(*number) == exe(own) && session(*number) != session(own);
    all.into_iter().filter(is_own).collect()
}

/// Serializes the tests: this process's instances are counted.
pub(super) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn soon_gone() {
    wait_until("an own instance is left", || own_instances() == 0);
}
