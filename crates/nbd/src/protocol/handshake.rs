//! Negotiation: the options of a client, until it has chosen an export.

use super::{
    ALLOCATION_CONTEXT, ALLOCATION_CONTEXT_ID, Features, Fields, INIT_MAGIC, NAME_MAX_BYTES, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, PAYLOAD_MAX_BYTES, PREFERRED_BLOCK_BYTES,
};

/// Size of the server's first message.
pub const GREETING_BYTES: usize = 18;

/// `FIXED_NEWSTYLE` and `NO_ZEROES`, the flags of the server, and of clients that understand them.
const HANDSHAKE_FLAGS: u16 = 0b11;

/// Largest data of an option: several names and queries.
const OPTION_MAX_BYTES: u32 = 1 << 16;

/// Largest data of an option that is skipped to reply that it is too long; a connection with longer data ends.
const SKIPPED_OPTION_MAX_BYTES: u32 = 1 << 20;

/// Options of a connection, so that negotiation ends; clients send about five.
const OPTIONS_MAX: u32 = 1000;

// Numbers of options.
const OPT_EXPORT_NAME: u32 = 1; // chooses an export, in the old style
const OPT_ABORT: u32 = 2; // ends the connection
const OPT_LIST: u32 = 3; // lists the exports
const OPT_INFO: u32 = 6; // describes an export
const OPT_GO: u32 = 7; // chooses an export
const OPT_STRUCTURED_REPLY: u32 = 8; // turns structured replies on
const OPT_LIST_META_CONTEXT: u32 = 9; // lists metadata contexts
const OPT_SET_META_CONTEXT: u32 = 10; // selects metadata contexts

// Types of replies to options.
const REP_ACK: u32 = 1; // the end of the replies to an option
const REP_SERVER: u32 = 2; // an export of a list
const REP_INFO: u32 = 3; // information about an export
const REP_META_CONTEXT: u32 = 4; // a metadata context
const REP_ERR_UNSUP: u32 = 1 << 31 | 1; // unknown option
const REP_ERR_POLICY: u32 = 1 << 31 | 2; // forbidden here
const REP_ERR_INVALID: u32 = 1 << 31 | 3; // malformed option
const REP_ERR_UNKNOWN: u32 = 1 << 31 | 6; // no such export
const REP_ERR_TOO_BIG: u32 = 1 << 31 | 9; // too long

// Types of information about an export.
const INFO_EXPORT: u16 = 0; // size and flags
const INFO_NAME: u16 = 1; // the name
const INFO_DESCRIPTION: u16 = 2; // a sentence for people
const INFO_BLOCK_SIZE: u16 = 3; // smallest, preferred and largest block

/// A block device as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The name by which clients choose it; the empty one is that of clients that name none.
    pub name: String,
    /// A sentence for people.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// Properties.
    pub features: Features,
}

/// Result of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Index of the export.
    pub export: usize,
    /// Whether replies are structured.
    pub structured: bool,
    /// Whether the client may ask which parts are allocated.
    pub allocation: bool,
}

/// The next step after some bytes of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes.
    Continue,
    /// The client has chosen an export: [`Negotiation::accept`] or [`Negotiation::refuse`] follows.
    Chosen(Agreement),
    /// The end of the connection, after the reply has been sent.
    End,
}

/// Returns the server's first message.
#[must_use]
pub fn greeting() -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&HANDSHAKE_FLAGS.to_be_bytes());
    bytes
}

/// A negotiation after the [`greeting`].
#[derive(Clone, Debug)]
pub struct Negotiation {
    state: State,
    /// Whether the client does without 124 zeros after an old-style choice.
    no_zeroes: bool,
    structured: bool,
    /// The export for which the client has selected the allocation context.
    allocation: Option<usize>,
    options: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flags,
    Option,
    Data {
        option: u32,
        length: u32,
    },
    /// Data that is too long is passed over.
    Skip {
        option: u32,
        left: u32,
    },
    /// An export was chosen by this option.
    Chosen {
        option: u32,
        agreement: Agreement,
    },
    Ended,
}

impl Default for Negotiation {
    fn default() -> Negotiation {
        Negotiation::new()
    }
}

impl Negotiation {
    /// Begins a negotiation.
    #[must_use]
    pub fn new() -> Negotiation {
        Negotiation { state: State::Flags, no_zeroes: false, structured: false, allocation: None, options: 0 }
    }

