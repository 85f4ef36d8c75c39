"""Wikitext: the running text is kept, everything else is dropped, and the time is linear."""

import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from properties import up_to

from cr5.sources.wikipedia.wikitext import HIDDEN_PREFIXES, is_disambiguation, is_redirect, plain_text

SIGNS = [
    "{{", "}}", "{{{", "}}}", "{|", "\n|}", "\n{|", "\n|-", "|", "[[", "]]", "[", "]", "File:", ":", "<ref>", "</ref>",
    "<ref ", "/>", ">", "<", "<!--", "-->", "<math>", "</math>", "'''", "''", "'", "\n==", "==", "\n*", "#", ";", "\n",
    "__", "TOC", "-{", "}-", "zh:", "&", "&#", "9" * 9, "x41", ";", "http://", "[http://", " ", "\t", "word",
    "é", "漢", "!",
]  # fmt: skip

words = st.text(st.characters(categories=["L", "M", "N"]), min_size=1, max_size=9)
prose = st.lists(st.lists(words, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=4).map(".\n".join)
soup = st.lists(st.sampled_from(SIGNS) | st.characters(), max_size=40).map("".join)
relaxed = settings(max_examples=up_to(100), deadline=None)


# Constructs


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        # links
        ("[[dog]]s and [[cat|cats]]", "dogs and cats"),
        ("[[Dog#Breeds|breeds]] [[Star Trek: Discovery]]", "breeds Star Trek: Discovery"),
        ("[[2001: A Space Odyssey|2001: the film]]", "2001: the film"),
        ("[[:Category:Dogs|dogs]], [[:de:Hund]]", "dogs, de:Hund"),
        ("[[wikt:dog|dog]] [[Portal:Dogs]]", "dog Portal:Dogs"),
        ("a[[de:Hund]][[zh-min-nan:Káu]][[Category:Dogs]]b", "ab"),
        ("[[ category : Dogs|D]]x", "x"),
        ("[[Category_talk:Dogs|talk]]", "talk"),
        ("[[a|b|c]] [[a|]] [[a| ]]b", "b|c a b"),
        ("the [[dog\nhouse|dog\nhouse]]", "the dog\nhouse"),
        ("[[foo [bar]]] [https://x.org [[a]] b]", "foo [bar] a b"),
        # files
        ("[[File:Dog.jpg|thumb|A [[dog]] and [[cat|two cats]], see [http://x.org here]]]The dog", "The dog"),
        ("[[Image:x.png]]a[[file:y.svg|b]]", "a"),
        ("[[Unheard of:Dog.JPEG |120px|dog]]a", "a"),
        ("[[:File:Dog.jpg|the picture]]", "the picture"),
        # templates
        ("a{{b|c={{d|[[e]]}}|{{{f|g}}}}}h", "ah"),
        ("{{{1|x}}}a{{{{{b}}} c}}d{{{{e}}|f}}", "ad"),
        ("{{#if:{{{1|}}}|yes|no}}a{{formatnum:1234}}{{PAGENAME}}b", "ab"),
        ("{{Infobox\n| a = b\n|}}\nDog", "Dog"),
        ("a{{b|\n||{{{c|\n|}}}}}d", "ad"),
        ("{{a|{{b|{{c\n|}}}}}}d", "d"),
        # tables
        ('a\n{| class="x"\n|-\n! h !! i\n|-\n| b || {{c|}}\n|}\nd', "a\n\nd"),
        ("a\n{|\n| b\n{|\n| c\n|}\n| d\n|}\ne", "a\n\ne"),
        (":{|\n|a\n  |}b", "b"),
        ("{{a|\n{|\n| b\n|}}}c", "c"),
        ("{|\n| {{a|{{{b|\n|}}}}}\n|}c", "c"),
        ("{|\n|\n{{a|\n{|\n| b\n|}}}\n| c\n|}d", "d"),
        ("<table><tr><td>a</td></tr></table>b", "b"),
        # notes and other tags
        ("a<ref>b {{c|d}} [[e]]</ref><ref name=f />g<REF group='x'>h</Ref >i", "agi"),
        ("a<references>\n<ref>b</ref>\n</references>c<references />", "ac"),
        (r"a<math>\frac{{a}}{b}</math>b<nowiki>[[</nowiki>c<nowiki/>d", "abcd"),
        ("<gallery>\nDog.jpg|[[dog]]\n</gallery>a<syntaxhighlight lang=c>{{</syntaxhighlight>", "a"),
        ("<score>c</score><timeline>d</timeline><chem>H2O</chem><pre>x</pre>a", "a"),
        ("H<sub>2</sub>O <small>a <span style='x'>b</span></small> <big >c</big>", "H2O a b c"),
        ("a<br>b<br />c<p>d</p><div class='x'>e</div>f", "a\nb\nc\nd\n\ne\nf"),
        ("<poem>roses\nare</poem><blockquote>red</blockquote>", "roses\nare\n\nred"),
        ("if x <y and z> 1, <unknown>tag</unknown>", "if x <y and z> 1, <unknown>tag</unknown>"),
        ("a<!-- {{ [[ -->b<!---->c", "abc"),
        # the rest
        ("'''Dog''' ''canis'' '''''both''''' l''''orso''' d'oro 'x'", "Dog canis both l'orso d'oro 'x'"),
        ("== Breeds ==\ntext\n===Small===\n=== a = b ===  \nmore", "Breeds\ntext\nSmall\na = b\nmore"),
        ("* a\n** b\n# c\n:; d\n----\ne", "a\nb\nc\nd\n\ne"),
        ("[https://x.org/?a=b the site] [//y.org it] [mailto:a@b.c me] [https://z.org] [sic]", "the site it me [sic]"),
        ("see https://x.org/a_(b), or", "see or"),
        ("a&nbsp;b &amp; c&#44; &#x64; &lt;ref&gt; &eacute; &unknown; AT&T", "a b & c, d <ref> é &unknown; AT&T"),
        ("__NOTOC__a __KEIN_INHALTSVERZEICHNIS__ b__目次非表示__ snake_case", "a b snake_case"),
        ("-{zh-hans:计算机; zh-hant:電腦}- -{T|题}- -{H|zh:a}- -{R|b}- -{A|zh-cn:c;zh-tw:d}- -{e}-", "计算机 b c e"),
        ("a\r\n== b ==\r\n* c", "a\nb\nc"),
        ("a\n\n\n\n  b \t c\n", "a\n\nb c"),
        ("", ""),
    ],
)
def test_each_construct_gives_its_running_text(wikitext: str, text: str) -> None:
    found = plain_text(wikitext)
    assert [" ".join(line.split()) for line in found.split("\n")] == text.split("\n")


