"""Tells which parts of an answer claim nothing: sources, links, courtesy, headings; and whether it is a refusal. No I/O.

Lists of phrases in English and Russian; refusals also in German, French and Spanish; praise of the question, hopes and
offers of help in every language of the local labeler. Phrases are compared word by word or by patterns of bounded
length, so the work is linear in the length of the answer.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from .marks import EXTENSION, FILE, WORD_OF_SOURCE, nothing, set_of

_URL: Final = re.compile(
    r"(?:\bhttps?://|\bftp://|\bwww\.)[^\s<>\"'»”“|]{1,2000}|\bdoi:\s{0,3}10\.\d{3,9}/[^\s<>\"]{1,300}", re.IGNORECASE
)
_URL_END: Final = ".,;:!?)]}*_…"

_FILE_NAME: Final = re.compile(rf"(?:[\w-]{{1,40}} ){{0,5}}{FILE}(?:[#?][\w=&.-]{{0,60}})?", re.IGNORECASE)
_AUTHORS: Final = r"[A-ZÀ-ÖА-ЯЁ][\w’'-]{1,40}(?:\s(?:and|&|und|et|и|y)\s[A-ZÀ-ÖА-ЯЁ][\w’'-]{1,40}|\set\sal\.?|\sи\sдр\.)?,?\s(?:1[89]|20)\d\d[a-z]?"
_CITATIONS: Final = re.compile(
    # [Source: the manual], (see: the manual), (Sources: a.pdf; b.pdf)
    rf"[(\[](?=[\w.%+\\/-])(?:(?i:{WORD_OF_SOURCE.pattern})\s{{0,2}}:[^()\[\]\n]{{1,300}}"
    # (see manual.pdf, p. 3), [from manual.pdf]
    rf"|(?i:(?:(?:{WORD_OF_SOURCE.pattern}|from|in|из|aus)\b\.?\s{{1,2}})?{FILE}(?:[,;:# ]{{1,3}}[\w.= ,–-]{{1,60}})?)"
    # (Smith 2020), (Smith et al., 2020; Doe & Lee, 2019), [Smith 2020, p. 5]
    r"|(?:(?:see|See|cf\.|e\.g\.|см\.)\s)?(?!(?:January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|"
    r"Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Spring|Summer|Autumn|Fall|Winter|Since|From|Until|In|By|Year|В|С|До|От)\b)"
    rf"{_AUTHORS}(?:,\s(?:pp?\.|с\.|S\.)\s?\d{{1,4}}(?:[–-]\d{{1,4}})?)?(?:;\s{_AUTHORS}){{0,5}})[)\]]"
)
_LINKED_SOURCE: Final = re.compile(
    rf"\[(?:(?:{WORD_OF_SOURCE.pattern})[\s.:#№]{{0,2}}|{FILE}|link|here|ссылка|здесь)\]\([^()\s]{{1,2000}}\)",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(
    r"^[ \t\x00>#*_]{0,12}(?:the |my |a )?(?:(?:final|short|direct|full|краткий|полный|окончательный) )?(?:answer|response|reply|summary|tl;dr|ответ|итог|итого|резюме|"
    r"antwort|réponse|respuesta)[\x00*_]{0,4}[ ]?:[\x00*_]{0,4}(?=[ \t]*\S)",
    re.IGNORECASE | re.MULTILINE,
)
_SPEAKER: Final = re.compile(r"^(?:assistant|ai|bot|ассистент)\s?:\s", re.IGNORECASE)


def without_sources(text: str) -> str:
    """Return an answer of the same length in which links, citations and marks of files are no text."""
    if "[" in text and "](" in text:
        text = _LINKED_SOURCE.sub(nothing, text)
    if "://" in text or "www." in text or "doi:" in text:
        text = _URL.sub(_mask_address, text)
    if ")" in text or "]" in text:
        text = _CITATIONS.sub(nothing, text)
    if ":" in text:
        if "\n" in text:
            text = _LABEL.sub(nothing, text)
        elif label := _LABEL.match(text):
            text = nothing(label) + text[label.end() :]
        if speaker := _SPEAKER.match(text):
            text = nothing(speaker) + text[speaker.end() :]
    return text


def _mask_address(match: re.Match[str]) -> str:
    whole = match[0]
    address = whole.rstrip(_URL_END)
    if whole[len(address) :].startswith(")") and "(" in address:
        address += ")"
    if (
        whole[len(address) :].startswith("](")
        or "](" in whole
        or match.string[match.start() - 1 : match.start()] == "("
    ):
        return whole  # the target of a link
    return "\x00" * len(address) + whole[len(address) :]


def _any(*phrases: str, before: str = "") -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(phrases)}){before}")


_SPACES: Final = re.compile(r"[^\w'’%]+")


@lru_cache(256)  # a sentence is looked at for several reasons
def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a sentence in small letters, without punctuation."""
    return (*_SPACES.sub(" ", text.casefold().replace("’", "'").replace("ё", "е")).split(),)


_OF_LINKS: Final = set_of(
    "see more at read visit for details detail information info link links here learn about the full source sources "
    "url website site page check out also a an this and or on in from via available find you can further please "
    "document documents file files docs documentation online official reference references doc article p pp "
    "см смотрите подробнее подробности ссылка ссылки по на сайте сайт источник источники здесь тут читайте узнать "
    "узнайте больше в о и файл документ документы также стр "
    "mehr siehe unter quelle quellen hier weitere informationen"
)
"""Words that may stand around a link, a citation or a file without a claim."""

_SOURCES: Final = set_of(
    "source sources reference references citation citations bibliography footnotes источник источники ссылки "
    "литература сноски quelle quellen literatur referenzen références fuentes fuente referencias bibliografía"
) | {
    "works cited", "further reading", "source documents", "sources used", "see also", "source files",
    "related documents", "documents used", "retrieved documents", "список литературы", "использованные источники",
    "список источников", "см также",
}  # fmt: skip
"""Lines that name sources, in words."""

