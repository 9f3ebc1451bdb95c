import json
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from tests.support.cases import for_each

from ragtide import LocalLabeler, RagInteraction
from ragtide_consumers.labelers.local.labeler import LANGUAGES
from ragtide_consumers.text.language_model import shipped_model
from ragtide_consumers.text.languages import language_of
from ragtide_offline.demo import demo_interactions

DATA = Path(__file__).parents[1] / "data"
SAMPLE = DATA / "ragbench/ragbench_sample.jsonl"
MULTILINGUAL = DATA / "multilingual"

SENTENCES = {
    "en": "The harbor was closed for two days because the storm had damaged its lights.",
    "ru": "Порт был закрыт на два дня, потому что шторм повредил огни.",
    "de": "Der Hafen war zwei Tage lang geschlossen, weil der Sturm die Lichter beschädigt hatte.",
    "fr": "Le port est resté fermé pendant deux jours parce que la tempête avait abîmé ses feux.",
    "es": "El puerto estuvo cerrado dos días porque la tormenta había dañado sus luces.",
    "it": "Il porto è rimasto chiuso per due giorni perché la tempesta aveva danneggiato le luci.",
    "pt": "O porto ficou fechado durante dois dias porque a tempestade danificou as suas luzes.",
    "nl": "De haven was twee dagen gesloten omdat de storm de lichten had beschadigd.",
    "pl": "Port był zamknięty przez dwa dni, ponieważ sztorm uszkodził jego światła.",
    "sv": "Hamnen var stängd i två dagar eftersom stormen hade skadat dess ljus.",
    "tr": "Fırtına ışıklarına zarar verdiği için liman iki gün boyunca kapalı kaldı.",
    "uk": "Порт був зачинений на два дні, бо шторм пошкодив його вогні.",
    "bg": "Пристанището беше затворено за два дни, защото бурята повреди светлините му.",
    "zh": "由于风暴损坏了灯光，港口关闭了两天。",
    "ja": "嵐で灯りが壊れたため、港は二日間閉鎖されました。",
    "ar": "أُغلق الميناء لمدة يومين لأن العاصفة ألحقت أضرارًا بأضوائه.",
    "fa": "بندر به مدت دو روز بسته بود زیرا طوفان به چراغ‌های آن آسیب رسانده بود.",
    "he": "הנמל היה סגור במשך יומיים משום שהסערה פגעה באורותיו.",
    "el": "Το λιμάνι έμεινε κλειστό για δύο μέρες επειδή η καταιγίδα είχε χαλάσει τα φώτα του.",
    "hi": "बंदरगाह दो दिनों तक बंद रहा क्योंकि तूफ़ान ने उसकी बत्तियों को नुकसान पहुँचाया था।",
    "id": "Pelabuhan ditutup selama dua hari karena badai telah merusak lampu-lampunya.",
    "no": "Havnen var stengt i to dager fordi stormen hadde skadet lysene, og den åpnet etter helgen.",
    "ro": "Portul a fost închis timp de două zile, pentru că furtuna îi stricase luminile.",
    "th": "ท่าเรือปิดเป็นเวลาสองวันเพราะพายุทำให้ไฟเสียหาย",
    "vi": "Cảng đã đóng cửa trong hai ngày vì cơn bão đã làm hỏng đèn của nó.",
    "ko": "폭풍으로 등불이 망가져 항구가 이틀 동안 폐쇄되었다.",
    "ur": "بندرگاہ دو دن تک بند رہی کیونکہ طوفان نے اس کی بتیوں کو نقصان پہنچایا تھا۔",
    "fi": "Satama oli suljettuna kaksi päivää, koska myrsky oli vaurioittanut sen valoja.",
}


@for_each("language", SENTENCES)
def test_a_sentence_is_told_by_its_language(language: str) -> None:
    assert language_of(SENTENCES[language]) == language


@for_each("language", SENTENCES)
def test_only_measured_languages_are_scored(language: str) -> None:
    text = SENTENCES[language]
    labeling = LocalLabeler().label_now(RagInteraction(pipeline="p", question=text, documents=[text], response=text))
    if language in LANGUAGES:
        assert labeling.scores["trace.adherence"] > 0.8
    else:
        assert labeling.scores == {}
        assert set(labeling.absent.values()) == {"language_not_supported"}


@for_each("language", SENTENCES)
@for_each("other", ["en", "de", "zh"])
def test_a_response_in_another_language_than_its_documents_is_not_scored(language: str, other: str) -> None:
    documents = [SENTENCES[other]]
    row = RagInteraction(pipeline="p", question="Why was it closed?", documents=documents, response=SENTENCES[language])
    assert bool(LocalLabeler().label_now(row).scores) is (language == other)


@for_each(
    "text, context, language",
    [
        ("In 1889.", ["When was the tower built, and who was it that built it?"], "en"),
        ("42", ["Сколько лет было этому городу, когда он сгорел?"], "ru"),
        ("42", ["Wie alt war die Stadt, als sie abgebrannt ist?"], "de"),
        ("42", [], "en"),
        ("Samsung Galaxy", [], "en"),
        ("Волга", [], "ru"),
        ("…", ["!"], "en"),
        ("東京都庁", [SENTENCES["ja"]], "ja"),
        ("東京都庁", [SENTENCES["zh"]], "zh"),
        ("Brandenburgische Landeshauptstadt Potsdam, Nauener Vorstadt", [], "und"),
    ],
)
def test_a_text_without_evidence_is_in_the_language_of_its_context(
    text: str, context: list[str], language: str
) -> None:
    assert language_of(text, context) == language


def test_real_english_answers_questions_and_documents_are_english() -> None:
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    rows += [row.model_dump() for row in demo_interactions()]
    for row in rows:
        texts = [document if isinstance(document, str) else document["text"] for document in row["documents"]]
        assert language_of(row["response"], [row["question"], *texts]) == "en"
        assert language_of(row["question"], texts) == "en"
        assert {language_of(text) for text in texts} == {"en"}


@for_each("path", sorted(MULTILINGUAL.glob("*.json")))
def test_real_paragraphs_of_a_measured_language_are_in_it(path: Path) -> None:
    paragraphs = [part for article in json.loads(path.read_text("utf-8"))["data"] for part in article["paragraphs"]]
    found = [language_of(paragraph["context"]) for paragraph in paragraphs]
    assert found.count(path.stem) >= 0.95 * len(found)
    # A question is short, but its documents tell its language.
    asked = [language_of(paragraph["qas"][0]["question"], [paragraph["context"]]) for paragraph in paragraphs]
    assert asked.count(path.stem) >= 0.95 * len(asked)


@cache
def library() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@for_each("text", [*SENTENCES.values(), SENTENCES["en"].upper(), "", "a", "42", "\ud800 x", "Δ" * 400])
def test_the_bundled_model_has_the_answers_of_its_library_to_the_bit(text: str) -> None:
    assert shipped_model().shares(text) == dict(library().rank(text))


@given(st.text(max_size=400))
def test_the_bundled_model_has_the_answers_of_its_library_for_any_text(text: str) -> None:
    assert shipped_model().shares(text) == dict(library().rank(text))
    assert shipped_model().most_probable(text) == library().classify(text)
