//! Mistakes in descriptions: one sentence each, with the line and the key.

use crate::harness::refused;

/// Whole descriptions, each with one mistake.
const MISTAKES: [&str; 12] = [
    "",
    "[source.in]\nfrom = stdin\n",
    "[source.in]\nfrom = \"stdin\"\n",
    "[source]\nfrom = \"stdin\"\n[sink.out]\nto = \"stdout\"\n",
    "[source.in]\nfrom = \"stdin\"\n[sinks.out]\nto = \"stdout\"\n",
    "[source.a]\nfrom = \"stdin\"\n[source.b]\nfrom = \"stdin\"\n[sink.out]\nto = \"stdout\"\n",
    "[source.a]\nfrom = \"stdin\"\n[source.b]\nfrom = \"stdin\"\n[sink.out]\ninput = \"a\"\nto = \"stdout\"\n",
    "ring_slots = 0\n[source.in]\nfrom = \"stdin\"\n[sink.out]\nto = \"stdout\"\n",
    "ring_slots = 10000000\n[source.in]\nfrom = \"stdin\"\n[sink.out]\nto = \"stdout\"\n",
    "[source.in]\nfrom = \"stdin\"\n[step]\nop = \"filter\"\n[sink.out]\nto = \"stdout\"\n",
    "[source.in]\nfrom = \"stdin\"\n[[step]]\nname = \"a\"\ninput = \"b\"\nop = \"filter\"\nwhere = \"true\"\n\
     [[step]]\nname = \"b\"\nop = \"filter\"\nwhere = \"true\"\n[sink.out]\nto = \"stdout\"\n",
    "[source.in]\nfrom = \"stdin\"\n[[step]]\nop = \"filter\"\nwhere = \"true\"\n[[step]]\nop = \"filter\"\n\
     where = \"true\"\n[sink.out]\nto = \"stdout\"\n",
];

/// Keys of a source, each with one mistake.
const SOURCE_MISTAKES: [&str; 34] = [
    "form = \"stdin\"",
    "from = 1",
    "from = \"stdn\"",
    "from = \"file:\"",
    "from = \"access.log\"",
    "from = \"tcp:localhost\"",
    "from = \"stdin\"\nformat = \"jsn\"",
    "from = \"stdin\"\nformat = \"json\"",
    "from = \"stdin\"\nformat = \"json\"\ncolumns = { a = \"int\" }",
    "from = \"stdin\"\nformat = \"json\"\ncolumns = { a = 1 }",
    "from = \"stdin\"\nparse = '(?P<a>'",
    "from = \"stdin\"\nparse = '(a)'",
    "from = \"stdin\"\nparse = '(?P<a>.)'\nsplit = \" \"",
    "from = \"stdin\"\nparse = '(?P<a>.)'\ncolumns = { b = \"text\" }",
    "from = \"stdin\"\nsplit = \" \"",
    "from = \"stdin\"\nsplit = \"ab\"\nfields = [\"a\"]",
    "from = \"stdin\"\nsplit = \",\"\nfields = \"a\"",
    "from = \"stdin\"\nformat = \"csv\"\nfields = [\"a\"]\nheader = true",
    "from = \"tail:a.csv\"\nformat = \"csv\"\ncolumns = { a = \"text\" }",
    "from = \"unix:a\"\nlisten = true\nformat = \"csv\"\nheader = true\ncolumns = { a = \"text\" }",
    "from = \"stdin\"\nformat = \"csv\"\nseparator = \"\\n\"\nfields = [\"a\"]",
    "from = \"stdin\"\nformat = \"arrow\"",
    "from = \"file:/does/not/exist\"\nformat = \"arrow\"",
    "from = \"stdin\"\nevent_time = \"line\"",
    "from = \"stdin\"\nformat = \"combined\"\nevent_time = \"tme\"",
    "from = \"stdin\"\nout_of_order = \"2s\"",
    "from = \"stdin\"\nformat = \"combined\"\nevent_time = \"time\"\nout_of_order = \"2\"",
    "from = \"stdin\"\nformat = \"combined\"\nevent_time = \"time\"\nlate = \"allow\"",
    "from = \"stdin\"\noverload = \"shed\"",
    "from = \"stdin\"\nbad = \"ignore\"",
    "from = \"stdin\"\nlisten = true",
    "from = \"stdin\"\ncost = \"100\"",
    "from = \"generator\"\nrate = -1",
    "from = \"generator\"\nrate = \"fast\"",
];