_SOURCE: Final = re.compile(
    rf"\W{{0,4}}(?:\[\^?\w{{1,20}}\]|(?:[\w-]{{1,40}} ){{0,5}}{FILE}|doi\b|isbn\b|[A-ZÀ-ÖА-ЯЁ][\w’'-]{{1,40}},? (?:[A-ZА-ЯЁ]\.|et al|и др))",
    re.IGNORECASE,
)
_AUTHOR_IN_LIST: Final = re.compile(r"\W{0,4}[^\W\d_a-zа-яё]")


def begins_sources(text: str) -> bool:
    """Return whether a line names sources and nothing else: `Sources: a.pdf`, `References`."""
    head, colon, rest = text.partition(":") if ":" in text[:60] else (text, "", "")
    if len(head) > 60 or " ".join(words_of(head)) not in _SOURCES:
        return False
    return not rest.strip() or is_source(rest) or (bool(colon) and len(words_of(rest[:400])) <= 12 and ". " not in rest)


def is_source(text: str) -> bool:
    """Return whether a line looks like a source, such as `[1] Smith` or `Smith, J. (2020). Towers.`."""
    return len(text) <= 400 and (
        not words_of(text)
        or (_SOURCE.match(text) is not None and _AUTHOR_IN_LIST.match(text) is not None)
        or is_about_links(text, linked=False)
    )


def is_about_links(text: str, *, linked: bool) -> bool:
    """Return whether a sentence without its links and citations has no claim: `See ... for details.`, `manual.pdf`.

    Args:
        text: the sentence without links and citations.
        linked: whether there was one in it.
    """
    if len(text) > 300 or (not linked and (text.find(".", 0, -2) < 0 or not _EXTENSION.search(text))):
        return False
    if _FILE_NAME.fullmatch(text.strip(" .,;:-–—•📄📎🔗")):
        return True
    return all(word in _OF_LINKS or word.isdigit() for part in _FILE_NAME.split(text) for word in words_of(part))


_EXTENSION: Final = re.compile(rf"{EXTENSION}\b", re.IGNORECASE)


_COURTESY: Final = frozenset({
    "sure thing", "of course", "definitely", "thank you", "thanks for asking", "thank you for asking",
    "you're welcome", "you are welcome", "no problem", "my pleasure", "glad to help", "i'd be glad to help",
    "i can help with that", "i can help you with that", "hi there", "hello there", "hey", "dear user",
    "dear customer", "good luck", "enjoy", "best regards", "kind regards", "regards", "sincerely", "cheers",
    "take care", "alright", "got it", "understood", "here you go", "here it is", "here is the answer",
    "here's the answer", "here is my answer", "let me help", "let me explain", "i hope so", "all the best",
    "have a good day", "absolutely happy to help", "разумеется", "безусловно", "с удовольствием", "рада помочь",
    "добрый день", "добрый вечер", "доброе утро", "с уважением", "удачи", "хорошего дня", "всего доброго",
    "не за что", "спасибо", "вот ответ", "вот мой ответ", "понял", "понятно", "с радостью помогу", "рады помочь",
    "всегда пожалуйста", "ок",
})  # fmt: skip
"""Whole sentences that are courtesy, in small letters without punctuation, beside those that only begin so."""

_OPENING: Final = set_of(
    "sure certainly absolutely ok okay great hello hi please well also and thanks конечно здравствуйте привет хорошо пожалуйста"
)

_COURTESY_BEGINS: Final = (
    "let me know if", "let me know whether", "let us know if", "let me know how", "feel free to", "do not hesitate to", "don't hesitate to",
    "i hope this", "i hope that", "i hope it helps", "hope this", "hope that helps", "hope it helps", "i trust this",
    "if you have any", "if you have more questions", "if you have further", "if you have other", "if you have additional",
    "if you need any", "if you need more", "if you need further", "if you need additional", "if you need help",
    "if you want me to", "if you want more", "if you would like", "if you'd like", "if there is anything else",
    "if there's anything else", "if anything is unclear", "is there anything", "would you like", "do you want me to", "do you want more", "shall i", "should i",
    "can i help you", "how can i help", "what else can i", "anything else", "may i help",
    "i'm happy to help", "i'm here to help", "i am here to help", "i'd be happy to", "i would be happy to", "i'll be happy to", "happy to help", "glad i could help",
    "thank you for your", "thanks for your", "thank you for reaching", "thanks for reaching", "thank you for contacting", "have a great", "have a nice",
    "let me help you", "i'm glad", "it was a pleasure",
    "дайте знать", "дай знать", "сообщите если", "сообщите мне если", "надеюсь", "если у вас", "если у тебя", "если возникнут", "если появятся", "если остались",
    "если нужна", "если нужно", "если вам нужна", "если вам нужно", "если потребуется", "если хотите", "если что то", "не стесняйтесь", "обращайтесь",
    "хотите", "могу ли я", "могу я", "чем еще", "чем я могу", "буду рад", "рад был", "рада была", "рад помочь", "всегда рад", "спасибо за", "спасибо что",
    "благодарим за", "благодарю за", "нужна ли", "нужно ли вам", "есть ли еще",
)  # fmt: skip
"""Begins of sentences that are courtesy as a whole."""

_CLAIM_IN_COURTESY: Final = set_of(
    "because since but although therefore however потому но однако хотя поэтому так weil denn aber jedoch parce car "
    "cependant porque pero aunque perché ma mas porém bo ale dar men fordi"
)

