"""What extraction from PDF files does to letters changes no score; real words are never joined."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.text.letters import mask_letters, mended, plain_letters
from ragtide_consumers.text.sentences import cut, place_sentences

pytestmark = pytest.mark.pure

QUESTION = "What is the final efficiency, and what is verified?"
RIGHT = "The final efficiency of the flow is 85 percent. The configuration file is verified."
WRONG = "The final efficiency of the flow is 45 percent. The warranty file is deleted."

FORMS = {
    "soft hyphens": "The final effi\u00adciency of the flow is 85 per\u00adcent."
    " The configu\u00adration file is veri\u00adfied.",
    "soft hyphens at line ends": "The final effi\u00ad\nciency of the flow is 85 per\u00ad \ncent."
    " The configu\u00ad\xa0\nration file is veri\u00ad\r\nfied.",
    "soft hyphens in joined lines": "The final effi\u00ad ciency of the flow is 85 per\u00ad cent."
    " The configu¬ ration file is veri\u00ad fied.",
    "hyphens at line ends": "The final effi-\nciency of the flow is 85 per- \ncent."
    " The configu-\xa0\nration file is veri¬\nfied.",
    "hyphens before empty lines": "The final effi-\n\nciency of the flow is 85 per- \n \t\n\ncent."
    " The configu-\r\n\r\nration file is veri\u00ad\n\nfied.",
    "hyphens in joined lines": "The final effi- ciency of the flow is 85 per- cent."
    " The configu- ration file is veri- fied.",
    "ligatures": "The ﬁnal eﬃciency of the ﬂow is 85 percent. The conﬁguration ﬁle is veriﬁed.",
    "ligatures alone": "The  fi nal e ffi ciency of the fl ow is 85 percent. The con fi guration fi le is veri fi ed.",
    "ligatures with the end": "The final e fficiency of the flow is 85 percent. The con figuration file is veri fied.",
    "ligatures with the begin": "The fi nal effi ciency of the fl ow is 85 percent."
    " The confi guration fi le is verifi ed.",
    "spaces for ligatures": "The nal e ciency of the ow is 85 percent. The con guration le is veri ed.",
    "nothing for ligatures": "The nal eciency of the ow is 85 percent. The conguration le is veried.",
    "replacement characters": "The \ufffdnal e\ufffdciency of the \ufffdow is 85 percent."
    " The con\ufffdguration \ufffdle is veri\ufffded.",
    "private characters": "The \uf001nal e\uf003ciency of the \uf002ow is 85 percent."
    " The con\uf001guration \uf001le is veri\uf001ed.",
    "controls of TeX": "The \x0cnal e\x0eciency of the \x0cow is 85 percent. The con\x0cguration \x0cle is veri\x0ced.",
    "controls of newer TeX": "The \x1cnal e\x1eciency of the \x1dow is 85 percent."
    " The con\x1cguration \x1cle is veri\x1ced.",
    "characters without width": "The fi\u200bnal effi\u200bciency of the flow is 85 per\u2060cent."
    " The confi\ufeffguration file is veri\u200bfied.",
    "full width": "Ｔｈｅ ｆｉｎａｌ ｅｆｆｉｃｉｅｎｃｙ ｏｆ ｔｈｅ ｆｌｏｗ ｉｓ ８５ ｐｅｒｃｅｎｔ."
    " The configuration file is verified.",
    "letters of formulas": "The 𝐟𝐢𝐧𝐚𝐥 𝑒𝑓𝑓𝑖𝑐𝑖𝑒𝑛𝑐𝑦 of the flow is 𝟖𝟓 percent. The configuration file is verified.",
    "noncharacters for hyphens": "The final effi\ufffe\nciency of the flow is 85 per\uffffcent."
    " The configu\x02ration file is veri\x02\nfied.",
    "hyphens that do not break": "The final effi\u2011\nciency of the flow is 85 percent."
    " The configuration file is verified.",
    "numbers of glyphs": "The (cid:2)nal e(cid:3)ciency of the (cid:4)ow is 85 percent."
    " The con(cid:2)guration (cid:2)le is veri(cid:2)ed.",
    "zeros": "The final effi\u200dciency of the flow is 85 percent. The con\x00guration file is veri\x00ed.",
    "single letters": "The f i n a l efficiency of the f l o w is 85 percent. The configuration file is verified.",
}


def scored(document: str, response: str, question: str = QUESTION) -> float:
    row = RagInteraction(pipeline="p", question=question, documents=[document], response=response)
    return LocalLabeler().label_now(row).scores["trace.adherence"]


@pytest.mark.parametrize("form", FORMS)
def test_a_right_answer_scores_as_with_whole_letters_and_a_wrong_one_below(form: str) -> None:
    plain, wrong = scored(RIGHT, RIGHT), scored(RIGHT, WRONG)
    assert scored(FORMS[form], RIGHT) == pytest.approx(plain, abs=0.02)
    assert scored(RIGHT, FORMS[form]) == pytest.approx(plain, abs=0.02)
    assert scored(FORMS[form], WRONG) == pytest.approx(wrong, abs=0.02)


@pytest.mark.parametrize("form", FORMS)
def test_the_shown_sentences_are_those_of_the_text(form: str) -> None:
    row = RagInteraction(pipeline="p", question=QUESTION, documents=[FORMS[form]], response=RIGHT)
    found = cut(row)
    assert len(found.documents[0]) == len(found.plain_documents[0]) == 2
    assert place_sentences(FORMS[form], found.documents[0])[0] == FORMS[form]


def test_letters_with_accents_apart_are_the_same_letters() -> None:
    for text in (
        "The café's naïve résumé was reviewed in 2020 by Zoë. It is good.",
        "La pompe est vérifiée à l’été par un employé qualifié. Le débit est réglé à 5 litres.",
        "Ёлку купили в декабре. Её украсили шарами, и она всем понравилась.",
    ):
        question = "Qu'est-ce qui est vérifié?" if "pompe" in text else text.partition(" ")[2]
        assert scored(unicodedata.normalize("NFD", text), text, question) == pytest.approx(scored(text, text, question))


@pytest.mark.parametrize(
    "apart",
    [
        "r´esum´e Fr´ed´eric Poincar´e fu¨r",
        "re´sume´ Fre´de´ric Poincare´ fu¨r",
        "r \u0301esum \u0301e Fr \u0301ed \u0301eric Poincare \u0301 f¨ur",
    ],
)
def test_an_accent_beside_its_letter_is_on_it_if_the_other_side_has_the_word(apart: str) -> None:
    whole = "The résumé by Frédéric Poincaré für"
    for text, others in ((apart, whole), (f"The {apart} is, here.", whole)):
        ((found,),), _ = mended([[plain_letters(text)]], [others], "")
        assert found == text.replace(apart, "résumé Frédéric Poincaré für")
        assert mended([[RIGHT]], [plain_letters(text)], "")[1] == [plain_letters(text)]


def test_greek_capitals_are_the_same_letters() -> None:
    text = "Η αντλία συντηρείται κάθε 6 μήνες. Το φίλτρο καθαρίζεται με ζεστό νερό."
    capitals = "Η ΑΝΤΛΙΑ ΣΥΝΤΗΡΕΙΤΑΙ ΚΑΘΕ 6 ΜΗΝΕΣ. ΤΟ ΦΙΛΤΡΟ ΚΑΘΑΡΙΖΕΤΑΙ ΜΕ ΖΕΣΤΟ ΝΕΡΟ."
    question = "Πώς συντηρείται η αντλία;"
    assert scored(capitals, text, question) == pytest.approx(scored(text, text, question), abs=0.02)


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("It is sci fi on wi fi and Wi-Fi.", RIGHT),
        ("el fi n de la página", "The page has an end."),
        ("va fi bun, a fi sau a nu fi", "A fi bun este final."),
        ("It ends in finite time.", "It ends in infinite time."),
        ("a fire and a float", "It is afire and afloat."),
        ("pre- and post-war", "prewar and postwar"),
        ("a work flow in firm hands", "The workflow of infirm hands."),
        ("The ash is in the cone of cold air.", "The flash is in the confine of cold flair."),
        ("Put the ash away.", "Put the flash away."),
        ("Der le Mann", "The file of the man."),
        ("x = a ff b", RIGHT),
        ("Take l´eau and don´t say `a`, 5´ or it´s.", "L eau, don t, A, its."),
    ],
)
def test_real_words_are_never_joined(text: str, others: str) -> None:
    assert mended([[text]], [others], "")[0] == [[text]]


def test_a_word_is_joined_as_the_other_side_has_it() -> None:
    assert mended([["el fi n de la página"]], ["Al fin."], "") == ([["el fin de la página"]], ["Al fin."])
    assert mended([[RIGHT]], ["Veri fi ed by the o ffi ce."], "")[1] == ["Verified by the o ffi ce."]


@given(
    st.text(st.sampled_from("fil aeo-\u00ad\u200b\ufffd\x0c\n."), max_size=60),
    st.text(st.sampled_from("filaeo "), max_size=40),
)
def test_only_blanks_and_ligatures_change(text: str, others: str) -> None:
    assert len(mask_letters(text)) == len(text)
    sentences = text.split("\n")
    (found,), response = mended([sentences], [others], "")
    assert len(found) == len(sentences)
    assert [*response] == [others]
    for before, after in zip(sentences, found, strict=True):
        rest = iter(after)
        assert all(letter in rest for letter in before if letter.isalpha())
        assert set(after) <= set(before) | set("fil")


@given(st.text(max_size=60) | st.text(st.sampled_from("aeuZ ¨ˆ˜ˇ˚¸\u0301\u0304ﬁ"), max_size=12))
def test_plain_letters_are_plain(text: str) -> None:
    found = plain_letters(text)
    assert plain_letters(found) == found


@pytest.mark.parametrize(
    "unit", ["fi ", "f", "a fi b ", "a ", "a- b ", "veri ed ", "\ufffd", "\u00ad", "final ", "ﬁ", "x\x0c", "塔"]
)
def test_the_time_grows_with_the_length(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    words = " ".join(f"{chr(97 + number % 26)}{number}fi{number % 89}ff" for number in range(5_000))
    started = time.process_time()
    mask_letters(text)
    plain_letters(text)
    mended([[text]], [RIGHT], "")
    mended([[words]], [text[:50_000]], "")
    # A guard against quadratic work, which takes minutes for so much: no measurement.
    assert time.process_time() - started < 8
