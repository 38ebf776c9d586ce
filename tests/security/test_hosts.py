import sys
import unicodedata
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from constraint_strategies import odd_objects, unhurried
from laws import examples
from retinue.security.errors import GuardRefused
from retinue.security.hosts import (
    MAX_HOST_CHARACTERS,
    MAX_URL_CHARACTERS,
    HostPattern,
    Url,
    check_host,
    check_url,
    host_matches,
    split_url,
)

GOOD = ["good.example", "*.good.example"]


@pytest.mark.parametrize(
    ("url", "host", "port", "target"),
    [
        ("https://good.example", "good.example", 443, "/"),
        ("https://good.example/", "good.example", 443, "/"),
        ("https://GOOD.Example/A", "good.example", 443, "/A"),
        ("https://good.example./x", "good.example", 443, "/x"),
        ("https://good.example:443/x?a=b&c#frag", "good.example", 443, "/x?a=b&c"),
        ("https://api.good.example:8443/", "api.good.example", 8443, "/"),
        ("https://good.example/@user/http://evil.tld/?q=@evil.tld", "good.example", 443, "/@user/http://evil.tld/?q=@evil.tld"),
        ("https://good.example/%2e%2e//x", "good.example", 443, "/%2e%2e//x"),
        ("https://good.example/#@evil.tld/", "good.example", 443, "/"),
        ("http://good.example/", "good.example", 80, "/"),
        ("ws://good.example/s", "good.example", 80, "/s"),
        ("wss://good.example/s", "good.example", 443, "/s"),
        ("https://1.2.3.4.good.example/", "1.2.3.4.good.example", 443, "/"),
        ("https://xn--bcher-kva.good.example/", "xn--bcher-kva.good.example", 443, "/"),
        ("https://localhost/", "localhost", 443, "/"),
    ],
)
def test_a_url_with_one_reading_is_taken_apart(url, host, port, target):
    assert split_url(url) == Url(text=url, scheme=url.partition(":")[0], host=host, port=port, target=target)


# Each is refused for GOOD with the default scheme and port; most have fooled a parser or an allow-list somewhere.
EVIL = [
    # another host that only contains the good one
    "https://evil.tld/?a=.good.example/", "https://evil.tld/good.example", "https://evil.tld/#.good.example", "https://evil.tld/#/good.example/",
    "https://good.example.evil.tld/", "https://api.good.example.evil.tld/", "https://evilgood.example/", "https://evil-good.example/",
    "https://good.example-evil.tld/", "https://good.exampleevil.tld", "https://good.exampl/", "https://example/", "https://a.b.good.example/",
    "https://evil.tld;.good.example/", "https://evil.tld,good.example/", "https://evil.tld&.good.example/", "https://evil.tld*good.example/",
    "https://evil.tld%23.good.example/", "https://evil.tld%2f.good.example/", "https://evil.tld%00.good.example/", "https://evil.tld%2egood.example/",
    "https://evil.tld=.good.example/", "https://evil.tld'.good.example/", "https://evil.tld(.good.example)/", "https://evil_tld.good.example/",
    "https://evil.tld!.good.example/", "https://$(evil).good.example/", "https://{evil}.good.example/", "https://evil|.good.example/", "https://<evil>.good.example/",
    # users and ports
    "https://good.example@evil.tld/", "https://good.example:443@evil.tld/", "https://good.example:80@127.0.0.1/", "https://user:pw@good.example/",
    "https://@good.example/", "https://:@good.example/", "https://good.example%40evil.tld/", "https://good.example:443:443/", "https://good.example:/",
    "https://good.example:0/", "https://good.example:00443/", "https://good.example:0443/", "https://good.example:+443/", "https://good.example:-443/",
    "https://good.example:443a/", "https://good.example:4_43/", "https://good.example:65536/", "https://good.example:99999999999/", "https://good.example:٤٤٣/",
    "https://good.example:8443/", "https://good.example:80/", "https://good.example:22/", "https://good.example:0x1bb/", "https://good.example: 443/",
    # a host that ends before a slash does
    "https://good.example?@evil.tld/", "https://good.example#@evil.tld/", "https://good.example?.evil.tld/", "https://good.example#.evil.tld",
    "https://evil.tld?.good.example/", "https://evil.tld#.good.example/", "https://evil.tld?good.example", "https://good.example?x=1",
    # blanks, control characters, backslashes
    "https://good.example\t.evil.tld/", "https://good.example\n.evil.tld/", "https://good.example\r\n.evil.tld/", "https://good.example\x00.evil.tld/",
    "https://good.example\x00/", "https://good.example /", " https://good.example/", "https://good.example/ ", "\thttps://good.example/", "https://good.example/\n",
    "ht\ntps://good.example/", "https://good.example\\.evil.tld/", "https://good.example\\@evil.tld/", "https://evil.tld\\@good.example/",
    "https:\\\\good.example/", "https:/\\good.example/", "https://good.example/\\x", "https://evil.tld\\.good.example/", "https://good.example/\x7f", "https://good.example/x y",
    # addresses in any spelling
    "https://127.0.0.1/", "https://127.0.0.1./", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0x7f.0x0.0x0.0x1/", "https://127.1/",
    "https://127.0.1/", "https://0177.0.0.1/", "https://017700000001/", "https://0/", "https://0.0.0.0/", "https://00000177.0.0.1/", "https://127.0.0.0x1/",
    "https://1.2.3.08/", "https://256.256.256.256/", "https://good.example.1/", "https://169.254.169.254/latest/meta-data/", "https://[::1]/", "https://[::]/",
    "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[fe80::1%25eth0]/", "https://[64:ff9b::7f00:1]/", "https://[v1.fe80::a]/", "https://::1/",
    "https://[good.example]/", "https://[::1].good.example/", "https://[::1]good.example/", "https://good.example[::1]/", "https://①②⑦.⓪.⓪.①/", "https://１２７.0.0.1/", "https://127。0。0。1/",
    # characters outside ASCII
    "https://gооd.example/", "https://ɡood.example/", "https://good。example/", "https://good．example/", "https://good.example/é", "https://ⓖood.example/",
    "https://GOOD.EXAMPLE\u212a/", "https://good\u00ad.example/", "https://good.example\u200b/", "https://go\u200dod.example/", "https://goo\u2170.example/", "https://good.example／x/",
    "https://xn--good-abc.example/", "https://evil.tld／.good.example/", "https://evil.tld℀.good.example/", "https://straße.good.example/", "https://\ud800.good.example/",
    # labels and dots
    "https://good.example../", "https://.good.example/", "https://good..example/", "https://./", "https:///", "https://", "https:///good.example/", "https:////good.example/",
    "https://-.good.example/", "https://-a.good.example/", "https://a-.good.example/", f"https://{'a' * 64}.good.example/", f"https://{'a.' * 130}good.example/", "https://*.good.example/",
    # schemes
    "http://good.example/", "HTTPS://good.example/", "Https://good.example/", "ftp://good.example/", "file://good.example/etc/passwd", "javascript://good.example/%0aalert(1)",
    "data:text/html,https://good.example/", "//good.example/", "good.example", "good.example/", "good.example:443", "https:good.example/", "https:/good.example/",
    "https//good.example/", "://good.example/", "wss://good.example/", "https+unix://good.example/", "httpss://good.example/", "blob:https://good.example/", "view-source:https://good.example/",
    "url:https://good.example/", "https://https://good.example/", "https://https//good.example/", "", "/", "?", "#", "https", "https:",
]  # fmt: skip


