"""A refusal claims nothing, and an answer that only looks like one claims something."""

import pytest

from ragtide_consumers.text.answers import is_refusal
from ragtide_consumers.text.sentences import locate_sentences

pytestmark = pytest.mark.pure

QUESTION = "When was the harbour bridge opened?"

REFUSALS = (
    "I'm sorry, but the documents do not say when the harbour bridge was opened.",
    "I could not find this in the documents.",
    "I couldn't find any information about that in the provided context.",
    "The context does not say.",
    "The provided context does not contain information about the opening of the bridge.",
    "I don't know.",
    "I do not know the answer to this question.",
    "As an AI I can't answer that.",
    "As an AI language model, I cannot provide medical advice.",
    "Unfortunately, the passage doesn't mention the opening date. Please consult other sources.",
    "Based on the given contexts, it is not mentioned who the first woman golfer in Ireland was.",
    "The first measurement of magnetic force is not mentioned in the given contexts.",
    "I'm sorry, but I cannot help with that request.",
    "There is no information about the opening date in the documents.",
    "No relevant documents were found.",
    "Not enough information to answer the question.",
    "Sorry, I'm unable to answer this question based on the provided documents.",
    "I do not have enough information to answer that.",
    "I don't have access to that information.",
    "The answer cannot be determined from the context.",
    "None of the documents mention the opening of the bridge.",
    "Unknown",
    "Information not available.",
    "This information is not available in the documents.",
    "I was not able to find the opening date. Could you please provide more details?",
    "I could not find this in the documents. Let me know if you need anything else!",
    "К сожалению, в документах нет информации о дате открытия моста.",
    "Я не знаю.",
    "Я не нашёл ответа в предоставленных документах.",
    "В контексте не указано, когда открыли мост.",
    "Не удалось найти информацию об этом.",
    "Документы не содержат ответа на этот вопрос.",
    "Извините, я не могу ответить на этот вопрос.",
    "Как языковая модель, я не могу давать медицинские советы.",
    "В предоставленных источниках об этом не говорится.",
    "Информация о дате открытия моста отсутствует.",
    "Недостаточно данных для ответа.",
    "Es tut mir leid, aber die Dokumente enthalten keine Informationen darüber.",
    "Das weiß ich nicht.",
    "Ich kann diese Frage anhand des Kontexts nicht beantworten.",
    "Ich konnte dazu keine Angaben finden.",
    "Der Kontext sagt nicht, wann die Brücke eröffnet wurde.",
    "Wann die Brücke eröffnet wurde, geht aus den Dokumenten nicht hervor.",
    "Je ne sais pas.",
    "Je suis désolé, mais les documents ne précisent pas la date d'ouverture.",
    "Le contexte ne dit pas quand le pont a été ouvert.",
    "Je n'ai pas trouvé cette information.",
    "Aucune information n'est disponible à ce sujet.",
    "No lo sé.",
    "Lo siento, pero los documentos no mencionan cuándo se inauguró el puente.",
    "El contexto no dice cuándo se abrió el puente.",
    "No pude encontrar esa información.",
    "No tengo información suficiente para responder.",
)
"""Plain refusals, as models word them."""

REFUSALS_IN_FORM = (
    "I'm sorry, but I couldn't find that in the documents you provided.",
    "I am sorry, but the answer is not in the given passages. Please try another question.",
    "Thank you for your question! Unfortunately, the context does not mention the opening. I hope this helps!",
    "I don't know.\n\nSources:\n- a.pdf\n- b.pdf",
    "The documents do not mention it [1][2].\n\nReferences:\n[1] https://example.com/a\n[2] https://example.com/b",
    "**Answer:** The provided documents do not contain this information.",
    "The context does not state when the bridge was opened. Therefore, I cannot answer the question.",
    "Apologies, but I cannot answer this from the available context. Feel free to ask another question!",
    "The passage doesn't say. I'd recommend checking the official website.",
    "There's no mention of the opening date in the retrieved passages.",
    "Es tut mir leid, aber ich kann diese Frage nicht beantworten.",
    "Es tut mir leid. Der Kontext enthält keine Angaben dazu.",
    "Leider geht das aus dem Text nicht hervor. Bitte fragen Sie den Hersteller.",
    "К сожалению, я не могу ответить на этот вопрос. В документах нет нужной информации.",
    "Извините, но в предоставленном контексте об этом ничего не сказано. Обращайтесь!",
    "Здравствуйте! К сожалению, в источниках нет ответа.\n\nИсточники:\n1. a.pdf",
    "Désolé, je ne peux pas répondre à cette question.",
    "Malheureusement, le contexte ne contient pas cette information. Veuillez consulter le site officiel.",
    "Lo siento, no puedo responder a esa pregunta.",
    "Lamentablemente, el contexto no contiene esa información. Por favor, consulte otra fuente.",
    "- The documents do not mention the opening date.\n- I cannot answer the question.",
)
"""With courtesy, excuses, sources, advice, labels and second sentences."""

