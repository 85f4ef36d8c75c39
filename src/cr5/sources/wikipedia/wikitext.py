"""Wikitext, the markup of MediaWiki: converting it to plain text.

Everything but running text is dropped: templates, tables, footnotes, files, formulas. Broken markup loses its brackets
and keeps its words, as on the wiki itself. The time is linear in the length of any text: brackets are matched with a
stack, and no regular expression backtracks.
"""

import html
import re
from collections.abc import Set

# Opaque tags are dropped with their content, block tags become line breaks, inline tags are dropped without their
# content. Unknown tags are text.
_OPAQUE_TAGS = (
    "categorytree ce chem gallery graph hiero imagemap includeonly indicator inputbox mapframe maplink math nowiki "
    "phonos pre ref references score script source style syntaxhighlight table templatedata templatestyles timeline"
)
_BLOCK_TAGS = "blockquote br caption center dd div dl dt h1 h2 h3 h4 h5 h6 hr li ol p poem tbody td th tr ul"
_INLINE_TAGS = (
    "abbr b bdi bdo big cite code data del dfn em font i ins kbd mark noinclude onlyinclude q rb rp rt rtc ruby s samp "
    "section small span strike strong sub sup time translate tt u var wbr"
)
_CLOSING_TAGS = {name: re.compile(rf"</{name}\s*+>", re.IGNORECASE) for name in _OPAQUE_TAGS.split()}
_TAG_REPLACEMENTS = dict.fromkeys(_BLOCK_TAGS.split(), "\n") | dict.fromkeys(
    [*_INLINE_TAGS.split(), *_OPAQUE_TAGS.split()], ""
)
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9]*+)(?![^\s/>])[^<>]*+>")
_TAG_OR_COMMENT = re.compile(r"<(?:!--|([a-zA-Z]++)(?=[\s/>])[^<>]*+>)")

# A run of braces is one token: {{{1|{{a}}}}} opens with three braces and closes with five. The end of a table, |},
# must begin a line, because a template such as {{a|}} ends in the same characters.
_BRACES = re.compile(r"(\{\{++|\}\}++|\{\||\n[ \t]*+\|\}++)")
_PLAIN_LINK = re.compile(r"\[\[(?:[^\[\]|:]*+\|)?+([^\[\]|:]++)\]\]")
_BRACKETS = re.compile(r"(\[\[|\]\](?!\](?!\])))")  # the first bracket of ]]] belongs to other markup

_VARIANTS = re.compile(r"-\{([^{}]*+)\}-")
_VARIANT = re.compile(r"\s*+[a-z]++(?:-[a-z]++)*+\s*+:")
_EXTERNAL_LINK = re.compile(r"\[(?:mailto:|(?:[a-zA-Z]{2,12}:)?//)[^\s\[\]]*+([^\[\]\n]*+)\]")
_URL = re.compile(r"https?://[^\s\[\]<>|{}]++")
_FOUR_QUOTES = re.compile(r"(?<!')''''(?!')")  # an apostrophe and three quotes
_QUOTES = re.compile(r"''++")
_MAGIC_WORD = re.compile(r"__[^\W_]++(?:_[^\W_]++)*+__")
_TABLE_LINES = re.compile(r"\n[ \t]*+(?:\||![^\n|!]*+(?:\||!!))[^\n]*+")  # of unclosed templates and tables
_HEADING = re.compile(r"(\n)=++([^\n]*[^=\s])[ \t]*+=++[ \t]*+(?=\n|\Z)")
_MARKERS = re.compile(r"\n(?:[*#:;]++|-{4,}+)")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")

_REDIRECT = re.compile(
    r"\s*+[#＃]\s*+[^\s\[\]{}|<>#:]{2,40}(?: [^\s\[\]{}|<>#:]{2,40})?+\s*+:?+\s*+\[\[[^\[\]\n]++\]\]"
)
_TEMPLATE_NAME = re.compile(r"\{\{\s*+([^{}|<>\n]{2,60})")
_FILE_SUFFIXES = (
    ".jpg", ".jpeg", ".png", ".svg", ".gif", ".tif", ".tiff", ".webp", ".xcf", ".pdf", ".djvu", ".stl",
    ".ogg", ".oga", ".ogv", ".opus", ".mp3", ".wav", ".flac", ".mid", ".midi", ".webm", ".mpg", ".mpeg",
)  # fmt: skip