@pytest.mark.parametrize("url", EVIL, ids=ascii)
def test_a_url_that_is_not_plainly_of_a_permitted_host_is_refused(url):
    with pytest.raises(GuardRefused) as caught:
        check_url(url, GOOD)
    assert caught.value.what == "host"
    assert str(caught.value).isprintable()


ADDRESSES = [
    "127.0.0.1", "127.0.0.1.", "2130706433", "0x7f000001", "0x7F000001", "0x7f.1", "0x7f.0x0.0x0.0x1", "127.0.0.0x1", "127.1", "127.0.1", "0177.0.0.1", "017700000001",
    "0", "0.0.0.0", "0x0", "1.2.3.08", "256.256.256.256", "1.2.3.4.5", "a.1", "a.0x1", "a.b.0xff", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "::1", "[v1.x]",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_no_host_in_any_spelling_also_where_every_name_is_permitted(address):
    for url in (f"https://{address}/", f"https://{address}"):
        with pytest.raises(GuardRefused):
            split_url(url)
        with pytest.raises(GuardRefused):
            check_url(url, ["**"])
    with pytest.raises(GuardRefused):
        check_host(address)
    assert not host_matches("**", address)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://u:p@good.example/", "has a user or a password"),
        ("https://[::1]/", "is an IPv6 address"),
        ("https://127.1/", "may be read as an IP address"),
        ("https://good.example:0443/", "without leading zeros"),
        ("https://good.example:65536/", "no number from 1 to 65535"),
        ("https://good.example?x", "Write a '/' after the host"),
        ("https://good.example/ x", "has a blank"),
        ("HTTPS://good.example/", "in lower case"),
        ("https://bücher.example/", "punycode"),
        ("https://a_b.example/", "is no host name"),
        ("https://evil.tld/", "is not permitted; permitted is good.example, *.good.example"),
        ("http://good.example/", "scheme is 'http', and permitted is https"),
        ("https://good.example:8443/", "port is 8443, and permitted is 443"),
    ],
)
def test_a_refusal_says_why(url, why):
    with pytest.raises(GuardRefused) as caught:
        check_url(url, GOOD)
    assert why in str(caught.value)