ANSWERS = (
    "The bridge was opened in 1932.",
    "The documents do not say when, but the bridge was opened in 1932.",
    "The documents do not mention the date. It was opened in March by the king.",
    "I don't know the exact date; it was opened by the king.",
    "The warranty does not cover water damage.",
    "Items cannot be returned after thirty days.",
    "We cannot provide refunds.",
    "The lid is not included in the box.",
    "No, the bridge is closed.",
    "No documents are required for entry.",
    "There is no evidence that vaccines cause autism.",
    "The tower is not available on weekends.",
    "Lei Qiang",
    "The context describes Kim Hong-il's career, but it does not provide his age.",
    "Глютен не содержится в этом продукте.",
    "Товар нельзя вернуть.",
    "Мост не открывали до войны.",
    "В документах не указана дата, но мост открыли при короле.",
    "Данные не хранятся дольше месяца.",
    "Die Brücke wurde nicht eröffnet.",
    "Wir können keine Rückgabe annehmen.",
    "Le pont n'est pas ouvert.",
    "El puente no se abrió.",
    "The policy does not include dental care.",
    "The bridge is not known to have a name.",
    "I could not find the date in the documents. The bridge is painted grey.",
    "She did not know the answer.",
    "He could not find his keys.",
    "The company does not have access to user data.",
    "I'm sorry, but the bridge is closed.",
    "I'm sorry, but you cannot return the item after thirty days.",
    "Sorry, the bridge was opened by the king.",
    "Unfortunately, the warranty does not cover rust.",
    "I don't know the day, but it was in spring.",
    "The documents do not name the king. The bridge was opened in spring.",
    "The contract does not contain a notice period.",
    "The museum does not provide guided tours.",
    "Es tut mir leid, aber die Brücke ist geschlossen.",
    "Leider ist die Brücke gesperrt.",
    "Der Vertrag enthält keine Frist.",
    "К сожалению, мост закрыт на ремонт.",
    "Извините, мост открыт только летом.",
    "Договор не содержит срока действия.",
    "Désolé, le pont est fermé.",
    "Le contrat ne couvre pas les dégâts.",
    "Lo siento, el puente está cerrado.",
    "El contrato no incluye seguro.",
    "Visitors do not need documents.",
    "The context does not say when, but the bridge was opened by the king.",
    "No information desk exists at the station.",
    "The bridge was not mentioned in the treaty of Paris.",
    "The ship is not mentioned in the will of the founder.",
)
"""Answers with a negation or an excuse that claim something."""


def _refuses(text: str, question: str = QUESTION) -> bool:
    return is_refusal([sentence.plain for sentence in locate_sentences(text, answer=True)], question)


def test_a_refusal_is_recognized_in_five_languages() -> None:
    assert [text for text in (*REFUSALS, *REFUSALS_IN_FORM) if not _refuses(text)] == []


def test_an_answer_that_looks_like_a_refusal_claims_something() -> None:
    assert [text for text in ANSWERS if _refuses(text)] == []


def test_a_number_of_the_question_is_no_claim_of_a_refusal() -> None:
    text = (
        "The provided passages do not contain information about orf8, so it is not possible to answer the question "
        "based on the given context."
    )
    assert _refuses(text, "What does the protein orf8 do?")
    assert not _refuses(text, QUESTION)