_PRAISE: Final = _any(
    r"(?:(?:sure|yes|well|wow|hi|hello|okay|thanks) ){0,2}(?:(?:that's|that is|this is|it's|what|such) an? )?(?:(?:really|very) )?(?:great|good|excellent|interesting|wonderful|fantastic|important|"
    r"insightful|thoughtful|nice|lovely|brilliant) question(?: to ask)?(?: (?:thanks|thank you) for asking)?",
    r"(?:(?:это|какой) )?(?:(?:очень|действительно) )?(?:хороший|отличный|интересный|прекрасный|замечательный|важный) вопрос",
    r"(?:(?:das ist|was für) eine )?(?:(?:sehr|wirklich) )?(?:gute|tolle|interessante|ausgezeichnete|spannende|wichtige) frage",
    r"(?:(?:c'est|voilà) une |quelle )?(?:très )?(?:(?:bonne|excellente|belle) question|question (?:très )?(?:intéressante|pertinente))",
    r"(?:(?:es|esa es|esta es) una |qué )?(?:muy )?(?:buena|excelente|gran|interesante) pregunta",
    r"(?:(?:questa )?è una |che )?(?:molto )?(?:bella|buona|ottima|eccellente|interessante) domanda",
    r"(?:(?:ess?[at] |esta )?é uma |que )?(?:muito )?(?:boa|ótima|excelente|interessante) pergunta",
    r"(?:to )?(?:(?:bardzo|naprawdę) )?(?:dobre|świetne|ciekawe|doskonałe) pytanie",
    r"(?:(?:este |e )?o )?(?:foarte )?(?:(?:bună|excelentă) întrebare|întrebare (?:foarte )?(?:bună|interesantă|excelentă))",
    r"(?:det är en |vilken )?(?:(?:mycket|väldigt|riktigt) )?(?:bra|utmärkt|intressant) fråga",
    r"(?:det er et |for et )?(?:(?:veldig|meget) )?(?:godt|bra|flott|interessant) spørsmål",
    r"(?:bu )?(?:çok )?(?:iyi|güzel|harika) (?:bir )?soru",
    r"(?:(?:itu|ini) )?(?:adalah )?pertanyaan (?:yang )?(?:sangat )?(?:bagus|menarik|baik)",
    r"(?:(?:đó|đây) là (?:một )?)?câu hỏi (?:rất )?(?:hay|tuyệt vời|thú vị)",
    r"(?:(?:αυτή )?είναι μια )?(?:πολύ )?(?:καλή|εξαιρετική|ωραία|ενδιαφέρουσα) ερώτηση",
    r"(?:(?:זו|זאת) )?שאלה (?:טובה|מצוינת|נהדרת|מעניינת)(?: מאוד)?",
    r"(?:(?:هذا|إنه) )?سؤال (?:جيد|رائع|ممتاز)(?: جداً?)?",
    r"(?:(?:چه|این) )?س[وؤ]ال (?:بسیار )?(?:خوبی?|جالبی?|عالی)(?: است)?",
    r"(?:यह (?:एक )?)?(?:बहुत )?(?:अच्छा|बढ़िया|दिलचस्प) (?:सवाल|प्रश्न)(?: है)?",
    r"(?:这(?:真?是)(?:一?个)?)?(?:非常|很)?(?:好|棒)的?问题|问得好",
    r"(?:とても|非常に)?(?:[良い]い|よい|素晴らしい)ご?質問(?:です)?ね?",
    r"(?:(?:นี่)?เป็น)?คำถาม(?:ที่)?ดี(?:มาก)?(?:ครับ|ค่ะ)?",
)
"""Sentences that praise the question, in the languages of the local labeler."""

_LONGEST_PRAISE: Final = 60