    /// Returns how many bytes of the client come next, 65,536 at most; 0 after the end, or while an export was chosen.
    #[must_use]
    pub fn wants(&self) -> usize {
        match self.state {
            State::Flags => 4,
            State::Option => 16,
            State::Data { length, .. } => length as usize,
            State::Skip { left, .. } => left.min(OPTION_MAX_BYTES) as usize,
            State::Chosen { .. } | State::Ended => 0,
        }
    }

    /// Takes as many bytes as [`Negotiation::wants`] said, and appends the reply to `out`.
    ///
    /// # Panics
    /// If it is another number of bytes.
    pub fn take(&mut self, bytes: &[u8], exports: &[Export], out: &mut Vec<u8>) -> Step {
        assert_eq!(bytes.len(), self.wants(), "as many bytes as were wanted");
        let mut fields = Fields(bytes);
        match self.state {
            State::Flags => self.flags(fields.u32().unwrap_or(u32::MAX)),
            State::Option => self.option(&mut fields, exports, out),
            State::Data { option, .. } => self.data(option, bytes, exports, out),
            State::Skip { option, left } => {
                let left = left - bytes.len() as u32;
                if left > 0 {
                    self.state = State::Skip { option, left };
                    return Step::Continue;
                }
                self.error(option, REP_ERR_TOO_BIG, "the data of the option is too long", out)
            }
            State::Chosen { .. } | State::Ended => self.end(),
        }
    }

    /// Accepts the choice of the client, and appends the reply to `out`.
    pub fn accept(&mut self, exports: &[Export], out: &mut Vec<u8>) {
        if let State::Chosen { option, agreement } = self.state {
            let export = &exports[agreement.export];
            if option == OPT_EXPORT_NAME {
                out.extend(export.size.to_be_bytes());
                out.extend(export.features.flags(self.structured).to_be_bytes());
                out.extend(std::iter::repeat_n(0, if self.no_zeroes { 0 } else { 124 }));
            } else {
                put(out, option, REP_ACK, &[]);
            }
        }
        self.state = State::Ended;
    }

    /// Refuses the choice of the client for a reason; it may choose again, unless it cannot understand the reply.
    pub fn refuse(&mut self, why: &str, out: &mut Vec<u8>) -> Step {
        match self.state {
            State::Chosen { option, .. } if option != OPT_EXPORT_NAME => {
                self.error(option, REP_ERR_POLICY, why, out)
            }
            _ => self.end(),
        }
    }

    fn flags(&mut self, flags: u32) -> Step {
        if flags & !u32::from(HANDSHAKE_FLAGS) != 0 {
            return self.end();
        }
        self.no_zeroes = flags & 2 != 0;
        self.state = State::Option;
        Step::Continue
    }

    fn option(&mut self, fields: &mut Fields<'_>, exports: &[Export], out: &mut Vec<u8>) -> Step {
        let (magic, option, length) = (fields.u64(), fields.u32(), fields.u32());
        let (Some(OPTION_MAGIC), Some(option), Some(length)) = (magic, option, length) else {
            return self.end();
        };
        self.options += 1;
        if self.options > OPTIONS_MAX || length > SKIPPED_OPTION_MAX_BYTES {
            return self.end();
        }
        if length > OPTION_MAX_BYTES {
            self.state = State::Skip { option, left: length };
            return Step::Continue;
        }
        if length == 0 {
            return self.data(option, &[], exports, out);
        }
        self.state = State::Data { option, length };
        Step::Continue
    }

    fn data(&mut self, option: u32, data: &[u8], exports: &[Export], out: &mut Vec<u8>) -> Step {
        self.state = State::Option;
        match option {
            OPT_EXPORT_NAME => {
                let name = std::str::from_utf8(data).ok();
                match name.and_then(|name| find(exports, name)) {
                    Some(export) => self.choose(option, export),
                    // The protocol has no other reply.
                    None => self.end(),
                }
            }
            OPT_ABORT => {
                put(out, option, REP_ACK, &[]);
                self.end()
            }
            OPT_LIST | OPT_STRUCTURED_REPLY if !data.is_empty() => {
                self.error(option, REP_ERR_INVALID, "the option takes no data", out)
            }
            OPT_LIST => {
                for export in exports {
                    let mut item = Vec::new();
                    put_string(&mut item, &export.name);
                    item.extend(export.description.as_bytes());
                    put(out, option, REP_SERVER, &item);
                }
                put(out, option, REP_ACK, &[]);
                Step::Continue
            }
            OPT_STRUCTURED_REPLY => {
                self.structured = true;
                put(out, option, REP_ACK, &[]);
                Step::Continue
            }
            OPT_INFO | OPT_GO => self.info(option, data, exports, out),
            OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT => self.contexts(option, data, exports, out),
            _ => self.error(option, REP_ERR_UNSUP, "the option is not supported", out),
        }
    }

