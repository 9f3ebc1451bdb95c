# ruff: noqa: E501 - the words of the servers are quoted whole
"""What twelve servers say when they refuse a call, in their own words, and what is then asked for."""

import json
from typing import Any

import pytest
from tests.consumers.judge.asking import SECRET, TOWER, judge, with_documents

from ragtide.testing import JudgePrompt, Labels, Raw, Says, ScriptedJudge
from ragtide_consumers.labelers.judge.refusals import About, read_refusal
from ragtide_consumers.labelers.remote.errors import EndpointMisconfigured, EndpointUnavailable

pytestmark = pytest.mark.processes


def openai(message: str, code: str | None = None, param: str | None = None, kind: str = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def vllm(message: str, kind: str = "BadRequestError", code: int = 400) -> Any:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code}


def mistral(*loc: str) -> Any:
    fault = {
        "type": "extra_forbidden",
        "loc": ["body", *loc],
        "msg": "Extra inputs are not permitted",
        "input": "max_tokens",
    }
    return {
        "object": "error",
        "message": {"detail": [fault]},
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


def gemini(message: str, status: str = "INVALID_ARGUMENT", code: int = 400) -> Any:
    return [{"error": {"code": code, "message": message, "status": status}}]


def anthropic(message: str, kind: str = "invalid_request_error") -> Any:
    return {"error": {"code": kind, "message": message, "type": kind, "param": None}}


FORM, LIMIT, LONG, KEY = About.FORM, About.ANSWER_LIMIT, About.LENGTH, About.KEY
MODEL, QUOTA, CONTENT, ADDRESS = About.MODEL, About.QUOTA, About.CONTENT, About.ADDRESS

# Server, status, body, meaning, and what else is read from it.
TABLE: list[tuple[str, int, Any, About, dict[str, Any]]] = [
    ("OpenAI", 400, openai("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more about supported models at the Structured Outputs guide: https://platform.openai.com/docs/guides/structured-outputs", None, None), FORM, {"features": "structured"}),
    ("OpenAI", 400, openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "unsupported_parameter", "max_tokens"), FORM, {"features": "limit_name"}),
    ("OpenAI", 400, openai("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", "unsupported_value", "temperature"), FORM, {"features": "temperature"}),
    ("OpenAI", 400, openai("Unsupported value: 'messages[0].role' does not support 'system' with this model.", "unsupported_value", "messages[0].role"), FORM, {"features": "roles"}),
    ("OpenAI", 400, openai("max_tokens is too large: 8192. This model supports at most 4096 completion tokens, whereas you provided 8192.", "invalid_value", "max_tokens"), LIMIT, {"answer_cap": 4096}),
    ("OpenAI", 400, openai("This model's maximum context length is 4097 tokens. However, you requested 9099 tokens (907 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.", "context_length_exceeded", "messages"), LIMIT, {"window": 4097, "prompt_tokens": 907}),
    ("OpenAI", 400, openai("This model's maximum context length is 128000 tokens. However, your messages resulted in 130012 tokens. Please reduce the length of the messages.", "context_length_exceeded", "messages"), LONG, {"window": 128000, "prompt_tokens": 130012}),
    ("OpenAI", 401, openai("Incorrect API key provided: sk-x. You can find your API key at https://platform.openai.com/account/api-keys.", "invalid_api_key"), KEY, {}),
    ("OpenAI", 404, openai("The model `gpt-9` does not exist or you do not have access to it.", "model_not_found"), MODEL, {}),
    ("OpenAI", 429, openai("You exceeded your current quota, please check your plan and billing details.", "insufficient_quota", None, "insufficient_quota"), QUOTA, {}),
    ("OpenAI", 400, openai("Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt.", "invalid_prompt"), CONTENT, {}),
    ("Azure OpenAI", 400, {"error": {"message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.", "type": None, "param": "prompt", "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}}}}, CONTENT, {}),
    ("Azure OpenAI", 404, {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes, please wait a moment and try again."}}, MODEL, {}),
    ("Azure OpenAI", 401, {"error": {"code": "401", "message": "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an active subscription."}}, KEY, {}),
    ("Azure OpenAI", 404, {"error": {"code": "404", "message": "Resource not found"}}, ADDRESS, {}),
    ("Azure OpenAI", 400, openai("response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later"), FORM, {"features": "structured"}),
    ("Azure OpenAI", 400, openai("Unsupported parameter: 'temperature' is not supported with this model.", None, "temperature"), FORM, {"features": "temperature"}),
    ("vLLM", 400, vllm("'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 8192 tokens and your request has 1430 input tokens (8192 > 8192 - 1430)."), LIMIT, {"window": 8192, "prompt_tokens": 1430}),
    ("vLLM", 400, {"error": vllm("max_tokens=8192 cannot be greater than max_model_len=4096. Please request fewer output tokens.")}, LIMIT, {"window": 4096}),
    ("vLLM", 400, vllm("This model's maximum context length is 6048 tokens. However, you requested 8760 tokens (568 in the messages, 8192 in the completion). Please reduce the length of the messages or completion."), LIMIT, {"window": 6048, "prompt_tokens": 568}),
    ("vLLM", 400, vllm("This model's maximum context length is 4096 tokens. However, your request has 5210 input tokens. Please reduce the length of the input messages."), LONG, {"window": 4096, "prompt_tokens": 5210}),
    ("vLLM", 400, vllm("[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted', 'input': 8192}]"), FORM, {"features": "limit_name"}),
    ("vLLM", 400, vllm("Conversation roles must alternate user/assistant/user/assistant/..."), FORM, {"features": "roles"}),
    ("vLLM", 400, {"error": vllm("System role not supported")}, FORM, {"features": "roles"}),
    ("vLLM", 400, vllm("The provided JSON schema contains features not supported by xgrammar."), FORM, {"features": "structured"}),
    ("vLLM", 404, vllm("The model `judge` does not exist.", "NotFoundError", 404), MODEL, {}),
    ("vLLM", 401, {"error": "Unauthorized"}, KEY, {}),
    ("TGI", 422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 1000 `inputs` tokens and 8192 `max_new_tokens`", "error_type": "validation"}, LIMIT, {"window": 4096, "prompt_tokens": 1000}),
    ("TGI", 422, {"error": "Input validation error: `max_new_tokens` must be <= 512. Given: 8192", "error_type": "validation"}, LIMIT, {"answer_cap": 512}),
    ("TGI", 422, {"error": "Input validation error: `inputs` must have less than 2048 tokens. Given: 2222", "error_type": "validation"}, LONG, {"window": 2048, "prompt_tokens": 2222}),
    ("TGI", 422, {"error": "Input validation error: grammar is not supported", "error_type": "validation"}, FORM, {"features": "grammar"}),
    ("TGI", 422, {"error": "Template error: invalid operation: System role not supported (in <string>:1)", "error_type": "template_error"}, FORM, {"features": "roles"}),
    ("TGI", 422, {"error": "Input validation error: `temperature` must be strictly positive", "error_type": "validation"}, FORM, {"features": "temperature"}),
    ("TGI", 422, "Failed to deserialize the JSON body into the target type: response_format: unknown variant `json_schema`, expected `json_object` or `regex` at line 1 column 1193", FORM, {"features": "structured"}),
    ("llama.cpp", 400, {"error": {"code": 400, "message": "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 4390, "n_ctx": 4096}}, LONG, {"window": 4096, "prompt_tokens": 4390}),
    ("llama.cpp", 500, {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}, LONG, {}),
    ("llama.cpp", 400, {"error": {"code": 400, "message": "Failed to initialize samplers: failed to parse grammar", "type": "invalid_request_error"}}, FORM, {"features": "grammar"}),
    ("llama.cpp", 500, {"error": {"code": 500, "message": "After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results. at row 189, column 164", "type": "server_error"}}, FORM, {"features": "roles"}),
    ("llama.cpp", 400, {"error": {"code": 400, "message": "response_format type must be one of \"text\" or \"json_object\", but got: json_schema", "type": "invalid_request_error"}}, FORM, {"features": "structured"}),
    ("llama.cpp", 401, {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}}, KEY, {}),
    ("Ollama", 404, openai('model "judge" not found, try pulling it first', None, None, "api_error"), MODEL, {}),
    ("Ollama", 400, openai("invalid format: expected \"json\" or a JSON schema"), FORM, {"features": "structured"}),
    ("Ollama", 404, "404 page not found", ADDRESS, {}),
    ("Ollama", 400, openai("the prompt is too long: 9000, model maximum context length: 4096"), LONG, {"window": 4096}),
    ("LiteLLM", 400, {"error": {"message": "litellm.UnsupportedParamsError: gpt-5-nano doesn't support temperature=0.0. Only temperature=1 is supported. To drop unsupported params set `litellm.drop_params = True`. Received Model Group=judge\nAvailable Model Group Fallbacks=None", "type": "None", "param": None, "code": "400"}}, FORM, {"features": "temperature"}),
    ("LiteLLM", 400, {"error": {"message": "litellm.BadRequestError: DeepseekException - Failed to deserialize the JSON body into the target type: response_format: response_format.type `json_schema` is unavailable now at line 1 column 1193", "code": "400"}}, FORM, {"features": "structured"}),
    ("LiteLLM", 400, {"error": {"message": "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - This model's maximum context length is 8192 tokens. However, your messages resulted in 9100 tokens.", "code": "400"}}, LONG, {"window": 8192, "prompt_tokens": 9100}),
    ("LiteLLM", 400, {"error": {"message": "{'error': '/chat/completions: Invalid model name passed in model=judge. Call `/v1/models` to view available models for your key.'}", "type": "None", "param": "None", "code": "400"}}, MODEL, {}),
    ("LiteLLM", 401, {"error": {"message": "Authentication Error, Invalid proxy server token passed. Received API Key = sk-...x", "type": "token_not_found_in_db", "param": "key", "code": "401"}}, KEY, {}),
    ("LiteLLM", 400, {"error": {"message": "litellm.ContentPolicyViolationError: AzureException - The response was filtered", "code": "400"}}, CONTENT, {}),
    ("LiteLLM", 400, {"error": {"message": "Budget has been exceeded! Current cost: 10.1, Max budget: 10.0", "type": "budget_exceeded", "code": "400"}}, QUOTA, {}),
    ("DeepSeek", 400, openai("deepseek-reasoner does not support Json Output.", "invalid_request_error"), FORM, {"features": "structured"}),
    ("DeepSeek", 400, openai("This response_format type is unavailable now", "invalid_request_error"), FORM, {"features": "structured"}),
    ("DeepSeek", 400, openai("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", "invalid_request_error"), LIMIT, {"answer_cap": 8192}),
    ("DeepSeek", 400, openai("Model Not Exist", "invalid_request_error"), MODEL, {}),
    ("DeepSeek", 401, openai("Authentication Fails (no such user)", "invalid_request_error", None, "authentication_error"), KEY, {}),
    ("DeepSeek", 402, openai("Insufficient Balance", "invalid_request_error", None, "unknown_error"), QUOTA, {}),
    ("DeepSeek", 400, openai("Content Exists Risk", "invalid_request_error"), CONTENT, {}),
    ("Mistral", 422, mistral("max_completion_tokens"), FORM, {"features": "limit_name"}),
    ("Mistral", 422, mistral("response_format", "json_schema"), FORM, {"features": "structured"}),
    ("Mistral", 400, {"object": "error", "message": "Invalid model: judge", "type": "invalid_model", "param": None, "code": "1500"}, MODEL, {}),
    ("Mistral", 401, {"detail": "Unauthorized"}, KEY, {}),
    ("Mistral", 400, {"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_prompt", "param": None, "code": "3051"}, LONG, {}),
    ("Mistral", 400, {"object": "error", "message": "Expected last role User or Tool (or Assistant with prefix True) for serving but got system message", "type": "invalid_request_message_order", "code": "3230"}, FORM, {"features": "roles"}),
    ("Gemini", 400, gemini("API key not valid. Please pass a valid API key."), KEY, {}),
    ("Gemini", 400, gemini("Developer instruction is not enabled for models/gemma-3-12b-it"), FORM, {"features": "roles"}),
    ("Gemini", 400, gemini("The input token count (1200293) exceeds the maximum number of tokens allowed (1048576)."), LONG, {"window": 1048576, "prompt_tokens": 1200293}),
    ("Gemini", 400, gemini("Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive). Update the value and try again."), LIMIT, {"answer_cap": 65537}),
    ("Gemini", 400, gemini("JSON mode is not enabled for models/gemma-3-27b-it"), FORM, {"features": "structured"}),
    ("Gemini", 404, gemini("models/gemini-9 is not found for API version v1main, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.", "NOT_FOUND", 404), MODEL, {}),
    ("Gemini", 400, gemini("Request contains an invalid argument."), FORM, {}),
    ("Anthropic", 400, anthropic("max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for claude-3-haiku-20240307"), LIMIT, {"answer_cap": 4096}),
    ("Anthropic", 400, anthropic("prompt is too long: 208656 tokens > 200000 maximum"), LONG, {"window": 200000, "prompt_tokens": 208656}),
    ("Anthropic", 400, anthropic("input length and `max_tokens` exceed context limit: 197202 + 8192 > 200000, decrease input length or `max_tokens` and try again"), LIMIT, {}),
    ("Anthropic", 401, anthropic("invalid x-api-key", "authentication_error"), KEY, {}),
    ("Anthropic", 404, anthropic("model: claude-9", "not_found_error"), MODEL, {}),
    ("Anthropic", 400, anthropic("Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."), QUOTA, {}),
    ("Anthropic", 400, anthropic("Output blocked by content filtering policy"), CONTENT, {}),
    ("Anthropic", 400, anthropic("`temperature` is deprecated for this model."), FORM, {"features": "temperature"}),
    ("Groq", 400, openai("This model does not support response format `json_schema`. See supported models at https://console.groq.com/docs/structured-outputs#supported-models", None, "response_format"), FORM, {"features": "structured"}),
    ("Groq", 400, openai("The model only supports response formats: [json text]."), FORM, {"features": "structured"}),
    ("Groq", 400, openai("`max_completion_tokens` must be less than or equal to `4096`, the maximum value for `max_completion_tokens` is less than the `context_window` for this model", None, "max_completion_tokens"), LIMIT, {"answer_cap": 4096}),
    ("Groq", 413, openai("Request too large for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 9212, please reduce your message size and try again.", "rate_limit_exceeded", None, "tokens"), LIMIT, {"window": 6000, "requested": 9212}),
    ("Groq", 400, openai("Please reduce the length of the messages or completion.", "context_length_exceeded", "messages"), LONG, {}),
    ("Groq", 404, openai("The model `judge` does not exist or you do not have access to it.", "model_not_found"), MODEL, {}),
    ("Groq", 401, openai("Invalid API Key", "invalid_api_key"), KEY, {}),
    ("nginx", 413, "<html>\r\n<head><title>413 Request Entity Too Large</title></head></html>", LONG, {}),
    ("nginx", 404, "<html><head><title>404 Not Found</title></head></html>", ADDRESS, {}),
    ("OpenRouter", 404, openai("No endpoints found that can handle the requested parameters."), FORM, {}),
    ("OpenRouter", 403, openai("Your chosen model requires moderation and your input was flagged for \"violence\"", "403"), CONTENT, {}),
    ("another", 400, {"message": "seed: unknown field"}, FORM, {}),
    ("another", 400, "", FORM, {}),
]  # fmt: skip


@pytest.mark.pure
def test_each_server_is_understood_in_its_own_words() -> None:
    wrong = []
    for server, status, body, about, more in TABLE:
        found = read_refusal(status, body if isinstance(body, str) else json.dumps(body))
        seen = {name: getattr(found, name) for name in more}
        if more.get("features") in found.features:
            seen["features"] = more["features"]
        if found.about is not about or seen != more:
            wrong.append((server, found.message[:90], found.about, about, seen, more))
    assert not wrong, "\n".join(map(str, wrong))
    assert len({server for server, *_ in TABLE} - {"nginx", "OpenRouter", "another"}) == 12


@pytest.mark.pure
def test_the_texts_of_an_interaction_in_a_body_are_not_the_words_of_the_endpoint() -> None:
    detail = [
        {
            "loc": ["body", "x"],
            "msg": "Field required",
            "input": {"text": "max_tokens temperature context length API key"},
        }
    ]
    assert read_refusal(422, json.dumps({"detail": detail})).about is FORM
    assert read_refusal(422, json.dumps({"detail": detail})).features == ()


def refusing(refuses: Any) -> Any:
    """Return a server that refuses requests for which `refuses` returns a body."""

    def answer(prompt: JudgePrompt) -> Any:
        found = refuses(prompt.body)
        return Labels() if found is None else Raw(json.dumps(found[1]).encode(), code=found[0])

    return answer


def form(request: dict[str, Any]) -> str:
    return str(request.get("response_format", {}).get("type", ""))


def too_long(window: int) -> Any:
    """Return the refusals of vLLM with a window, whose tokens are a third of our characters."""

    def refuses(request: dict[str, Any]) -> Any:
        prompt = sum(len(message["content"]) for message in request["messages"]) // 4
        most = request.get("max_tokens", 16)
        if prompt + most <= window:
            return None
        return 400, vllm(
            f"'max_tokens' or 'max_completion_tokens' is too large: {most}. This model's maximum context length is "
            f"{window} tokens and your request has {prompt} input tokens ({most} > {window} - {prompt})."
        )

    return refuses


LESS: dict[str, tuple[Any, int]] = {
    "no schema, in words that name nothing": (lambda r: (400, "Bad request") if form(r) else None, 3),
    "no schema, in a list": (lambda r: (400, gemini("JSON mode is not enabled")) if form(r) else None, 3),
    "no schema, in a detail": (
        lambda r: (422, {"detail": "response_format?"}) if form(r) == "json_schema" else None,
        2,
    ),
    "no temperature, in words that name nothing": (lambda r: (400, {"error": "no"}) if "temperature" in r else None, 4),
    "no temperature": (lambda r: (400, {"message": "temperature is fixed"}) if "temperature" in r else None, 2),
    "another name of the limit": (lambda r: (422, mistral("max_tokens")) if "max_tokens" in r else None, 2),
    "no limit at all": (
        lambda r: (
            (422, {"error": "unknown field max_tokens or max_completion_tokens"})
            if "max_tokens" in r or "max_completion_tokens" in r
            else None
        ),
        3,
    ),
    "a smaller limit": (
        lambda r: (400, openai("max_tokens must be at most 1024")) if r.get("max_tokens", 0) > 1024 else None,
        2,
    ),
    "a limit without a number": (lambda r: (400, openai("max_tokens is too large")) if "max_tokens" in r else None, 2),
    "no system role": (
        lambda r: (
            (500, {"error": {"message": "System role not supported"}}) if r["messages"][0]["role"] == "system" else None
        ),
        2,
    ),
    "no system role, in words that name nothing": (
        lambda r: (400, {}) if r["messages"][0]["role"] == "system" else None,
        6,
    ),
    "a window of 8,192 tokens": (too_long(8192), 2),
    "a window of 4,096 tokens": (too_long(4096), 2),
    "a gateway's error with success": (
        lambda r: (200, {"error": {"message": "response_format is not supported"}}) if form(r) else None,
        3,
    ),
}


@pytest.mark.parametrize("case", LESS)
async def test_what_an_endpoint_refuses_is_asked_for_less_once(server: ScriptedJudge, case: str) -> None:
    refuses, calls = LESS[case]
    server.always = refusing(refuses)
    async with judge(server, attempts=1) as labeler:
        labeling = await labeler.label(TOWER)
        assert labeling.scores["trace.supported_fraction"] == 0.5, labeling.absent
        assert len(server.requests) == calls
        await labeler.label(TOWER.model_copy(update={"question": "Another?"}))
        assert len(server.requests) == calls + 1


async def test_a_small_window_splits_long_documents_and_names_the_setting_where_nothing_fits(
    server: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    server.always = refusing(too_long(4096))
    long = " ".join(f"Filler sentence {n} about nothing at all that matters here." for n in range(300))
    async with judge(server, attempts=1) as labeler:
        labeling = await labeler.label(with_documents(*(document.text for document in TOWER.documents), long))
        assert labeling.scores["trace.supported_fraction"] == 0.5
    server.always = Raw(
        json.dumps(openai("Please reduce the length of the messages.", "context_length_exceeded")).encode(), code=400
    )
    async with judge(server, attempts=1) as labeler:
        labeling = await labeler.label(TOWER)
    assert set(labeling.absent.values()) == {"context_too_long"}
    assert "judge.window_tokens" in capsys.readouterr().out


async def test_another_process_begins_with_what_was_learned(server: ScriptedJudge, async_redis: Any) -> None:
    server.always = refusing(lambda r: (400, "Bad request") if form(r) else None)
    async with judge(server, async_redis, cache_ttl_s=60.0) as labeler:
        await labeler.label(TOWER)
    before = len(server.requests)
    async with judge(server, async_redis, cache_ttl_s=60.0) as labeler:
        await labeler.label(TOWER.model_copy(update={"question": "Another?"}))
    assert len(server.requests) == before + 1


REMEDIES = [
    (Raw(json.dumps(openai("Incorrect API key provided")).encode(), code=401), "judge.api_key"),
    (Raw(json.dumps(gemini("API key not valid.")).encode(), code=400), "judge.api_key"),
    (Raw(json.dumps(openai("Model Not Exist")).encode(), code=400), "judge.model"),
    (Raw(b"404 page not found", code=404), "judge.base_url"),
    (Raw(json.dumps(openai("Insufficient Balance")).encode(), code=402), "balance"),
    (Raw(json.dumps(openai("no", "insufficient_quota")).encode(), code=429), "quota"),
    (Raw(b'{"error": "what?"}', code=400), "judge.structured"),
]


@pytest.mark.parametrize(("refusal", "remedy"), REMEDIES, ids=[remedy for _, remedy in REMEDIES])
async def test_a_refusal_of_all_calls_names_its_own_remedy(server: ScriptedJudge, refusal: Raw, remedy: str) -> None:
    server.always = refusal
    async with judge(server, breaker_pause_s=60) as labeler:
        with pytest.raises(EndpointMisconfigured) as caught:
            await labeler.label(TOWER)
        asked = len(server.requests)
        with pytest.raises(EndpointUnavailable):
            await labeler.label(TOWER.model_copy(update={"question": "Another?"}))
    assert remedy in str(caught.value)
    assert SECRET not in str(caught.value)
    others = {"judge.api_key", "judge.model", "judge.base_url", "balance"} - {remedy}
    assert not any(other in str(caught.value) for other in others if remedy != "quota")
    assert len(server.requests) == asked


REFUSED: dict[str, Any] = {
    "plain words": Says("I'm sorry, but I can't help with this request."),
    "plain words after a thought": Says("<think>Hm {x}</think>Извините, но я не могу помочь с этим."),
    "a part": {"message": {"content": [{"type": "refusal", "refusal": "No."}]}, "finish_reason": "stop"},
    "a field": {"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"},
    "Gemini's reason": {"message": {"role": "assistant"}, "finish_reason": "content_filter: PROHIBITED_CONTENT"},
    "Anthropic's reason": {"message": {"content": ""}, "finish_reason": "refusal"},
    "a native reason": {"message": {"content": ""}, "finish_reason": "stop", "native_finish_reason": "SAFETY"},
    "a blocked prompt": {"choices": [], "promptFeedback": {"blockReason": "SAFETY"}},
    "an error": Raw(json.dumps(openai("Content Exists Risk")).encode(), code=400),
    "an error of moderation": Raw(json.dumps(openai("your input was flagged", "403")).encode(), code=403),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_every_kind_of_refusal_has_its_reason(server: ScriptedJudge, case: str) -> None:
    reply = REFUSED[case]
    if isinstance(reply, dict):
        reply = Raw(json.dumps(reply if "choices" in reply else {"choices": [reply]}).encode())
    server.always = reply
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert set(labeling.absent.values()) == {"judge_refused"}
    assert len(server.requests) == 1


async def test_an_empty_refusal_beside_an_answer_is_none(server: ScriptedJudge) -> None:
    def reply(prompt: JudgePrompt) -> Any:
        message = {"content": Labels().answer(prompt), "refusal": ""}
        return Raw(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())

    server.always = reply
    async with judge(server) as labeler:
        assert (await labeler.label(TOWER)).scores["trace.supported_fraction"] == 0.5