_HOPE_OR_OFFER: Final = _any(
    r"hopefully (?:this|that|it) (?:helps|answers|clarifies|clears)",
    r"(?:ich hoffe|hoffentlich) (?:dass )?(?:(?:das|dies|es|(?:dies|mein)e antwort|diese informationen) (?:\w+ ){0,4}(?:hilft|geholfen|helfen|"
    r"hilfreich|beantwortet|weiter)|(?:hilft|helfen) (?:ihnen|dir|euch)? ?(?:das|dies|diese))",
    r"(?:wenn|falls|sollten|haben|hast) (?:sie|du|ihr) (?:(?:noch|sonst|weitere|mehr|andere|irgendwelche) ){1,2}(?:fragen|hilfe|informationen|details)",
    r"(?:lassen sie es|lass es|lassen sie|lass|geben sie|gib|sagen sie|sag) (?:mich|mir) (?:gerne )?(?:wissen|bescheid)",
    r"zögern sie nicht|zögere nicht|(?:kann|darf) ich (?:ihnen|dir) (?:noch|sonst|weiter)",
    r"(?:j'espère|en espérant) que (?:cela|ça|ceci|cette réponse|ces informations|cette explication) (?:(?:vous|te|pourra|pourront|a|ont|est|sera) ){0,3}"
    r"(?:t'|vous )?(?:aid\w+|util\w+|répond\w*)",
    r"si (?:vous avez|tu as) (?:d'autres|encore des|la moindre|des) question|n'hésitez pas à|n'hésite pas à|(?:faites|fais) moi savoir|"
    r"si (?:vous avez|tu as) besoin d(?:e plus|'autre|'aide)|puis je vous aider",
    r"(?:espero|ojalá) (?:que )?(?:esto|eso|esta respuesta|esta información) (?:(?:te|le|les|haya|sea|resulte) ){0,3}(?:ayud\w+|sirv\w+|servido|útil|aclar\w+)",
    r"si (?:tienes?|tienen|necesitas?|necesitan) (?:(?:más|alguna|otras?|algún|cualquier) ){1,2}(?:preguntas?|dudas?|ayuda|información|detalles)|"
    r"no dudes? en|no duden en|(?:hágame|házmelo) saber|avísame si|(?:hay algo más|en qué más)",
    r"spero che (?:questo|ciò|questa risposta|queste informazioni) (?:(?:ti|vi|le|possa|possano|sia|siano|stato|stata|state) ){0,3}(?:aiut\w+|util\w+|risponda|d'aiuto|essere)",
    r"se (?:hai|ha|avete) (?:altre|ulteriori|bisogno di (?:altre|ulteriori)) (?:domande|informazioni)|non (?:esitare|esiti) a|(?:fammi|mi faccia) sapere",
    r"espero que (?:isso|isto|ess?[at] resposta|esta resposta|estas informações) (?:(?:te|o|a|lhe|tenha|seja|sejam) ){0,3}(?:ajud\w+|úte?i[ls]|esclareça)|espero ter ajudado",
    r"se (?:você )?(?:tiver|precisar de) (?:(?:mais|outras?|alguma) ){1,2}(?:perguntas?|dúvidas?|informações|ajuda)|não hesite em|fique à vontade para|me avise se",
    r"mam nadzieję że (?:to|ta odpowiedź|te informacje) (?:(?:ci|państwu|panu|pani|jest|są|będzie|będą|było) ){0,2}(?:pom\w+|przydatn\w+)",
    r"(?:jeśli|jeżeli) (?:masz|mają państwo|potrzebujesz) (?:(?:jeszcze|więcej|inne|dodatkowe|jakieś|dalsze|dodatkowych) ){1,2}(?:pytania|pytań|informacji|pomocy)|"
    r"daj (?:mi )?znać|nie wahaj się|proszę dać znać",
    r"sper că (?:acest lucru|aceasta|asta|acest răspuns|aceste informații) (?:(?:vă|te|v|a|ți|este|sunt|fost|i) ){0,3}(?:ajut\w*|util\w*|de ajutor)",
    r"dacă (?:mai )?(?:aveți|ai) (?:alte |și alte )?(?:întrebări|nevoie de (?:mai mult|alt|ajutor))|nu (?:ezitați|ezita) să",
    r"(?:jag )?hoppas (?:att )?(?:det|detta|det här|svaret) (?:(?:var|är|har|kan) )?(?:hjälp\w*|till hjälp|besvarar)",
    r"om du (?:har|behöver) (?:(?:några|fler|andra|mer|ytterligare) ){1,2}(?:frågor|hjälp|information)|tveka inte|låt mig veta|hör gärna av",
    r"(?:jeg )?håper (?:at )?(?:det|dette|svaret) (?:(?:var|er|har|kan) )?(?:hjelp\w*|hjalp|til hjelp|nyttig|besvarer)",
    r"(?:hvis|om) du (?:har|trenger) (?:(?:noen|flere|andre|mer|ytterligere) ){1,2}(?:spørsmål|hjelp|informasjon)|ikke nøl|gi meg beskjed|si gjerne fra",
    r"umarım (?:bu )?(?:(?:bilgi|bilgiler|cevap|yanıt|açıklama) )?(?:size )?(?:yardımcı|faydalı|yararlı|işinize)|başka (?:bir )?soru|daha fazla (?:bilgi|yardım|sorunuz)\w* (?:ihtiyac|var|isters)|sormaktan çekinme",
    r"semoga (?:(?:ini|jawaban ini|informasi ini|penjelasan ini) )?(?:(?:dapat|bisa) )?(?:membantu|bermanfaat|berguna)",
    r"(?:jika|kalau|apabila) (?:(?:anda|kamu) )?(?:memiliki|punya|ada|membutuhkan) (?:pertanyaan|informasi|bantuan) (?:lain|lebih|tambahan)|jangan ragu|beri tahu saya jika",
    r"(?:tôi )?(?:hy|hi) vọng (?:rằng )?(?:(?:điều|thông tin|câu trả lời|những thông tin) (?:này|trên) )?(?:(?:sẽ|có thể|đã) )?(?:giúp|hữu ích)",
    r"nếu (?:bạn|anh|chị) (?:có|còn|cần) (?:(?:thêm|bất kỳ) ){0,2}(?:câu hỏi|thắc mắc|hỗ trợ|thông tin)|đừng ngần ngại|hãy cho tôi biết nếu",
    r"ελπίζω (?:(?:αυτό|η απάντηση|αυτές οι πληροφορίες|ότι αυτό) )?(?:(?:να|σας|σε|ήταν) ){0,3}(?:βο[ηή]θ\w*|χρήσιμ\w*)",
    r"[αε]ά?ν (?:έχετε|έχεις|χρειάζεστε|χρειάζεσαι) (?:(?:άλλεσ|άλλη|περισσότερεσ|κάποια|επιπλέον) ){1,2}(?:ερωτήσεισ|ερώτηση|πληροφορίεσ|βοήθεια|απορίεσ)|μη διστάσε",
    r"(?:אני )?מקוו(?:ה|ים) ש(?:זה|התשובה|המידע) (?:(?:היה|היתה) )?(?:עוזר|עזר|יעזור|מועיל|עזרה|עונה)|אם יש (?:לך|לכם) (?:עוד )?שאלות|אל תהסס",
    r"(?:آمل|أتمنى|أرجو|نأمل) أن (?:يكون|تكون|يساعد|تساعد|يفيد|تفيد)\w* (?:هذا|هذه|ذلك|الإجابة)",
    r"(?:إذا|إن) (?:كان|كانت) (?:لديك|لديكم) (?:أي(?:ة)? |المزيد من )?(?:أسئلة|سؤال|الأسئلة|استفسار)|لا تتردد",
    r"امیدوارم (?:که )?(?:این )?(?:(?:پاسخ|اطلاعات|توضیحات) )?(?:(?:به|برای) شما |برایتان )?(?:کمک|مفید)|اگر س[وؤ]ال(?:ات)? (?:دیگر|بیشتر)",
    r"(?:मुझे )?(?:उम्मीद|आशा) है (?:कि )?(?:यह|इससे|ये)(?: जानकारी)?(?: आप(?:की|को|के लिए))? (?:मदद|सहाय|उपयोगी)|(?:यदि|अगर) आप(?:के पास|के|को|का) (?:कोई )?(?:और|अन्य) (?:प्रश्न|सवाल|मदद|जानकारी)|बेझिझक",
    r"我?希望(?:这些?|以上)?(?:信息|回答|内容|解释)?(?:能够?|可以)?(?:对[你您])?(?:有所?)?帮(?:助|到)|(?:如果|若)[你您](?:还|仍)?(?:有|需要)(?:任何)?(?:其他|更多|别的)|如有(?:其他|任何|更多)|(?:请|欢迎)随时",
    r"(?:この|以上の)?(?:回答|情報|説明|これ)?が?(?:少しでも)?(?:お役に立て|参考になれ|ご参考になれ|お役に立ちましたら)|(?:他に|ほかに|さらに)(?:も|何か)?(?:ご質問|質問|ご不明|知りたい)|ご(?:不明な?点|質問)が|お気軽に",
    r"(?:ฉัน|ผม)?หวังว่า(?:ข้อมูล|คำตอบ|สิ่ง)?(?:นี้|นี่|เหล่านี้)?(?:จะ)?(?:ช่วย|เป็นประโยชน์|มีประโยชน์)|(?:หาก|ถ้า)(?:คุณ|ท่าน)?(?:มี|ต้องการ)(?:คำถาม|ข้อสงสัย|ข้อมูล|ความช่วยเหลือ)(?:อื่น|เพิ่ม)|อย่าลังเล",
    before=r"\D{0,120}",
)
"""Sentences that hope to have helped or offer more help, by their first words; no number stands after these."""