# In lower case: the names of namespaces and templates in the larger Wikipedias, and the codes of the Wikipedias.
_FILE_NAMESPACES = """
    afbeelding, archivo, arquivo, attēls, beeld, berkas, bestand, bild, bilde, billede, datei, datoteka, delwedd,
    dosiero, dosya, fail, faili, fasciculus, fayl, ficheiro, ficheru, fichier, fichièr, figura, fil, file,
    fitxategi, fitxer, fişier, fișier, fájl, gambar, grafika, hình, image, imagem, imagen, imagine, imago, imatge,
    imaxe, imaxen, imej, immagine, irudi, kuva, kép, larawan, lêer, mynd, obrázek, obrázok, payl, paypay, pel,
    picha, pilt, plik, resim, restr, sary, skeda, skeudenn, slika, soubor, súbor, talaksan, tasvir, tiedosto, tập
    tin, vaizdas, wêne, íomhá, şəkil, αρχείο, εικόνα, выява, датотека, зображення, зураг, изображение, картинка,
    податотека, рәсем, слика, сурет, файл, պատկեր, ֆայլ, קובץ, תמונה, تصویر, صورة, صوره, ملف, وێنە, پرونده, پەڕگە,
    चित्र, চিত্র, ਤਸਵੀਰ, ਫ਼ਾਈਲ, ચિત્ર, படிமம், దస్త్రం, బొమ్మ, ಚಿತ್ರ, ചിത്രം, പ്രമാണം, ගොනුව, ภาพ, ไฟล์, ဖိုင်,
    სურათი, ფაილი, ឯកសារ, ファイル, 图像, 图片, 圖像, 圖片, 文件, 档案, 檔案, 画像, 그림, 파일
"""
_CATEGORY_NAMESPACES = """
    catagóir, categori, categoria, categorie, category, categoría, catégorie, flokkur, jamii, kaarangay, kategooria,
    kategori, kategoria, kategorie, kategorija, kategorio, kategory, kategorya, kategorî, kategória, kateqoriya,
    luokka, roinn-seòrsa, rummad, sokajy, thể loại, turkum, κατηγορία, ангилал, категория, категорија, категорія,
    катэгорыя, санат, төркем, կատեգորիա, קאטעגאריע, קטגוריה, بؤلمه, تصنيف, رده, زمرہ, وېشنيزه, پۆل, वर्ग, श्रेणी,
    বিষয়শ্রেণী, ਸ਼੍ਰੇਣੀ, શ્રેણી, பகுப்பு, వర్గం, ವರ್ಗ, വർഗ്ഗം, ප්‍රවර්ගය, หมวดหมู่, ကဏ္ဍ, კატეგორია,
    ចំណាត់ថ្នាក់ក្រុម, カテゴリ, 分类, 分類, 분류
"""
_WIKI_CODES = """
    ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban bar bat-smg
    bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm bug bxr ca cbk-zam cdo ce ceb ch chr
    chy ckb co cr crh cs csb cu cv cy da dag de dga din diq dsb dtp dty dv dz ee el eml en eo es et eu ext fa fat ff
    fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc gur guw gv ha hak
    haw he hi hif hr hsb ht hu hy hyw ia id ie ig igl ik ilo inh io is it iu ja jam jbo jv ka kaa kab kbd kbp kcg kg
    kge ki kk kl km kn knc ko koi krc ks ksh ku kus kv kw ky la lad lb lbe lez lfn lg li lij lld lmo ln lo lt ltg lv
    lzh mad mai map-bms mdf mg mhr mi min mk ml mn mni mnw mos mr mrj ms mt mwl my myv mzn nah nan nap nds nds-nl ne
    new nia nl nn no nov nqo nr nrm nso nup nv ny oc olo om or os pa pag pam pap pcd pcm pdc pfl pi pl pms pnb pnt
    ps pt pwn qu rki rm rmy rn ro roa-rup roa-tara rsk ru rue rup rw sa sah sat sc scn sco sd se sg sgs sh shi shn
    si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv sw syl szl szy ta tay tcy tdd te tet tg th ti tig tk
    tl tly tn to tok tpi tr trv ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo vro wa war wo wuu xal xh
    xmf yi yo yue za zea zgh zh zh-classical zh-min-nan zh-yue zu
"""
_DISAMBIGUATION_TEMPLATES = """
    aimai, anlam ayrımı, apartigilo, argipen, aðgreining, begriffsklärig, begriffsklärung, dab, daugiareikšmis,
    desambig, desambiguació, desambiguación, desambiguação, dezambiguizare, disamb, disambig, disambigua,
    disambiguasi, disambiguation, discretiva, disheñvelout, dixebra, dmbox, doorverwijspagina, dp, dubbelsinnig,
    dəqiqləşdirmə, egyért, egyért-redir, fleirtyding, flertydig, förgrening, geodis, giklaro, gwahaniaethu, hndis,
    homonimo, homonymie, homónimos, idirdhealú, kthjellim, maana, mathdab, neibetsjuttings, nozīmju atdalīšana,
    nuorodinis, nyahkekaburan, omonimia, paglilinaw, pansayod, patronymie, peker, razdvojba, razločitev,
    razvrstavanje, roaddis, rozcestník, rozlišovacia stránka, schooldis, toponymie, trang định hướng, täpsustus,
    täpsustuslehekülg, täsmennyssivu, ujednoznacznienie, višeznačna odrednica, čvor, định hướng, αποσαφήνιση, айрық,
    багатозначність, вишезначна одредница, күп мәгънәләр, многозначность, неадназначнасць, неадназначнасьць,
    неоднозначность, пояснение, појаснување, բազմիմաստություն, פירושונים, ابهامزدایی, ابهام‌زدایی, توضيح, ضد ابہام,
    ڕوونکردنەوە, निःसंदिग्धीकरण, बहुविकल्पी, बहुविकल्पी शब्द, দ্ব্যর্থতা নিরসন, பக்கவழி நெறிப்படுத்தல், అయోమయ
    నివృత్తి, ದ್ವಂದ್ವ ನಿವಾರಣೆ, വിവക്ഷകൾ, แก้กำกวม, แก้ความกำกวม, მრავალმნიშვნელოვანი, 人名の曖昧さ回避, 地名の曖昧さ回避, 搞清楚,
    曖昧さ回避, 消歧义, 消歧義, 消除歧義, 동명이인, 동음이의
"""