    fn info(&mut self, option: u32, data: &[u8], exports: &[Export], out: &mut Vec<u8>) -> Step {
        let Some((name, wanted)) = parse_info(data) else {
            return self.error(option, REP_ERR_INVALID, "the data of the option is malformed", out);
        };
        let Some(index) = find(exports, name) else { return self.unknown(option, out) };
        let export = &exports[index];
        let mut details = Vec::new();
        details.extend(INFO_EXPORT.to_be_bytes());
        details.extend(export.size.to_be_bytes());
        details.extend(export.features.flags(self.structured).to_be_bytes());
        put(out, option, REP_INFO, &details);
        for kind in [INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE] {
            if !wanted.contains(&kind) {
                continue;
            }
            details.clear();
            details.extend(kind.to_be_bytes());
            match kind {
                INFO_NAME => details.extend(export.name.as_bytes()),
                INFO_DESCRIPTION => details.extend(export.description.as_bytes()),
                _ => [1, PREFERRED_BLOCK_BYTES, PAYLOAD_MAX_BYTES]
                    .iter()
                    .for_each(|bytes| details.extend(bytes.to_be_bytes())),
            }
            put(out, option, REP_INFO, &details);
        }
        if option == OPT_GO {
            return self.choose(option, index);
        }
        put(out, option, REP_ACK, &[]);
        Step::Continue
    }

    fn contexts(&mut self, option: u32, data: &[u8], exports: &[Export], out: &mut Vec<u8>) -> Step {
        let sets = option == OPT_SET_META_CONTEXT;
        if sets {
            self.allocation = None;
        }
        let Some((name, queries)) = parse_contexts(data) else {
            return self.error(option, REP_ERR_INVALID, "the data of the option is malformed", out);
        };
        if !self.structured {
            return self.error(option, REP_ERR_INVALID, "structured replies come first", out);
        }
        let Some(index) = find(exports, name) else { return self.unknown(option, out) };
        let matches = |query: &&str| *query == ALLOCATION_CONTEXT || !sets && *query == "base:";
        let is_meant = queries.iter().any(matches) || !sets && queries.is_empty();
        if is_meant {
            let id = if sets { ALLOCATION_CONTEXT_ID } else { 0 };
            let mut context = id.to_be_bytes().to_vec();
            context.extend(ALLOCATION_CONTEXT.as_bytes());
            put(out, option, REP_META_CONTEXT, &context);
            if sets {
                self.allocation = Some(index);
            }
        }
        put(out, option, REP_ACK, &[]);
        Step::Continue
    }

    fn choose(&mut self, option: u32, export: usize) -> Step {
        let allocation = self.allocation == Some(export);
        let agreement = Agreement { export, structured: self.structured, allocation };
        self.state = State::Chosen { option, agreement };
        Step::Chosen(agreement)
    }

    fn unknown(&mut self, option: u32, out: &mut Vec<u8>) -> Step {
        self.error(option, REP_ERR_UNKNOWN, "no export has this name", out)
    }

    fn error(&mut self, option: u32, kind: u32, why: &str, out: &mut Vec<u8>) -> Step {
        put(out, option, kind, why.as_bytes());
        self.state = State::Option;
        Step::Continue
    }

    fn end(&mut self) -> Step {
        self.state = State::Ended;
        Step::End
    }
}

fn find(exports: &[Export], name: &str) -> Option<usize> {
    exports.iter().position(|export| export.name == name)
}

/// Parses the data of `INFO` and `GO`: the name of an export and the kinds of information that are wanted.
fn parse_info(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut fields = Fields(data);
    let name = fields.string().filter(|name| name.len() <= NAME_MAX_BYTES)?;
    let count = fields.u16()?;
    let wanted = (0..count).map(|_| fields.u16()).collect::<Option<Vec<u16>>>()?;
    fields.0.is_empty().then_some((name, wanted))
}

/// Parses the data of the options about metadata contexts: the name of an export, and queries.
fn parse_contexts(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut fields = Fields(data);
    let name = fields.string().filter(|name| name.len() <= NAME_MAX_BYTES)?;
    let count = fields.u32()?;
    // Each query has at least its length.
    let is_possible = count as usize <= fields.0.len() / 4;
    let queries =
        (0..if is_possible { count } else { 0 }).map(|_| fields.string()).collect::<Option<Vec<_>>>()?;
    (is_possible && fields.0.is_empty()).then_some((name, queries))
}