_PUNCTUATION: Final = str.maketrans(dict.fromkeys('.,!?;…—–-"“”„«»¡¿*()।。！？，、؟،؛\u0307', " "))
_COLON_INSIDE: Final = re.compile(r"[:：;；]\s{0,3}\w")


def _is_around_answer(text: str) -> bool:
    low = text.casefold().replace("’", "'").replace("i\u0307", "i").replace("ё", "е")
    joined = " ".join(low.translate(_PUNCTUATION).split())
    if len(joined) <= _LONGEST_PRAISE and _PRAISE.fullmatch(joined):
        return True
    return (
        _HOPE_OR_OFFER.fullmatch(joined) is not None
        and _COLON_INSIDE.search(text) is None
        and _CLAIM_IN_COURTESY.isdisjoint(joined.split())
    )


_LEAD_BEGINS: Final = (
    "here is", "here are", "here's", "here's what", "below is", "below are", "the following", "based on", "according to",
    "вот", "ниже", "согласно", "на основе", "на основании", "исходя из", "судя по",
)  # fmt: skip
_LEAD_WORDS: Final = set_of(
    "answer answers summary steps step list overview information info explanation details instructions breakdown table response "
    "following follows below these points facts documents document context sources guide requested found result results quick "
    "ответ ответы шаги шагов список обзор информация сведения объяснение инструкция инструкции таблица следующие следующее "
    "следующим следующих ниже факты документам документов документы контекст контекста контексту источникам нашел нашла нашлось краткий "
    "краткая пункты folgende folgenden schritte"
)
_STOCK_HEADINGS: Final = set_of(
    "answer summary overview steps step instructions details conclusion introduction explanation background result results "
    "solution key points facts takeaways notes note important guide tl dr in short final the short detailed by to and of "
    "response information quick procedure how "
    "ответ итог итоги обзор шаги инструкция инструкции подробности вывод выводы заключение введение объяснение "
    "результат результаты решение ключевые факты моменты важно примечание пошаговая краткий кратко порядок действий "
    "antwort zusammenfassung schritte anleitung fazit réponse résumé étapes respuesta resumen pasos"
)


_FIRST_WORDS: Final = (
    _OPENING
    | {phrase.partition(" ")[0] for phrase in (*_COURTESY, *_COURTESY_BEGINS, *_LEAD_BEGINS)}
    | {"please", "i’m", "i’d", "you’re", "here’s", "let’s", "ещё"}
)


def is_courtesy(text: str) -> bool:
    """Return whether a sentence of an answer is courtesy: `Sure!`, `I hope this helps.`, `Let me know if ...`."""
    if len(text) > 250:
        return False
    if _is_around_answer(text):
        return True
    if text.partition(" ")[0].casefold().strip(".,!:;…—–\"'«") not in _FIRST_WORDS:
        return False
    words = words_of(text)
    while len(words) > 1 and words[0] in _OPENING:
        words = words[1:]
    joined = " ".join(words)
    if joined in _COURTESY or (len(words) == 1 and words[0] in _OPENING):
        return True
    if any(map(str.isdigit, joined)):
        return False
    if text.rstrip().endswith(":") and joined.startswith(_LEAD_BEGINS):
        return True
    if (
        joined.startswith(("here is", "here are", "here's", "вот"))
        and len(words) <= 12
        and not _LEAD_WORDS.isdisjoint(words)
    ):
        return ":" not in text.rstrip(" :")
    if not joined.startswith(_COURTESY_BEGINS) or _COLON_INSIDE.search(text):
        return False
    return _CLAIM_IN_COURTESY.isdisjoint(words) and len(words) <= 30


def is_stock_heading(text: str) -> bool:
    """Return whether a line is a heading without a topic: `Answer`, `Key points:`, `Пошаговая инструкция`."""
    return (
        len(text) <= 60 and text.rstrip()[-1:] not in ".!?" and all(word in _STOCK_HEADINGS for word in words_of(text))
    )


def topic(text: str) -> str:
    """Return the words of a heading, a header row or a line before a list that are not there for the form alone."""
    return " ".join(word for word in text.split() if not all(part in _OF_FORM for part in words_of(word)))


_OF_FORM: Final = (
    _STOCK_HEADINGS
    | _LEAD_WORDS
    | set_of(
        "please action actions name value values description property feature features item items field no type category property "
        "fact question column row number task stage phase parameter detail this these follow use here are is with for as "
        "шаг действие название значение описание свойство параметр поле тип категория вопрос номер этап "
        "schritt aktion name wert beschreibung"
    )
)
"""Words by which headings, header rows and lines before a list only tell the form of what comes."""

_EMPTIED: Final = re.compile(
    rf"[(\[](?=[\w\s,;:.)\]])(?:{WORD_OF_SOURCE.pattern}|also|at|from)?[\s,;:.]{{0,6}}[)\]]", re.IGNORECASE
)


def without_emptied(text: str) -> str:
    """Return a sentence without the brackets in which only links or citations stood."""
    return _EMPTIED.sub(" ", text) if "(" in text or "[" in text else text