def test_the_table_of_evil_urls_is_long_and_its_good_hosts_are_let_through():
    assert len(set(EVIL)) == len(EVIL) > 150
    for url in ["https://good.example/", "https://api.good.example", "https://GOOD.example.:443/x?y#z"]:
        assert check_url(url, GOOD).port == 443


def test_scheme_and_port_are_those_listed_and_a_url_without_a_port_counts_with_its_schemes_own():
    assert check_url("http://good.example/", GOOD, schemes=["http"], ports=[80]).port == 80
    assert check_url("http://good.example:8080/", GOOD, schemes=["http", "https"], ports=[80, 8080]).port == 8080
    for url, schemes, ports in [
        ("http://good.example/", ["http"], [443]),
        ("http://good.example:443/", ["https"], [443]),
        ("https://good.example/", ["http"], [80, 443]),
        ("https://good.example:80/", ["https"], [443]),
        ("https://good.example/", [], [443]),
        ("https://good.example/", ["https"], []),
    ]:
        with pytest.raises(GuardRefused):
            check_url(url, GOOD, schemes, ports)


def test_no_names_permit_nothing_and_patterns_may_come_parsed_and_from_a_generator():
    with pytest.raises(GuardRefused, match="permitted is none"):
        check_url("https://good.example/", [])
    assert check_url(
        "https://good.example/", (HostPattern(name) for name in GOOD), (scheme for scheme in ["https"]), (port for port in [443])
    )


@pytest.mark.parametrize("names", ["good.example", ["good.example", 3], [None], ["*"], ["127.0.0.1"], [b"good.example"]])
def test_a_list_of_names_that_is_malformed_is_refused_also_if_another_name_would_match(names):
    with pytest.raises(GuardRefused):
        check_url("https://good.example/", names)
    with pytest.raises(GuardRefused):
        check_url("https://good.example/", GOOD, schemes="https")


@pytest.mark.parametrize(
    ("pattern", "named", "not_named"),
    [
        ("example.com", ["example.com", "EXAMPLE.com", "example.com."], ["api.example.com", "example.org", "com", "xexample.com", "example.com.evil.tld", "example.com.."]),
        ("*.example.com", ["api.example.com", "xn--a.example.com", "API.example.com."], ["example.com", "a.b.example.com", "apiexample.com", ".example.com", "*.example.com", "a.example.com.evil.tld"]),
        ("**.example.com", ["a.example.com", "a.b.c.example.com"], ["example.com", "aexample.com", "example.com.evil.tld", ".example.com"]),
        ("**", ["a.b", "x.y.z.com"], ["localhost", "metadata", "127.0.0.1", "0x7f.1", "[::1]", "", ".", "a..b"]),
        ("*.com", ["example.com"], ["com", "a.example.com"]),
        ("**.com", ["example.com", "a.example.com"], ["com", "example.org"]),
        ("localhost", ["localhost", "LOCALHOST."], ["localhost.evil.tld", "a.localhost", "127.0.0.1", "::1"]),
        ("EXAMPLE.com.", ["example.com"], ["a.example.com"]),
        ("xn--bcher-kva.example", ["xn--bcher-kva.example", "XN--BCHER-KVA.example"], ["bücher.example", "bcher-kva.example"]),
    ],
)  # fmt: skip
def test_a_pattern_of_hosts_names_exactly_these(pattern, named, not_named):
    assert [host for host in named if not host_matches(pattern, host)] == []
    assert [host for host in not_named if host_matches(pattern, host)] == []


@pytest.mark.parametrize(
    "pattern",
    ["", "*", ".", "*.", "**.", "***", "***.com", "a.*.com", "api.*", "a*.com", "*a.com", "*.*.com", "**.*.com", "*.**", "127.0.0.1", "*.0.0.1", "**.1", "0x7f.1", "[::1]", "::1",
     "https://example.com", "example.com/", "example.com:443", "user@example.com", "bücher.example", "a b.com", "a_b.com", "-a.com", "exa\nmple.com", "example.com..", "?.com", "[ab].com",
     "a" * 64 + ".com", "a." * 127 + "com", None, 3, b"example.com", ["example.com"]],
)  # fmt: skip
def test_a_malformed_pattern_of_hosts_is_refused(pattern):
    with pytest.raises(GuardRefused) as caught:
        HostPattern(pattern)
    assert caught.value.what == "host"
    with pytest.raises(GuardRefused):
        host_matches(pattern, "example.com")