@pytest.mark.parametrize(
    "link",
    [
        "Datei:Hund.jpg|mini|Ein [[Hund]]", "Fichier:Chien.jpg", "Archivo:P.jpg", "Ficheiro:C|x", "Bestand:H", "Plik:P",
        "Файл:С.jpg|мини", "Изображение:С", "Fil:H", "Billede:H", "Tiedosto:K", "Soubor:P", "Fájl:K", "Tập tin:C",
        "Tập_tin:C", "Hình:C", "Berkas:A", "Dosya:K", "ملف:ك", "پرونده:س", "קובץ:כ", "ファイル:犬", "파일:개",
        "文件:狗", "檔案:狗", "चित्र:क", "চিত্র:ক", "ไฟล์:ห", "Αρχείο:Σ", "Kategorie:Hund", "Catégorie:C",
        "Categoría:P", "Kategori:H", "Категория:С", "Thể loại:C", "تصنيف:ك", "رده:س", "קטגוריה:כ", "カテゴリ:犬",
        "분류:개", "分类:狗", "分類:狗", "श्रेणी:क",
    ],
)  # fmt: skip
def test_files_and_categories_are_dropped_in_many_languages(link: str) -> None:
    assert plain_text(f"a [[{link}]]b") == "a b"


def test_further_namespaces_can_be_hidden() -> None:
    assert plain_text("[[Restr-dielfennañ:Ki|ki]]") == "ki"
    assert plain_text("[[Restr-dielfennañ:Ki|ki]]", HIDDEN_PREFIXES | {"restr-dielfennañ"}) == ""