_CORE_EN: Final = (
    r"(?:document|doc|context|passage|source|article|excerpt|snippet|search result|knowledge base|reference|material)s?"
)
_GIVEN_EN: Final = r"(?:provided|given|available|retrieved|supplied|above|following|present|attached|relevant|uploaded|current|returned)"
_ANY_EN: Final = rf"(?:(?:{_GIVEN_EN} ){{0,3}}{_CORE_EN}|(?:{_GIVEN_EN} )+(?:text|result|page|file|record|chunk|information|info|data|content|database|report|manual)s?)"
_SAYS_EN: Final = (
    r"(?:say|tell|mention|contain|provide|specify|include|state|indicate|answer|address|give|cover|discuss|describe|explain|reveal|"
    r"list|offer|have|hold|show|disclose|clarify|detail|identify|define|reference|refer|seem|appear)"
)
_FIND_EN: Final = r"(?:find|answer|determine|locate|identify|establish|conclude|infer|confirm|verify|retrieve|find out)"
_CANNOT_EN: Final = (
    r"(?:cannot|can't|can not|could not|couldn't|(?:am |are |is |was |were |'m |'re )?(?:unable to|not able to)|wasn't able to|weren't able to|"
    r"did not|didn't|won't be able to)"
)
_STATED_EN: Final = r"(?:mentioned|specified|stated|disclosed|indicated|discussed|addressed|answered|documented)"
_CORE_RU: Final = r"(?:документ\w*|контекст\w*|источник\w*|отрыв\w*|фрагмент\w*|материал\w*|баз\w+ знаний|(?:предоставлен|приведен|найден|данн|эт|указанн)\w* (?:текст|информаци|данны|стать)\w*|текст\w*)"
_INFO_RU: Final = r"(?:информаци\w*|данн(?:ых|ые)|сведени\w*|ответа?|упоминани\w*)"
_SAYS_RU: Final = r"(?:содерж|указ|упомин|упомян|говор|сказ|сообщ|наш|найд|привод|привед|отвеч|описы|опис|раскр|дает|дают|предостав|уточн|обнаруж)\w*"
_CORE_DE: Final = (
    r"(?:dokument\w*|kontext\w*|text\w*|quelle\w*|unterlagen|abschnitt\w*|auszüge\w*|auszug|passage\w*|informationen)"
)
_SAYS_DE: Final = r"(?:enth\w+|erwähn\w*|genannt|nenn\w*|sag\w*|gesagt|geben|gibt|liefer\w*|beantwort\w*|beschr\w*|angegeben|hervor|steht|stehen|finde\w*|gefunden|ersichtlich|beinhalt\w*)"
_CORE_FR: Final = r"(?:documents?|contexte|textes?|sources?|passages?|extraits?|informations?)"
_SAYS_FR: Final = (
    r"(?:dit|disent|mentionn\w*|contien\w*|précis\w*|fourni\w*|indiqu\w*|perme\w*|donn\w*|répond\w*|parl\w*|comport\w*)"
)
_CORE_ES: Final = r"(?:documentos?|contexto|textos?|fuentes?|pasajes?|información|fragmentos?)"
_SAYS_ES: Final = r"(?:dice\w*|menciona\w*|contiene\w*|indica\w*|proporciona\w*|especifica\w*|incluye\w*|ofrece\w*|responde\w*|señala\w*|aparece\w*)"