def test_a_host_name_has_a_largest_size():
    longest = ".".join(["a" * 63] * 3 + ["a" * 61])
    assert len(longest) == MAX_HOST_CHARACTERS
    assert check_host(longest + ".") == longest
    with pytest.raises(GuardRefused):
        check_host(longest + "a")
    assert split_url("https://good.example/" + "x" * (MAX_URL_CHARACTERS - 21))
    with pytest.raises(GuardRefused, match="8192"):
        split_url("https://good.example/" + "x" * (MAX_URL_CHARACTERS - 20))


def test_the_text_of_a_refusal_repeats_no_password_and_no_query():
    for url in [
        "https://me:hunter2@good.example/",
        "https://evil.tld/?token=hunter2",
        "https://good.example:hunter2/",
        "hunter2://x/",
        "https://good.example/ hunter2",
    ]:
        with pytest.raises(GuardRefused) as caught:
            check_url(url, GOOD)
        assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(split_url("https://good.example/?token=hunter2"))


class Liar(str):
    __slots__ = ()

    def lower(self):
        return "good.example"


@pytest.mark.parametrize(
    "thing", [None, 3, b"https://good.example/", ["https://good.example/"], Liar("https://evil.tld/"), urlsplit("https://good.example/")]
)
def test_what_is_no_plain_string_is_refused(thing):
    for check in (split_url, check_host):
        with pytest.raises(GuardRefused, match="plain str"):
            check(thing)
    assert not host_matches("**", thing)


@given(odd_objects)
@unhurried
def test_no_object_whatsoever_makes_a_check_fail_in_another_way(thing):
    for check in (split_url, check_host, HostPattern):
        with pytest.raises(GuardRefused):
            check(thing)


bits = st.sampled_from(
    ["good.example", "api.", "evil.tld", "@", ":", ":443", "/", "//", "?", "#", ".", "\\", "%2e", "%40", "127.0.0.1", "[::1]", "0x7f.1", "\t", "\n", "\u3002", "https:", "http:", "x", "&", ";"]
)  # fmt: skip
urls = st.one_of(
    st.tuples(st.lists(bits, max_size=5).map("".join), st.lists(bits, max_size=4).map("".join)).map(
        lambda both: f"https://{both[0]}/{both[1]}"
    ),
    st.tuples(
        st.sampled_from(["", "api.", "a-1.", "A."]),
        st.lists(st.sampled_from(["x", "/", "?", "@evil.tld", "%2e", ":443", "#"]), max_size=4).map("".join),
    ).map(lambda both: f"https://{both[0]}good.example/{both[1]}"),
    st.text(max_size=20).map(lambda text: f"https://{text}"),
)


def host_by_hand(url):
    """The host as several careless readers would find it; all of them end it at a '/', if at nothing else."""
    found = set()
    rest = url.partition("://")[2]
    for ends in ("/", "/?", "/#", "/?#", "/?#\\;"):
        authority = rest
        for end in ends:
            authority = authority.partition(end)[0]
        for at in (authority, authority.rpartition("@")[2], authority.partition("@")[0]):
            found.add(at.partition(":")[0].lower().removesuffix("."))
    found.add((urlsplit(url).hostname or "").removesuffix("."))
    return found


@given(urls)
@example("https://good.example:443@evil.tld/")
@settings(unhurried, max_examples=examples(500))
def test_a_url_that_passes_has_the_good_host_for_every_reader(url):
    try:
        parsed = check_url(url, GOOD)
    except GuardRefused:
        return
    assert parsed.host in ("good.example", "api.good.example", "a-1.good.example", "a.good.example", "x.good.example")
    assert host_by_hand(url) == {parsed.host}


def test_the_urls_of_the_law_pass_often_enough_for_it_to_mean_something():
    seen = []

    @given(urls)
    @settings(unhurried, max_examples=400, database=None, derandomize=True)
    def draw(url):
        try:
            check_url(url, GOOD)
        except GuardRefused:
            seen.append(False)
        else:
            seen.append(True)

    draw()
    assert 0.15 < sum(seen) / len(seen) < 0.9


@given(st.text(max_size=40))
@settings(unhurried, max_examples=examples(300))
def test_any_text_is_taken_apart_or_refused(text):
    for url in (text, f"https://{text}", f"https://{text}/", f"https://good.example{text}"):
        try:
            parsed = split_url(url)
        except GuardRefused:
            continue
        assert check_host(parsed.host) == parsed.host
        assert 1 <= parsed.port <= 65535
        assert parsed.target.startswith("/")
        assert "#" not in parsed.target


def test_no_character_but_those_of_host_names_is_let_into_a_host():
    folding = [
        number
        for number in range(sys.maxunicode + 1)
        if unicodedata.normalize("NFKC", chr(number)).isascii() or chr(number).casefold().isascii()
    ]
    assert len(folding) > 1000
    let_in = {chr(number) for number in {*range(0x500), *folding} if host_matches("**", f"a{chr(number)}b.example")}
    assert let_in == set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")