ARTICLES = {
    "da": (
        "{{Infoboks dyr|navn=Hund}}\n[[Fil:Hund.jpg|thumb|En [[hund]]]]\n'''Hunden''' (''Canis'') er et [[pattedyr]]."
        "<ref>x</ref>\n\n== Avl ==\n* [[Puddel|Pudler]]\n[[Kategori:Hunde]]\n[[en:Dog]]",
        "Hunden (Canis) er et pattedyr.\n\nAvl\nPudler",
    ),
    "vi": (
        "{{Bảng phân loại|tên=Chó}}[[Tập tin:Chó.jpg|nhỏ|phải]]'''Chó''' là một loài [[động vật có vú|thú]]&nbsp;"
        "nuôi.\n{| class=wikitable\n| 1 || 2\n|}\n[[Thể loại:Chó]]",
        "Chó là một loài thú nuôi.",
    ),
    "ja": (
        "{{生物分類表}}\n'''イヌ'''（犬、{{lang-la|Canis}}）は、[[ネコ目|食肉目]]の"
        "[[動物]]である<ref name='a' />。\n{{DEFAULTSORT:いぬ}}\n[[Category:犬]]",
        "イヌ（犬、）は、食肉目の動物である。",
    ),
    "ar": ("[[ملف:كلب.jpg|تصغير]]'''الكلب''' من [[ثدييات|الثدييات]].\n[[تصنيف:كلاب]]", "الكلب من الثدييات."),
}


@pytest.mark.parametrize("lang", ARTICLES)
def test_an_article_becomes_its_sentences(lang: str) -> None:
    wikitext, text = ARTICLES[lang]
    assert plain_text(wikitext) == text


# Broken markup


@pytest.mark.parametrize(
    ("wikitext", "text"),
    [
        ("a {{b c [[d]] e", "a b c d e"),
        ("{{Infobox\n| a = b\n| c = [[d]]\n\n'''Dog''' is", "Infobox\n\nDog is"),
        ("a }} b ]] c \n|} d --> e </ref> f -{ g }- h", "a b c\nd --> e f g h"),
        ('a\n{| class="x"\n|-\n! scope="col" | h\n| b\n\nc', "a\n\nc"),
        ("a [[b [[c]] d", "a b c d"),
        ("a [[b|c [[d|e]] f]] g", "a c e f g"),
        ("[[File:a.jpg|b [[c]] d", "File:a.jpg|b c d"),
        ("a <ref>b c", "a b c"),
        ("a <ref>b</ref> <ref>c d <math>e", "a c d e"),
        ("a <ref b", "a <ref b"),
        ("a <!-- b", "a"),
        ("a '''b ''c", "a b c"),
        ("a [http://b c", "a [ c"),
        ("== a\nb ==", "== a\nb =="),
        ("{{a|{|\n|b}}c\n|}d", "c\nd"),
        ("{|\n|{{a\n|}\nb}}c", "bc"),
        ("a\n|}} b\n|}}} c", "a\nb\nc"),
        ("&#99999999999; &#xFFFFFFFFF; &#1114112; &#xD800;", "&#99999999999; &#xFFFFFFFFF; \ufffd \ufffd"),
    ],
)
def test_broken_markup_keeps_its_words(wikitext: str, text: str) -> None:
    found = plain_text(wikitext)
    assert [" ".join(line.split()) for line in found.split("\n")] == text.split("\n")


# Properties of all texts


@given(prose)
@relaxed
def test_text_without_markup_is_unchanged(text: str) -> None:
    assert plain_text(text) == text


@given(
    prose,
    st.recursive(
        st.text("xy|= [*'\n", max_size=8),
        lambda inner: st.lists(inner, max_size=3).map(lambda parts: "{{" + " ".join(parts) + "}}"),
        max_leaves=6,
    ),
    prose,
)
@relaxed
def test_templates_are_dropped_with_their_content(before: str, inside: str, after: str) -> None:
    assert plain_text(f"{before}.{{{{t|{inside}|{{{{{{p|{inside}}}}}}}}}}}{after}") == f"{before}.{after}"


@given(prose, soup.filter(lambda text: "ref" not in text and "--" not in text), prose)
@relaxed
def test_footnotes_are_dropped_with_their_content(before: str, inside: str, after: str) -> None:
    assert plain_text(f"{before}.<ref>{inside}</ref>{after}") == f"{before}.{after}"


@pytest.mark.slow
@given(prose, words, words, prose)
@relaxed
def test_a_link_is_replaced_by_its_label(before: str, target: str, shown: str, after: str) -> None:
    assert plain_text(f"{before} [[{target}|{shown}]] {after}") == f"{before} {shown} {after}"
    assert plain_text(f"{before} [[{target}]] {after}") == f"{before} {target} {after}"