_REFUSALS: Final = (
    _any(  # English
        rf"\b(?:i|we) ?{_CANNOT_EN} (?:\w+ )?{_FIND_EN}\b",
        rf"\bi ?{_CANNOT_EN} (?:\w+ )?(?:provide|help|assist|say|tell|access|give|comment|respond|see|offer|discuss|share|advise|"
        r"recommend|complete|fulfill|comply|do (?:that|this|so))\b",
        r"\bi (?:do not|don't|did not|didn't) (?:\w+ )?know\b",
        r"\b(?:i|we) (?:do not|don't|did not|didn't) (?:\w+ )?have (?:\w+ ){0,2}(?:information|access|details?|data|answer|context|knowledge)\b",
        r"\b(?:i am|i'm) (?:not (?:sure|certain|aware|allowed|permitted)|unsure)\b",
        rf"\b{_ANY_EN}(?: \w+){{0,5}}? (?:do not|does not|did not|don't|doesn't|didn't|cannot|can't|fails? to) (?:\w+ ){{0,2}}?{_SAYS_EN}\b",
        rf"\b(?:none|nothing)(?: \w+)? (?:of|in) (?:the |these |those |your )?{_ANY_EN}\b",
        r"\bno (?:\w+ ){0,3}?(?:information|info|mention|answers?)\b(?! (?:desk|booth|cent(?:er|re)|kiosk|sign|board|technology|security|system|sheet|point|office)s?\b)",
        rf"\bno (?:(?:{_GIVEN_EN}|matching|such|suitable) )+{_CORE_EN}\b",
        rf"\bno {_CORE_EN} (?:were |was |are |is )?(?:found|available|mentions?|contains?|about|on|matching|match(?:es)?)\b",
        rf"\b(?:(?:is|are|was|were|been) (?:\w+ )?not|isn't|aren't|wasn't|weren't|not|nowhere) (?:\w+ )?{_STATED_EN}\b(?! (?:in|by) (?:the|an?|his|her|its|their|our) (?!(?:\w+ ){{0,3}}?(?:{_CORE_EN}|text|page|question|information|data|content|list|results?|files?)\b))",
        rf"\b(?:not|n't|nowhere) (?:\w+ )?(?:in|part of|within|among|from|by) (?:the |these |those |your |my |any )?{_ANY_EN}\b",
        r"\b(?:information|answer|detail|details|info|it|this|that)(?: \w+){0,12}? (?:is|are|was|were) (?:not|n't) (?:\w+ )?(?:available|provided|given|found|known|clear|included|present)$",
        r"\b(?:information|answer|details?)(?: \w+){0,6}? (?:isn't|aren't|wasn't) (?:\w+ )?(?:available|provided|given|found|included|present|there)$",
        r"\b(?:not enough|insufficient|not sufficient|lack of|lacks?) (?:\w+ )?(?:information|context|data|details|evidence)\b",
        r"\b(?:not possible|impossible) to (?:answer|determine|say|tell|know|find out|conclude)\b",
        r"\b(?:cannot|can't|can not|could not|couldn't) be (?:answered|determined|inferred|found in|answered from)\b",
        r"^(?:unknown|unanswerable|no answer|not found|n a|none|no idea|not available|no information|not mentioned|not specified|not stated|"
        r"no data|no results?(?: found)?|nothing found|information not (?:found|available|provided))$",
        rf"^unable to (?:\w+ )?(?:{_FIND_EN}|provide|help|assist)\b",
        r"\b(?:beyond|outside)(?: of)? (?:my|the) (?:knowledge|scope)\b",
    ),
    _any(  # Russian
        rf"\b{_CORE_RU}(?: \w+){{0,6}}? (?:не (?:\w+ ){{0,2}}?{_SAYS_RU}|нет\b|отсутству)",
        rf"\b{_INFO_RU}(?: \w+){{0,6}}? (?:не (?:\w+ ){{0,2}}?{_SAYS_RU}|нет$|отсутству)",
        rf"\b(?:нет|недостаточно|отсутству\w+|не имею|не имеется|не располагаю|не владею|не хватает) (?:\w+ ){{0,3}}?{_INFO_RU}",
        r"\bне (?:\w+ )?(?:указан\w*|сказано|говорится|упомянут\w*|упоминается|сообщается|уточняется|приводится)\b",
        rf"\bне (?:\w+ )?{_SAYS_RU} (?:\w+ )?(?:в|из|среди) (?:\w+ )?{_CORE_RU}",
        r"\bя (?:\w+ )?не (?:\w+ )?(?:знаю|могу|нашел|нашла|смог|смогла|сумел\w*|располагаю|имею|владею|уверен\w*|обладаю)\b",
        r"^(?:к сожалению |извините |простите |но )*не (?:знаю|могу|нашел|нашла|смог|смогла|уверен\w*|удалось|найдено)\b",
        r"\bне (?:удалось|удается|могу|можем|смог|смогла) (?:\w+ ){0,2}?(?:найти|определить|обнаружить|установить|ответить|сказать|помочь|предоставить)\b",
        r"\bневозможно (?:\w+ ){0,2}?(?:ответить|определить|сказать|установить|найти)\b",
        r"^(?:неизвестно|нет данных|нет ответа|нет информации|не найдено|не указано|ничего не найдено|информация не найдена)$",
        r"\b(?:затрудняюсь|у меня нет)\b",
    ),
    _any(  # German
        r"\bich (?:\w+ ){0,12}?(?:nicht|keine\w?|nichts)\b",
        r"\b(?:kann|konnte|weiß|weiss|habe|finde) ich (?:\w+ ){0,12}?(?:nicht|keine\w?|nichts)\b",
        rf"\b{_CORE_DE}(?: \w+){{0,8}}? (?:{_SAYS_DE}(?: \w+){{0,8}}? (?:nicht|keine\w?|nichts)\b|(?:nicht|keine\w?|nichts) (?:\w+ ){{0,3}}?{_SAYS_DE})",
        rf"\b{_SAYS_DE} (?:\w+ ){{0,3}}?{_CORE_DE}(?: \w+){{0,6}}? (?:nicht|keine\w?|nichts)\b",
        r"\bkeine\w? (?:\w+ ){0,2}?(?:information\w*|angabe\w*|hinweis\w*|antwort\w*|auskunft)\b",
        r"\bnicht (?:\w+ ){0,2}?(?:erwähnt|genannt|angegeben|hervor|beantwort\w*|ersichtlich)\b",
    ),
    _any(  # French
        r"\b(?:je|nous) (?:ne|n')\s?(?:\w+ ){1,4}?(?:pas|rien|aucune?)\b|\b(?:je|nous) n'\w+ (?:\w+ ){0,2}?(?:pas|rien|aucune?)\b",
        rf"\b{_CORE_FR}(?: \w+){{0,6}}? (?:ne |n')(?:\w+ )?{_SAYS_FR}",
        r"\baucune? (?:\w+ ){0,2}?(?:informations?|mention|réponse|indication)\b",
        r"\bn'est pas (?:\w+ )?(?:mentionn\w+|précis\w+|indiqu\w+|fourni\w*|dans le)\b",
        r"\bil n'y a pas (?:\w+ )?d'?\s?informations?\b",
    ),
    _any(  # Spanish
        r"^(?:(?:lo siento|lamentablemente|desafortunadamente|perdón|disculpe|pero|yo) )*no (?:lo |la )?(?:puedo|pude|he podido|sé|encuentro|encontré|dispongo)\b",
        r"\bno (?:lo |la )?(?:puedo|pude|he podido|sé|encuentro|encontré) (?:\w+ ){0,2}?(?:responder|encontrar|contestar|determinar|ayudar\w*|información|saber)\b",
        r"\bno (?:tengo|dispongo de|cuento con|hay) (?:\w+ ){0,2}?(?:información|datos|respuesta|mención)\b",
        rf"\b{_CORE_ES}(?: \w+){{0,6}}? no (?:\w+ ){{0,2}}?{_SAYS_ES}",
        r"\bno se (?:menciona\w*|indica\w*|especifica\w*|dice|encuentra (?:\w+ )?en|proporciona\w*)\b",
    ),
)
"""Phrases of refusals, over words in small letters without punctuation."""

