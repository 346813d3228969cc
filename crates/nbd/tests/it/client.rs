//! A small NBD client, written from the protocol's text alone.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sakiyomi_nbd::{Address, Options, Server, serve};
use sakiyomi_testing::Scratch;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const ZEROES: u16 = 6;
pub(crate) const STATUS: u16 = 7;

pub(crate) const FUA: u16 = 1;

/// Limit of every wait, so that a server that hangs fails the test.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// A server on a socket in a directory of its own.
pub(crate) struct Served {
    pub(crate) scratch: Scratch,
    pub(crate) server: Server,
}

/// Starts a server of a file `disk` of `size` zeros; `change` changes its options.
pub(crate) fn served(test: &str, size: u64, change: impl FnOnce(&Scratch, &mut Options)) -> Served {
    let scratch = Scratch::new(test);
    let mut options = Options::new(Address::Unix(scratch.path("socket")));
    if size > 0 {
        let disk = scratch.file("disk", "");
        std::fs::OpenOptions::new().write(true).open(&disk).unwrap().set_len(size).unwrap();
        options.content = Some(disk);
    }
    options.temporary = scratch.root().to_owned();
    change(&scratch, &mut options);
    let server = serve(&options).unwrap();
    Served { scratch, server }
}

impl Served {
    pub(crate) fn socket(&self) -> PathBuf {
        self.scratch.path("socket")
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket(), "", true).unwrap()
    }
}

pub(crate) struct Client {
    pub(crate) socket: UnixStream,
    structured: bool,
    cookie: u64,
    /// Lengths of outstanding reads.
    reads: BTreeMap<u64, usize>,
    pub(crate) size: u64,
    pub(crate) flags: u16,
}

pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT", &number.to_be_bytes()[..], &length, data].concat()
}

/// Returns the data of the option `GO`.
pub(crate) fn go(name: &str) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &[0; 2]].concat()
}

impl Client {
    /// Connects, without negotiating.
    pub(crate) fn raw(path: &Path) -> io::Result<UnixStream> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting)?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        socket.write_all(&3u32.to_be_bytes())?;
        Ok(socket)
    }

    /// Connects to an export; an error says that the server refuses it.
    pub(crate) fn connect(path: &Path, export: &str, structured: bool) -> io::Result<Client> {
        let mut socket = Client::raw(path)?;
        if structured {
            socket.write_all(&option(8, &[]))?;
            assert_eq!(option_reply(&mut socket)?.0, 1);
            let context = "base:allocation";
            let queries =
                [&1u32.to_be_bytes()[..], &(context.len() as u32).to_be_bytes(), context.as_bytes()];
            let name = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes()];
            socket.write_all(&option(10, &[name.concat(), queries.concat()].concat()))?;
            while option_reply(&mut socket)?.0 == 4 {}
        }
        socket.write_all(&option(7, &go(export)))?;
        let (mut size, mut flags) = (0, 0);
        loop {
            let (kind, data) = option_reply(&mut socket)?;
            match kind {
                1 => break,
                3 if data[..2] == [0, 0] => {
                    size = u64::from_be_bytes(data[2..10].try_into().unwrap());
                    flags = u16::from_be_bytes(data[10..12].try_into().unwrap());
                }
                3 => {}
                _ => return Err(io::Error::other(String::from_utf8(data).unwrap())),
            }
        }
        Ok(Client { socket, structured, cookie: 0, reads: BTreeMap::new(), size, flags })
    }

    /// Returns the cookie of the last request.
    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    /// Sends a request; returns its cookie.
    pub(crate) fn send(&mut self, kind: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        self.cookie += 1;
        if kind == READ {
            self.reads.insert(self.cookie, length as usize);
        }
        let header = [
            &0x2560_9513u32.to_be_bytes()[..],
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &self.cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &length.to_be_bytes(),
            data,
        ];
        self.socket.write_all(&header.concat()).unwrap();
        self.cookie
    }

    /// Receives a reply: its cookie, and its data or error.
    pub(crate) fn receive(&mut self) -> io::Result<(u64, Result<Vec<u8>, u32>)> {
        let mut magic = [0; 4];
        self.socket.read_exact(&mut magic)?;
        if u32::from_be_bytes(magic) == 0x6744_6698 {
            let mut rest = [0; 12];
            self.socket.read_exact(&mut rest)?;
            let error = u32::from_be_bytes(rest[..4].try_into().unwrap());
            let cookie = u64::from_be_bytes(rest[4..].try_into().unwrap());
            let length = self.reads.remove(&cookie);
            assert!(!self.structured || length.is_none(), "reads have structured replies");
            if error != 0 {
                return Ok((cookie, Err(error)));
            }
            let mut data = vec![0; length.unwrap_or(0)];
            self.socket.read_exact(&mut data)?;
            return Ok((cookie, Ok(data)));
        }
        assert!(self.structured && u32::from_be_bytes(magic) == 0x668e_33ef, "{magic:x?}");
        let mut rest = [0; 16];
        self.socket.read_exact(&mut rest)?;
        assert_eq!(rest[..2], [0, 1], "one chunk, the last");
        let kind = u16::from_be_bytes(rest[2..4].try_into().unwrap());
        let cookie = u64::from_be_bytes(rest[4..12].try_into().unwrap());
        let mut data = vec![0; u32::from_be_bytes(rest[12..].try_into().unwrap()) as usize];
        self.socket.read_exact(&mut data)?;
        let read = self.reads.remove(&cookie);
        Ok((
            cookie,
            match kind {
                0 => Ok(Vec::new()),
                1 => {
                    assert_eq!(read, Some(data.len() - 8));
                    Ok(data.split_off(8))
                }
                5 => Ok(data.split_off(4)),
                _ => Err(u32::from_be_bytes(data[..4].try_into().unwrap())),
            },
        ))
    }

    /// Sends a request and receives its reply, as no other is outstanding.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, u32> {
        let cookie = self.send(kind, flags, offset, length, data);
        let (answered, result) = self.receive().unwrap();
        assert_eq!(answered, cookie);
        result
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.ask(READ, 0, offset, length, &[]).unwrap()
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        self.ask(WRITE, 0, offset, data.len() as u32, data).unwrap();
    }

    /// Returns the parts of a range: lengths, and whether they are holes.
    pub(crate) fn status(&mut self, offset: u64, length: u32) -> Vec<(u32, bool)> {
        let data = self.ask(STATUS, 0, offset, length, &[]).unwrap();
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        data.chunks(8).map(|part| (number(&part[..4]), number(&part[4..]) == 3)).collect()
    }
}

/// Receives a reply to an option: its type and data.
pub(crate) fn option_reply(socket: &mut UnixStream) -> io::Result<(u32, Vec<u8>)> {
    let mut head = [0; 20];
    socket.read_exact(&mut head)?;
    assert_eq!(head[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
    let mut data = vec![0; u32::from_be_bytes(head[16..].try_into().unwrap()) as usize];
    socket.read_exact(&mut data)?;
    Ok((u32::from_be_bytes(head[12..16].try_into().unwrap()), data))
}