/// Keys of a step behind a web server's log, each with one mistake.
const STEP_MISTAKES: [&str; 29] = [
    "op = \"aggregate\"",
    "op = \"aggregate\"\ncompute = \"n\"",
    "op = \"aggregate\"\ncompute = \"total(bytes)\"",
    "op = \"aggregate\"\ncompute = \"sum(byts)\"",
    "op = \"aggregate\"\ncompute = \"sum(host)\"",
    "op = \"aggregate\"\ncompute = \"sum(distinct bytes)\"",
    "op = \"aggregate\"\nby = \"path\"\ncompute = \"count(*) AS path\"",
    "op = \"aggregate\"\ncompute = \"count(*)\"\nwindow = \"tumbling:1min\"",
    "op = \"aggregate\"\ncompute = \"count(*)\"\nwindow = \"tumbling:1m\"",
    "op = \"aggregate\"\ncompute = \"count(*)\"\nwindow = \"hopping:1min\"",
    "op = \"top\"\nby = \"bytes\"",
    "op = \"top\"\nk = 0\nby = \"bytes\"",
    "op = \"distinct\"\nby = \"hots\"",
    "op = \"join\"\nwith = \"log\"\non = \"host\"\nwithin = \"1s\"",
    "op = \"join\"\nwith = \"log\"\non = \"host = status\"\nwithin = \"1s\"",
    "op = \"join\"\nwith = \"log\"\non = \"host = host\"\nwithin = \"1s\"",
    "op = \"append\"\nfile = \"rows\"\nformat = \"arrow\"",
    "where = \"true\"",
    "op = \"filtre\"",
    "op = \"filter\"",
    "op = \"filter\"\nwhere = \"status\"",
    "op = \"filter\"\nwhere = \"statsu = 1\"",
    "op = \"filter\"\nwhere = \"status >\"",
    "op = \"filter\"\nwhere = \"true\"\ncolumns = \"host\"",
    "op = \"filter\"\nwhere = \"true\"\ninput = \"lgo\"",
    "op = \"select\"\ncolumns = \"host, host\"",
    "op = \"select\"\ncolumns = \"time - time AS d, interval '1 day' AS i\"",
    "op = \"filter\"\nwhere = \"true\"\nname = \"log\"",
    "op = \"filter\"\nwhere = \"true\"\nselectivity = \"half\"",
];

/// Keys of a sink, each with one mistake.
const SINK_MISTAKES: [&str; 6] = [
    "",
    "to = \"stdot\"",
    "to = \"file:x\"\nformat = \"arrow\"\nappend = true",
    "to = \"stdout\"\nformat = \"lines\"\nseparator = \"\"",
    "to = \"stdout\"\ninput = \"x\"",
    "to = \"stdout\"\nappend = true",
];

#[test]
fn each_mistake_is_one_sentence_with_its_line_and_key() {
    let mut all = String::new();
    let mut add = |title: &str, mistakes: &[&str], whole: &dyn Fn(&str) -> String| {
        for mistake in mistakes {
            let shown = mistake.replace('\n', " \u{23ce} ");
            let error = refused(&whole(mistake));
            assert!(!error.contains('\n'), "{error}");
            all += &format!("{title}: {shown}\n    {error}\n");
        }
    };
    add("pipeline", &MISTAKES, &|text| text.to_owned());
    add("source", &SOURCE_MISTAKES, &|keys| format!("[source.in]\n{keys}\n[sink.out]\nto = \"stdout\"\n"));
    add("step", &STEP_MISTAKES, &|keys| {
        format!(
            "[source.log]\nfrom = \"stdin\"\nformat = \"combined\"\n[[step]]\n{keys}\n[sink.out]\nto = \"stdout\"\n"
        )
    });
    add("sink", &SINK_MISTAKES, &|keys| format!("[source.in]\nfrom = \"stdin\"\n[sink.out]\n{keys}\n"));
    insta::assert_snapshot!(all);
}