_AFTER_REFUSAL: Final = re.compile(
    r"^(?:(?:please|so|therefore|thus|hence|additional|further|more|could you|can you|you (?:may|might|can|could|should)|i(?:'d| would)? (?:recommend|suggest|advise)|"
    r"if you (?:can|could|provide|have|share|need|want|would|like)|for (?:more|further)|try|consider|contact|check|consult|"
    r"it (?:may|might) be (?:helpful|useful|best)|(?:based on|from|in|according to|given) (?:the|these|this|my) (?:\w+ ){0,3}(?:context|document|passage|source|information|text)s?$|as an ai|as a (?:large )?language model|i'm (?:sorry|an ai|afraid)|i am (?:sorry|an ai|afraid)|i apologi[sz]e|sorry|unfortunately|my apologies|apologies|"
    r"пожалуйста|к сожалению|извините|простите|сожалею|прошу прощения|приношу извинения|попробуйте|обратитесь|уточните|рекомендую|советую|если вы|возможно вам|как (?:ии|языковая модель|искусственный интеллект)|поэтому|"
    r"es tut mir leid|leider|entschuldigung|bitte|als (?:ki|sprachmodell)|je suis désolée?|désolée?|malheureusement|veuillez|en tant qu|lo siento|lamentablemente|por favor|como (?:ia|modelo|una ia)|consulte)\b)"
)
"""Begins of sentences that may stand beside a refusal: excuses and advice to look elsewhere."""

_EXCUSE: Final = re.compile(
    r"^(?:(?:i'm|i am) (?:very |so |really )?(?:sorry|afraid)(?: about that| for (?:that|the inconvenience|any inconvenience))?|sorry(?: about that)?|unfortunately|(?:my )?apologies|i apologi[sz]e(?: for (?:that|the inconvenience|any inconvenience))?|"
    r"к сожалению|извините|простите|сожалею|прошу прощения|es tut mir leid|leider|entschuldigung|je suis désolée?|désolée?|lo siento|perdón)$"
)

_TURN: Final = re.compile(
    r"(?:[,;:—–]|\.\.\.| -) ?(?:but|however|though|although|while|whereas|yet|instead|(?:it|he|she|they) (?:is|was|were|are) (?!not|un|im)|the answer is|но|однако|хотя|зато|это|aber|jedoch|doch|sondern|mais|cependant|pero|sino|sin embargo|aunque)\b"
    r"|; |: (?=\S)|\b(?:but|however|although|но|однако|aber|jedoch|mais|cependant|pero)\b"
)
_YES_OR_NO: Final = re.compile(r"^(?:yes|no|да|нет|ja|nein|oui|non|sí|si)[,.!:;—–]")
_NEGATIVE: Final = set_of(
    "no not none nothing nowhere cannot unable unknown unanswerable unsure insufficient lack lacks beyond outside impossible n "
    "fail fails don't doesn't didn't can't couldn't isn't aren't wasn't weren't won't wouldn't haven't hasn't не нет ничего "
    "недостаточно невозможно неизвестно затрудняюсь nicht nichts ne aucun aucune rien"
)
_NEGATIVE_PARTS: Final = ("kein", "n't", "n'", "отсутств")
_ONLY_WORDS: Final = bytes(code if code > 127 or chr(code).isalnum() or chr(code) == "'" else 32 for code in range(256))
_LONGEST_REFUSAL: Final = 1500
_NUMBER: Final = re.compile(r"\d+")


def is_refusal(sentences: Sequence[str], question: str) -> bool:
    """Return whether an answer refuses and claims nothing: each of its sentences refuses, excuses or advises.

    A number or a clause after "but" that the question does not have is a claim, so the answer is no plain refusal.

    Args:
        sentences: of the answer, without courtesy and marks.
        question: that was asked.
    """
    if not sentences or sum(map(len, sentences)) > _LONGEST_REFUSAL:
        return False
    low = " ".join(sentences).lower().replace("’", "'")
    if not _may_refuse(low.encode().translate(_ONLY_WORDS).decode().split(), low):
        return False
    question_numbers = frozenset(_NUMBER.findall(question))
    refuses = False
    for text in sentences:
        kind = _part_of_refusal(text, question_numbers)
        if kind is None:
            return False
        refuses |= kind
    return refuses


_STOP_NOTICE: Final = re.compile(
    r"sorry, need more steps to process this request"  # LangGraph 0.2 to 1.0, create_react_agent
    r"|agent stopped due to (?:iteration limit or time limit|max iterations)"  # LangChain, AgentExecutor
    r"|max turns \(\d{1,6}\) exceeded"  # OpenAI Agents, MaxTurnsExceeded
    r"|reached max iterations|max iterations of \d{1,6} reached",  # LlamaIndex, agents
    re.IGNORECASE,
)


def is_stop_notice(response: str) -> bool:
    """Return whether a response is the notice of a framework that stopped its agent at a limit.

    >>> is_stop_notice("Sorry, need more steps to process this request."), is_stop_notice("It is iron.")
    (True, False)
    """
    return _STOP_NOTICE.match(response.strip()) is not None


def _part_of_refusal(text: str, question_numbers: frozenset[str]) -> bool | None:
    low = text.casefold().replace("’", "'").replace("ё", "е").strip()
    if _YES_OR_NO.match(low) or not question_numbers.issuperset(_NUMBER.findall(low)):
        return None
    parts = [part for part in _TURN.split(low) if part and words_of(part)]
    refuses = False
    for part in parts:
        kind = _clause_refuses(" ".join(words_of(part)))
        if kind is None:
            return None
        refuses |= kind
    return refuses


def _may_refuse(words: list[str], text: str) -> bool:
    return not _NEGATIVE.isdisjoint(words) or any(part in text for part in _NEGATIVE_PARTS)


def _clause_refuses(words: str) -> bool | None:
    if _EXCUSE.match(words):
        return False
    is_russian = words[-1] > "Ѐ" or words[0] > "Ѐ"
    if _may_refuse(words.replace("'", " ").split(), words) and any(
        phrases.search(words) for phrases in (_REFUSALS[1:2] if is_russian else (_REFUSALS[0], *_REFUSALS[2:]))
    ):
        return True
    return False if _AFTER_REFUSAL.match(words) or is_courtesy(words) else None