@given(soup | st.text())
@example("&#" + "9" * 5000 + ";")
@settings(max_examples=up_to(400), deadline=None)
def test_arbitrary_text_becomes_tidy_text(wikitext: str) -> None:
    text = plain_text(wikitext)
    assert text == text.strip(" \n")
    assert "  " not in text
    assert "\n\n\n" not in text
    is_redirect(wikitext)
    is_disambiguation(wikitext)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(
    "unit",
    [
        "{{", "[[", "'''", "{|", "\n{|", "\n|}", "<ref>", "<ref", "<ref/>", "<!--", "<", "</", "<br", "[http:", "[//a",
        "__a", "__a_", "_", "-{", "&#", "&a", " ", "\t", "\n ", "\n==a", "= a", "\n=a =", "[[a|", "[[File:",
        "[[File:a|[[b",
        "{|\n", "\n|}}", "\n|}}}", "{{\n|}}}", "{|{{", "{{{|\n|}", "<ref>{{", "<ref></math>",
        "[[a{{", "{{{{a}}", "<math>{{", "[[a|b:", "\n!a", "\n!!", "-{a:", "#a", "{{ ", "http://",
    ],
)  # fmt: skip
def test_the_time_is_linear_for_any_text(unit: str, closed: bool) -> None:
    closers = ("]]" + "}}" + "\n|}") * (3750 if closed else 0)
    assert seconds(unit, closers, 4) < 10 * seconds(unit, closers, 1) + 0.1  # 4 times would be exact, 16 quadratic


@pytest.mark.slow
@given(st.lists(st.sampled_from(SIGNS), min_size=1, max_size=4).map("".join), soup)
@settings(max_examples=up_to(40), deadline=None)
def test_the_time_is_linear_for_any_repetition(unit: str, after: str) -> None:
    assert seconds(unit, after, 4) < 10 * seconds(unit, after, 1) + 0.1


def seconds(unit: str, after: str, times: int) -> float:
    """How long it takes to read a unit again and again, and what comes after as often: the better of two times."""
    text = unit * (30_000 * times // len(unit)) + after * times
    return min(_seconds(text), _seconds(text))


def _seconds(text: str) -> float:
    start = time.process_time()
    plain_text(text)
    is_redirect(text)
    is_disambiguation(text)
    return time.process_time() - start


# Pages that are not articles


@pytest.mark.parametrize(
    "wikitext",
    [
        "#REDIRECT [[Dog]]", "#redirect[[Dog]]", "\n# REDIRECT: [[Dog#Breeds]] {{R from plural}}",
        "#WEITERLEITUNG [[Hund]]", "#RINVIA [[Cane]]", "#đổi [[Chó]]", "#перенаправление [[Собака]]",
        "#تحويل [[كلب]]", "#تغییر_مسیر [[سگ]]", "#رجوع مکرر [[کتا]]", "#पुनर्प्रेषित [[कुत्ता]]",
        "＃転送 [[犬]]", "#重定向 [[狗]]", "#넘겨주기 [[개]]", "#OHJAUS [[Koira]]",
    ],
)  # fmt: skip
def test_redirects_are_recognised_in_any_language(wikitext: str) -> None:
    assert is_redirect(wikitext)


@pytest.mark.parametrize(
    "wikitext", ["", "A [[dog]].", "#REDIRECT", "See #REDIRECT [[Dog]]", "== a ==\n# [[b]]", "# [[b]]"]
)
def test_articles_are_not_redirects(wikitext: str) -> None:
    assert not is_redirect(wikitext)


@pytest.mark.parametrize(
    "wikitext",
    [
        "{{disambig}}", "a\n{{Disambiguation|geo}}", "{{ human name disambiguation }}", "{{hndis|Smith}}",
        "{{Begriffsklärung}}", "{{Disambigua}}", "{{Homonymie}}", "{{desambiguación}}", "{{Desambiguação}}",
        "{{dp}}", "{{Flertydig}}", "{{peker}}", "{{Неоднозначность}}", "{{trang_định_hướng}}", "{{định hướng}}",
        "{{aimai}}", "{{توضيح}}", "{{消歧义}}", "{{동음이의}}", "{{פירושונים}}", "{{అయోమయ నివృత్తి}}", "__DISAMBIG__",
    ],
)  # fmt: skip
def test_disambiguation_pages_are_recognised_in_many_languages(wikitext: str) -> None:
    assert is_disambiguation(wikitext)


@pytest.mark.parametrize(
    "wikitext",
    ["", "{{Begriffsklärungshinweis}}", "{{nota disambigua}}", "{{disambiguation needed}}", "disambig", "{{x|dp}}"],
)
def test_pages_with_hatnotes_are_not_disambiguation_pages(wikitext: str) -> None:
    assert not is_disambiguation(wikitext)