def _names(listed: str) -> frozenset[str]:
    return frozenset(" ".join(name.split()) for name in listed.split(","))


HIDDEN_PREFIXES = _names(_FILE_NAMESPACES) | _names(_CATEGORY_NAMESPACES) | frozenset(_WIKI_CODES.split())
"""Prefixes, in lower case, of links that are not part of the text: files, categories, articles in other languages."""
_DISAMBIGUATION_NAMES = _names(_DISAMBIGUATION_TEMPLATES)


def plain_text(wikitext: str, hidden_prefixes: Set[str] = HIDDEN_PREFIXES) -> str:
    """Return the running text of an article; headings and list items are lines of their own.

    A link is replaced by its label, or by its target if it has none. Links with one of the ``hidden_prefixes`` and
    links to files, recognised by their suffix, are dropped; other prefixes stay, because titles may contain colons.
    Of text in several scripts, -{zh-hans:…;zh-hant:…}-, the first is kept.
    """
    text = "\n" + wikitext.replace("\r", "")  # so that every line follows a line break
    if "<" in text:
        text = _without_opaque(text)
    text = _without_links(_without_braces(text), hidden_prefixes)
    if "-{" in text:
        text = _VARIANTS.sub(_variant, text)
    if "<" in text:
        text = _TAG.sub(lambda match: _TAG_REPLACEMENTS.get(match[1].lower(), match[0]), text)
    if "[" in text:
        text = "".join(_EXTERNAL_LINK.split(text))
    if "://" in text:
        text = _URL.sub("", text)
    if "''" in text:
        text = _QUOTES.sub("", _FOUR_QUOTES.sub("'", text))
    if "__" in text:
        text = _MAGIC_WORD.sub("", text)
    text = _MARKERS.sub("\n", "".join(_HEADING.split(_TABLE_LINES.sub("", text))))
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match[0]), text)
    return _tidy(text)


def is_redirect(wikitext: str) -> bool:
    """Whether a page is a redirect: #REDIRECT [[…]], in any language.

    The <redirect> element of an XML dump is more reliable.
    """
    return _REDIRECT.match(wikitext) is not None


def is_disambiguation(wikitext: str) -> bool:
    """Whether a page is a disambiguation page, by the templates that mark these in many languages.

    The property "disambiguation" of a page_props table is more reliable.
    """
    if "__DISAMBIG__" in wikitext:
        return True
    for match in _TEMPLATE_NAME.finditer(wikitext):
        name = " ".join(match[1].replace("_", " ").split()).casefold()
        if name in _DISAMBIGUATION_NAMES or name.endswith(" disambiguation"):
            return True
    return False