/// Appends a reply to an option.
fn put(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((data.len() as u32).to_be_bytes());
    out.extend(data);
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_be_bytes());
    out.extend(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exports() -> Vec<Export> {
        ["", "fast"]
            .map(|name| Export {
                name: name.to_owned(),
                description: "a disk".to_owned(),
                size: 1 << 30,
                features: Features::default(),
            })
            .to_vec()
    }

    fn option(option: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    }

    fn go(name: &str, kinds: &[u16]) -> Vec<u8> {
        let mut data = Vec::new();
        put_string(&mut data, name);
        data.extend((kinds.len() as u16).to_be_bytes());
        kinds.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
        data
    }

    fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
        let mut data = Vec::new();
        put_string(&mut data, name);
        data.extend((queries.len() as u32).to_be_bytes());
        queries.iter().for_each(|query| put_string(&mut data, query));
        data
    }

    /// Feeds bytes until a step that is not `Continue`, or until they are used up.
    fn feed(negotiation: &mut Negotiation, mut bytes: &[u8]) -> (Step, Vec<u8>) {
        let mut out = Vec::new();
        while let Some((now, rest)) = bytes.split_at_checked(negotiation.wants()) {
            if now.is_empty() {
                break;
            }
            let step = negotiation.take(now, &exports(), &mut out);
            bytes = rest;
            if step != Step::Continue {
                return (step, out);
            }
        }
        (Step::Continue, out)
    }

    /// Returns the types of the replies to options.
    fn kinds(mut replies: &[u8]) -> Vec<u32> {
        let mut kinds = Vec::new();
        while !replies.is_empty() {
            let mut fields = Fields(replies);
            assert_eq!(fields.u64(), Some(OPTION_REPLY_MAGIC));
            fields.u32().unwrap();
            kinds.push(fields.u32().unwrap());
            let length = fields.u32().unwrap() as usize;
            fields.take(length).unwrap();
            replies = fields.0;
        }
        kinds
    }

    fn begun() -> Negotiation {
        let mut negotiation = Negotiation::new();
        assert_eq!(feed(&mut negotiation, &3u32.to_be_bytes()).0, Step::Continue);
        negotiation
    }

    #[test]
    fn a_modern_client_gets_structured_replies_and_the_allocation_of_its_export() {
        let mut negotiation = begun();
        let mut bytes = option(OPT_STRUCTURED_REPLY, &[]);
        bytes.extend(option(OPT_SET_META_CONTEXT, &contexts("fast", &["base:allocation", "x:y"])));
        bytes.extend(option(OPT_GO, &go("fast", &[3, 1, 9])));
        let (step, out) = feed(&mut negotiation, &bytes);
        let agreement = Agreement { export: 1, structured: true, allocation: true };
        assert_eq!(step, Step::Chosen(agreement));
        let wanted = [REP_ACK, REP_META_CONTEXT, REP_ACK, REP_INFO, REP_INFO, REP_INFO];
        assert_eq!(kinds(&out), wanted);
        let mut out = Vec::new();
        negotiation.accept(&exports(), &mut out);
        assert_eq!((kinds(&out), negotiation.wants()), (vec![REP_ACK], 0));
    }

    #[test]
    fn contexts_of_another_export_do_not_hold_and_need_structured_replies() {
        let mut negotiation = begun();
        let set = option(OPT_SET_META_CONTEXT, &contexts("fast", &["base:allocation"]));
        assert_eq!(kinds(&feed(&mut negotiation, &set).1), [REP_ERR_INVALID]);
        let mut bytes = option(OPT_STRUCTURED_REPLY, &[]);
        bytes.extend(set);
        bytes.extend(option(OPT_GO, &go("", &[])));
        let Step::Chosen(agreement) = feed(&mut negotiation, &bytes).0 else { panic!() };
        assert!(agreement.structured && !agreement.allocation);
    }

    #[test]
    fn a_refused_client_may_choose_again() {
        let mut negotiation = begun();
        assert!(matches!(
            feed(&mut negotiation, &option(OPT_GO, &go("fast", &[]))).0,
            Step::Chosen(Agreement { export: 1, .. })
        ));
        let mut out = Vec::new();
        assert_eq!(negotiation.refuse("no room", &mut out), Step::Continue);
        assert_eq!(kinds(&out), [REP_ERR_POLICY]);
        assert!(matches!(feed(&mut negotiation, &option(OPT_EXPORT_NAME, b"")).0, Step::Chosen(_)));
        assert_eq!(negotiation.refuse("no room", &mut out), Step::End);
    }

    #[test]
    fn an_old_client_gets_the_size_and_zeros_unless_it_does_without() {
        for (flags, length) in [(1u32, 134), (3, 10), (0, 134)] {
            let mut negotiation = Negotiation::new();
            feed(&mut negotiation, &flags.to_be_bytes());
            let (step, mut out) = feed(&mut negotiation, &option(OPT_EXPORT_NAME, b""));
            assert!(matches!(step, Step::Chosen(_)) && out.is_empty());
            negotiation.accept(&exports(), &mut out);
            assert_eq!((out.len(), &out[..8]), (length, &(1u64 << 30).to_be_bytes()[..]));
        }
    }

    #[test]
    fn what_is_wrong_is_answered_and_what_is_not_the_protocol_ends() {
        let wrong = [
            (option(OPT_LIST, b"x"), REP_ERR_INVALID),
            (option(OPT_GO, b"x"), REP_ERR_INVALID),
            (option(OPT_GO, &go("absent", &[])), REP_ERR_UNKNOWN),
            (option(OPT_INFO, &[0, 0, 0, 0, 0, 9]), REP_ERR_INVALID),
            (option(OPT_GO, &go(&"x".repeat(5000), &[])), REP_ERR_INVALID),
            (option(OPT_LIST_META_CONTEXT, &[0, 0, 0, 0, 255, 255, 255, 255]), REP_ERR_INVALID),
            (option(5, &[]), REP_ERR_UNSUP),
            (option(99, &vec![0; 100_000]), REP_ERR_TOO_BIG),
        ];
        for (bytes, kind) in wrong {
            let mut negotiation = begun();
            let (step, out) = feed(&mut negotiation, &bytes);
            assert_eq!((step, kinds(&out)), (Step::Continue, vec![kind]));
            assert_eq!(negotiation.wants(), 16, "it goes on");
        }
        let ends = [
            option(OPT_EXPORT_NAME, b"absent"),
            option(OPT_ABORT, &[]),
            vec![0; 16],
            [&OPTION_MAGIC.to_be_bytes()[..], &[0; 4], &[255; 4]].concat(),
        ];
        for bytes in ends {
            assert_eq!(feed(&mut begun(), &bytes).0, Step::End);
        }
        assert_eq!(feed(&mut Negotiation::new(), &4u32.to_be_bytes()).0, Step::End);
        assert_eq!(feed(&mut begun(), &option(OPT_LIST, &[]).repeat(1001)).0, Step::End);
    }

    #[test]
    fn all_contexts_are_listed_for_no_query_and_none_is_set() {
        let listed = |which, queries: &[&str]| {
            let mut negotiation = begun();
            feed(&mut negotiation, &option(OPT_STRUCTURED_REPLY, &[]));
            kinds(&feed(&mut negotiation, &option(which, &contexts("", queries))).1).len() - 1
        };
        assert_eq!(listed(OPT_LIST_META_CONTEXT, &[]), 1);
        assert_eq!(listed(OPT_LIST_META_CONTEXT, &["base:"]), 1);
        assert_eq!(listed(OPT_LIST_META_CONTEXT, &["qemu:"]), 0);
        assert_eq!(listed(OPT_SET_META_CONTEXT, &[]), 0);
        assert_eq!(listed(OPT_SET_META_CONTEXT, &["base:"]), 0);
        assert_eq!(listed(OPT_SET_META_CONTEXT, &["base:allocation", "base:allocation"]), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_end_the_connection(
            noise in proptest::collection::vec(any::<u8>(), 0..2000),
            parts in proptest::collection::vec((0u32..12, proptest::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..20),
        ) {
            feed(&mut Negotiation::new(), &noise);
            let mut negotiation = begun();
            for (number, data, whole) in parts {
                let data = if whole { go("fast", &[3]) } else { data };
                let (step, out) = feed(&mut negotiation, &option(number, &data));
                prop_assert!(out.len() < 2000);
                match step {
                    Step::End => break,
                    Step::Chosen(agreement) => {
                        prop_assert!(agreement.export < 2);
                        let mut reply = Vec::new();
                        if negotiation.refuse("no", &mut reply) == Step::End {
                            break;
                        }
                    }
                    Step::Continue => {}
                }
                prop_assert_eq!(negotiation.wants(), 16);
            }
        }
    }
}