def _without_opaque(text: str) -> str:
    """Drop comments, and opaque tags with their content.

    An unclosed comment extends to the end of the text; an unclosed tag has no content.
    """
    kept, done, position = [], 0, 0
    unclosed: set[str] = set()
    while tag := _TAG_OR_COMMENT.search(text, position):
        position, name = tag.end(), (tag[1] or "").lower()
        if name and (name not in _CLOSING_TAGS or name in unclosed):
            continue
        if not name:
            close = text.find("-->", position)
            position = len(text) if close < 0 else close + 3
        elif text[position - 2] != "/":
            if not (closer := _CLOSING_TAGS[name].search(text, position)):
                unclosed.add(name)  # no later tag of this name is closed either
                continue
            position = closer.end()
        kept.append(text[done : tag.start()])
        done = position
    kept.append(text[done:])
    return "".join(kept)


def _without_braces(text: str) -> str:
    """Drop templates and tables, which may be nested.

    Text is appended to ``kept`` and removed again when the end of its template or table comes; without an end it stays.
    """
    pieces = iter(_BRACES.split(text))
    kept = [next(pieces)]
    opened: list[tuple[int, int]] = []  # number of braces (0 for a table), index of the content in ``kept``
    tables = templates = 0
    for brace, piece in zip(pieces, pieces, strict=True):
        if brace == "{|":
            opened.append((0, len(kept)))
            tables += 1
            kept.append("\n|")  # if the table is unclosed, at least this line is dropped
        elif brace[0] == "{":
            opened.append((len(brace), len(kept)))
            templates += 1
        else:
            closing = brace.count("}")
            if brace[0] == "\n":
                if tables and (
                    closing == 1 or (closing > 2 and opened[-1][0] == 0)
                ):  # the first brace closes the table
                    while opened[-1][0]:
                        opened.pop()
                        templates -= 1
                    del kept[opened.pop()[1] :]
                    tables -= 1
                    closing -= 1
                kept.append("\n")
            while closing >= 2 and templates:
                braces, start = opened.pop()
                if braces == 0:
                    tables -= 1
                    continue
                del kept[start:]
                if braces - closing >= 2:
                    opened.append((braces - closing, start))
                else:
                    templates -= 1
                closing -= braces
        kept.append(piece)
    return "".join(kept)


def _without_links(text: str, hidden_prefixes: Set[str]) -> str:
    """Replace links by their labels, and drop hidden links with the links in their captions.

    If a link begins within another that is not hidden, the outer one is not a link.
    """
    text = "".join(_PLAIN_LINK.split(text))  # the common case, fast
    pieces = iter(_BRACKETS.split(text))
    kept = [next(pieces)]
    opened: list[tuple[bool, int]] = []  # whether it is hidden, index of the content in ``kept``
    for bracket, piece in zip(pieces, pieces, strict=True):
        if bracket == "[[":
            if opened and not opened[-1][0]:
                opened.pop()
            opened.append((_is_hidden(piece, hidden_prefixes), len(kept)))
        elif opened:
            is_hidden, start = opened.pop()
            if is_hidden:
                del kept[start:]
            else:
                target, _, label = "".join(kept[start:]).partition("|")
                kept[start:] = [label or target.strip(" :")]
        kept.append(piece)
    return "".join(kept)


def _is_hidden(link: str, hidden_prefixes: Set[str]) -> bool:
    target = link.partition("|")[0]
    prefix, colon, _ = target.partition(":")
    prefix = prefix.strip()
    if not prefix or not colon:
        return False
    return prefix.replace("_", " ").casefold() in hidden_prefixes or target.rstrip().lower().endswith(_FILE_SUFFIXES)


def _variant(match: re.Match[str]) -> str:
    flags, bar, rules = match[1].rpartition("|")
    if bar and flags.strip() in ("H", "T", "-"):  # applies to the rest of the page or to its title
        return ""
    first = rules.partition(";")[0]
    named = _VARIANT.match(first)
    return first[named.end() :] if named else rules


def _tidy(text: str) -> str:
    text = text.replace("\u00a0", " ").replace("\t", " ")
    while "  " in text:
        text = text.replace("  ", " ")
    text = text.replace(" \n", "\n").replace("\n ", "\n")
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text.strip(" \n")
